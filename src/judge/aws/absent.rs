//! A build without signatures.

use reqwest::Request;

use super::super::attempt::Failure;
use super::super::{BedrockConfig, BuildError};

/// There is none.
pub(crate) enum Signer {}

impl Signer {
    /// Says that this build cannot sign.
    pub fn new(_: &BedrockConfig) -> Result<Self, BuildError> {
        Err(BuildError::NoSignatures)
    }

    /// Never called.
    pub async fn sign(&self, _: &mut Request) -> Result<String, Failure> {
        match *self {}
    }

    /// Never called.
    pub fn has_another(&self, _: &str) -> bool {
        match *self {}
    }
}
