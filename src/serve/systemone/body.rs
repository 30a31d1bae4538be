//! The body's bytes as text, decompressed within the limit: the official client compresses what it sends.

use std::io::Read;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};

use super::Problem;
use crate::serve::reply::{Refusal, TEXT};

/// How far a window of zstd may reach back: 8 MiB, what RFC 8878 recommends that decoders support.
const ZSTD_WINDOW_LOG: u32 = 23;

/// How much is unpacked at a time.
const PIECE: usize = 64 * 1024;

/// The body without its compression, at most `limit` bytes. `hold` is asked for every piece of memory before it is used.
pub(super) fn plain(
    headers: &HeaderMap,
    bytes: Bytes,
    limit: usize,
    hold: impl Fn(usize) -> Result<(), Refusal>,
) -> Result<Bytes, Problem> {
    let Some(encoding) = headers.get(header::CONTENT_ENCODING) else { return Ok(bytes) };
    let garbled = |error: std::io::Error| {
        let message = format!("the body cannot be decompressed: {error}");
        Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    };
    let mut decoder: Box<dyn Read + '_> =
        match encoding.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => return Ok(bytes),
            b"gzip" | b"x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(&bytes[..])),
            b"zstd" => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(&bytes[..]).map_err(garbled)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(garbled)?;
                Box::new(decoder)
            }
            _ => {
                let message = "the content encoding is not known; send gzip, zstd or none";
                return Err(Refusal::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "unsupported_encoding",
                    message,
                )
                .into());
            }
        };
    let mut plain = Vec::new();
    loop {
        hold(TEXT * PIECE)?;
        let read = decoder.by_ref().take(PIECE as u64).read_to_end(&mut plain).map_err(garbled)?;
        if plain.len() > limit {
            let message = format!("the body is larger than {limit} bytes when decompressed");
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).into());
        }
        if read < PIECE {
            return Ok(plain.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding.parse().unwrap())])
    }

    #[test]
    fn bodies_are_decompressed_up_to_the_limit() {
        let text = b"{\"state\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
        let zstd = Bytes::from(zstd::encode_all(&text[..], 3).unwrap());
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        let gzip = Bytes::from(encoder.finish().unwrap());
        for (encoding, bytes) in [("zstd", zstd), ("GZIP", gzip)] {
            assert_eq!(plain(&headers(encoding), bytes.clone(), text.len(), |_| Ok(())).unwrap(), text[..]);
            let Err(Problem::House(refusal)) = plain(&headers(encoding), bytes, text.len() - 1, |_| Ok(()))
            else {
                panic!("{encoding}")
            };
            assert_eq!(refusal.status, StatusCode::PAYLOAD_TOO_LARGE);
        }
    }

    #[test]
    fn a_bomb_is_unpacked_no_further_than_there_is_memory() {
        let bomb = Bytes::from(zstd::encode_all(&vec![b' '; 10 << 20][..], 3).unwrap());
        let held = std::cell::Cell::new(0);
        let hold = |more: usize| {
            held.set(held.get() + more);
            if held.get() > 1 << 20 {
                Err(Refusal::busy("full", std::time::Duration::from_secs(1)))
            } else {
                Ok(())
            }
        };
        let Err(Problem::House(refusal)) = plain(&headers("zstd"), bomb, usize::MAX, hold) else { panic!() };
        assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(held.get() <= (1 << 20) + TEXT * PIECE);
    }

    #[test]
    fn garbage_and_unknown_encodings_are_the_client_s_fault() {
        for (encoding, status) in [("zstd", 400), ("gzip", 400), ("br", 415)] {
            let Err(Problem::House(refusal)) =
                plain(&headers(encoding), Bytes::from_static(b"{}"), 100, |_| Ok(()))
            else {
                panic!("{encoding}")
            };
            assert_eq!(refusal.status.as_u16(), status);
        }
    }
}
