//! Secrets are named in configuration, never written there: `{ env: NAME }` or `{ file: PATH }`.
//!
//! The one place below floor 2 that reads the environment and files, so that no room has its own way of doing it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a secret is to be found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Secret {
    /// In this environment variable.
    Env(String),
    /// In this file; white space around it is not part of it.
    File(PathBuf),
}

/// Why a secret could not be read. Never holds the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not there.
    #[error("environment variable {name} is not set")]
    Unset {
        /// The variable's name.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read the secret in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is there and has nothing in it.
    #[error("the secret in {place} is empty")]
    Empty {
        /// Variable or file.
        place: String,
    },
}

/// A secret's text. Debug and Display do not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Revealed(String);

impl Revealed {
    /// The text itself; for the request that needs it, nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Revealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl Secret {
    /// Reads the secret now; files may have been rotated since the last time.
    pub fn reveal(&self) -> Result<Revealed, SecretError> {
        let (text, place) = match self {
            Secret::Env(name) => {
                let text = std::env::var(name).map_err(|_| SecretError::Unset { name: name.clone() })?;
                (text, name.clone())
            }
            Secret::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| SecretError::File { path: path.clone(), source })?;
                (text, path.display().to_string())
            }
        };
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(SecretError::Empty { place });
        }
        Ok(Revealed(trimmed.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_without_its_newline_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let revealed = Secret::File(file.path().to_owned()).reveal().unwrap();
        assert_eq!(revealed.expose(), "s3cret");
        assert_eq!(format!("{revealed:?}"), "[secret]");
    }

    #[test]
    fn a_missing_or_empty_secret_says_where_it_was_looked_for() {
        let error = Secret::Env("ASSAYD_NO_SUCH_VARIABLE".into()).reveal().unwrap_err();
        assert!(error.to_string().contains("ASSAYD_NO_SUCH_VARIABLE"));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(Secret::File(file.path().to_owned()).reveal(), Err(SecretError::Empty { .. })));
    }
}
