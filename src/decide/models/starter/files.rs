//! The model's files, as shipped in the binary.

use serde::de::DeserializeOwned;

use crate::decide::LoadError;

/// What a starter model is made of: the contents of its files.
#[derive(Clone, Copy)]
pub struct Files {
    /// `config.json`.
    pub config: &'static [u8],
    /// `tokenizer.json`.
    pub tokenizer: &'static [u8],
    /// `idf.json`.
    pub idf: &'static [u8],
    /// `calibration.json`.
    pub calibration: &'static [u8],
    /// `model.safetensors`.
    pub weights: &'static [u8],
}

macro_rules! shipped {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/starter/", $name))
    };
}

/// The files in the binary: pages of the executable, read when touched, and dropped by the system when it needs room.
// No constant: its bytes would be in the library's metadata too.
pub static EMBEDDED: Files = Files {
    config: shipped!("config.json"),
    tokenizer: shipped!("tokenizer.json"),
    idf: shipped!("idf.json"),
    calibration: shipped!("calibration.json"),
    weights: shipped!("model.safetensors"),
};

/// Reads a JSON file of the model.
pub fn json<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, LoadError> {
    serde_json::from_slice(bytes).map_err(|source| invalid(file, source))
}

/// A file that is not what it should be.
pub fn invalid(file: &str, source: impl std::error::Error + Send + Sync + 'static) -> LoadError {
    LoadError::Invalid { file: file.to_owned(), source: Box::new(source) }
}
