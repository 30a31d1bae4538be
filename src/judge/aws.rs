//! AWS signatures. A build without the feature `bedrock` cannot make them, and says so at the start.

#[cfg(not(feature = "bedrock"))]
mod absent;
#[cfg(feature = "bedrock")]
mod signer;

#[cfg(not(feature = "bedrock"))]
pub(super) use absent::Signer;
#[cfg(feature = "bedrock")]
pub(super) use signer::Signer;

#[cfg(all(test, feature = "bedrock"))]
mod tests;
