//! Decompression with a cap: a small body may hold a large one.

use std::io::{self, Read};

use bytes::Bytes;

use super::door::Refusal;
use super::intake::Refused;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Compression::None => "identity",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// Of HTTP's `Content-Encoding`.
    pub(super) fn from_header(header: Option<&[u8]>) -> Result<Self, Refused> {
        let Some(header) = header else { return Ok(Compression::None) };
        let name = header.trim_ascii().to_ascii_lowercase();
        match &name[..] {
            b"" | b"identity" | b"none" => Ok(Compression::None),
            b"gzip" | b"x-gzip" => Ok(Compression::Gzip),
            b"zstd" => Ok(Compression::Zstd),
            _ => Err(Refused::ContentEncoding { found: String::from_utf8_lossy(&name).into_owned() }),
        }
    }
}

/// How far a window of zstd may reach back: 8 MiB, what RFC 8878 recommends that decoders support. The window is allocated
/// before the first byte is read, so a header alone must not ask for more.
const ZSTD_WINDOW_LOG: u32 = 23;

/// The decompressed body, at most `limit` bytes. `hold` is asked for every piece of memory before it is used.
pub(super) fn decompress(
    compression: Compression,
    body: Bytes,
    limit: usize,
    hold: impl FnMut(usize) -> Result<(), Refusal>,
) -> Result<Bytes, Refused> {
    let garbled = |source| Refused::Garbled { compression, source };
    let decoder: Box<dyn Read + '_> = match compression {
        Compression::None if body.len() > limit => return Err(Refused::Oversized { limit }),
        Compression::None => return Ok(body),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(&body[..])),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&body[..]).map_err(garbled)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(garbled)?;
            Box::new(decoder)
        }
    };
    read_all(decoder, limit, hold, garbled).map(Bytes::from)
}

fn read_all(
    mut decoder: impl Read,
    limit: usize,
    mut hold: impl FnMut(usize) -> Result<(), Refusal>,
    garbled: impl Fn(io::Error) -> Refused,
) -> Result<Vec<u8>, Refused> {
    const PIECE: usize = 64 * 1024;
    let mut whole = Vec::new();
    loop {
        hold(PIECE)?;
        let filled = whole.len();
        let read = decoder.by_ref().take(PIECE as u64).read_to_end(&mut whole).map_err(&garbled)?;
        if whole.len() > limit {
            return Err(Refused::Oversized { limit });
        }
        if read < PIECE {
            debug_assert_eq!(filled + read, whole.len());
            return Ok(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Bytes {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    fn zstd(bytes: &[u8]) -> Bytes {
        zstd::encode_all(bytes, 3).unwrap().into()
    }

    #[test]
    fn what_was_compressed_comes_back() {
        let body: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
        for (compression, compressed) in [(Compression::Gzip, gzip(&body)), (Compression::Zstd, zstd(&body))]
        {
            let mut held = 0;
            let hold = |more| {
                held += more;
                Ok(())
            };
            assert_eq!(decompress(compression, compressed, body.len(), hold).unwrap(), body);
            assert!(held >= body.len(), "every byte is accounted for");
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit_and_at_the_budget() {
        let zeros = vec![0u8; 10 << 20];
        for (compression, bomb) in [(Compression::Gzip, gzip(&zeros)), (Compression::Zstd, zstd(&zeros))] {
            assert!(bomb.len() < 20_000);
            let mut held = 0;
            let count = |more| {
                held += more;
                Ok(())
            };
            let stopped = decompress(compression, bomb.clone(), 1 << 20, count);
            assert!(matches!(stopped, Err(Refused::Oversized { limit: 1_048_576 })));
            assert!(held < 2 << 20, "the rest was never unpacked");
            let full = decompress(compression, bomb, usize::MAX, |_| Err(Refusal::Full));
            assert!(matches!(full, Err(Refused::Door(Refusal::Full))));
        }
    }

    #[test]
    fn garbage_and_half_a_body_are_refused() {
        for (compression, body) in
            [(Compression::Gzip, gzip(&[7; 5000])), (Compression::Zstd, zstd(&[7; 5000]))]
        {
            let half = body.slice(..body.len() / 2);
            for bad in [half, Bytes::from_static(b"not compressed at all")] {
                let refused = decompress(compression, bad, usize::MAX, |_| Ok(()));
                assert!(matches!(refused, Err(Refused::Garbled { .. })), "{refused:?}");
            }
        }
    }

    #[test]
    fn a_header_that_asks_for_a_huge_window_is_refused() {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(b"small").unwrap();
        encoder.flush().unwrap();
        let body = encoder.finish().unwrap().into();
        let refused = decompress(Compression::Zstd, body, usize::MAX, |_| Ok(()));
        assert!(matches!(refused, Err(Refused::Garbled { .. })), "{refused:?}");
    }

    #[test]
    fn encodings_are_known_by_name() {
        assert_eq!(Compression::from_header(None).unwrap(), Compression::None);
        assert_eq!(Compression::from_header(Some(b" GZIP ")).unwrap(), Compression::Gzip);
        assert_eq!(Compression::from_header(Some(b"zstd")).unwrap(), Compression::Zstd);
        assert!(Compression::from_header(Some(b"br")).is_err());
        assert!(Compression::from_header(Some(b"gzip, zstd")).is_err());
    }
}
