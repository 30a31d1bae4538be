//! Signatures after the Standard Webhooks specification: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`, one for
//! each key. Receivers refuse timestamps that are minutes old, so that a recorded request cannot be sent again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::secret::Secret;

/// How the specification writes a key of bytes.
const PREFIX: &str = "whsec_";

/// The keys' bytes, read now.
pub(super) fn keys(configured: &[Secret]) -> Result<Vec<Vec<u8>>, String> {
    let read = configured.iter().map(|secret| {
        let text = secret.reveal().map_err(|error| format!("a key: {error}"))?;
        match text.expose().strip_prefix(PREFIX) {
            Some(encoded) => STANDARD
                .decode(encoded)
                .map_err(|_| format!("a key begins with {PREFIX} and is not base64 after that")),
            None => Ok(text.expose().as_bytes().to_vec()),
        }
    });
    read.collect()
}

/// The header `webhook-signature`.
pub(super) fn signatures(keys: &[Vec<u8>], id: &str, seconds: u64, body: &[u8]) -> String {
    let each = keys.iter().map(|key| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    });
    each.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn the_specifications_example_comes_out() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = signatures(&[key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_key_is_text_or_base64_and_each_key_signs() {
        let file = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            file
        };
        let (plain, encoded, broken) = (file("plain\n"), file("whsec_cGxhaW4="), file("whsec_%%"));
        let read = |file: &tempfile::NamedTempFile| keys(&[Secret::File(file.path().to_owned())]);
        assert_eq!(read(&plain).unwrap(), read(&encoded).unwrap());
        assert!(!read(&broken).unwrap_err().contains("%%"), "a key is never told");
        let both = signatures(&[b"new".to_vec(), b"old".to_vec()], "id", 1, b"{}");
        let alone = signatures(&[b"old".to_vec()], "id", 1, b"{}");
        assert!(both.ends_with(&alone) && both.split(' ').count() == 2);
    }
}
