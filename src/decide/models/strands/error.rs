//! Why a checkpoint cannot be loaded. Each message names the file and what in it is wrong.

use std::path::PathBuf;

use crate::error::Fault;

/// Why a checkpoint cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that must be there is not.
    #[error("{} is missing: {why}", path.display())]
    Missing {
        /// The file or folder.
        path: PathBuf,
        /// What it is needed for.
        why: &'static str,
    },
    /// Two files that exclude each other.
    #[error("{} holds both {first} and {second}: keep the one that belongs to it", path.display())]
    Ambiguous {
        /// The folder.
        path: PathBuf,
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A file is not JSON, or not of the expected form.
    #[error("{} is not what it should be: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// A setting that this engine does not support.
    #[error("{}: {key} is {found}, supported is {supported}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What it may be.
        supported: String,
    },
    /// A file is not safetensors.
    #[error("{} is no readable safetensors file: {message}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A tensor is not there.
    #[error("{}: tensor {tensor} is missing (expected shape {expected:?})", path.display())]
    NoTensor {
        /// The file, or the folder if there are several.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape that it should have.
        expected: Vec<usize>,
    },
    /// A tensor has another shape.
    #[error("{}: tensor {tensor} has shape {found:?}, expected {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape that it should have.
        expected: Vec<usize>,
        /// The shape that it has.
        found: Vec<usize>,
    },
    /// A tensor has a type that weights do not have.
    #[error("{}: tensor {tensor} is of type {found}, expected BF16, F16 or F32", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: String,
    },
    /// An adapter tensor that belongs to nothing.
    #[error("{}: adapter tensor {tensor} {why}", path.display())]
    Adapter {
        /// The adapter's file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file is not the one that was published.
    #[error("{}: SHA-256 is {found}, but {} says {expected}", path.display(), listed_in.display())]
    Hash {
        /// The file.
        path: PathBuf,
        /// What it hashes to.
        found: String,
        /// What it should hash to.
        expected: String,
        /// The file that says so.
        listed_in: PathBuf,
    },
    /// The tokenizer cannot be used.
    #[error("{} is no usable tokenizer: {message}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The base model is nowhere to be found.
    #[error(
        "base model {base:?} of {} is not on this machine; looked at {looked_at:?}; name its folder, or pull it",
        checkpoint.display()
    )]
    NoBase {
        /// The checkpoint's folder.
        checkpoint: PathBuf,
        /// The base model's name.
        base: String,
        /// Folders that were looked at.
        looked_at: Vec<PathBuf>,
    },
    /// The threads of a forward pass could not be started.
    #[error("cannot start the model's threads: {0}")]
    Threads(rayon::ThreadPoolBuildError),
    /// The device is not there, or could not take the weights.
    #[error("cannot use the device: {0}")]
    Device(#[from] candle_core::Error),
}

impl LoadError {
    /// All of them need a person.
    pub fn fault(&self) -> Fault {
        Fault::Fatal
    }
}
