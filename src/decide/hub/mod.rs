//! Models from the Hugging Face Hub: found in the shared cache, or downloaded once into it, at a pinned revision.
//!
//! Our own small client over the HTTP client that the daemon has anyway: the `hf-hub` crate brings 93 more crates for chunk
//! storage that these models do not need (1.0), or a second HTTP stack and neither `HF_TOKEN` nor an offline mode (0.5). The
//! cache has the layout of the Hub's own tools, so what they have downloaded is found, and the other way round.

mod cache;
mod client;
mod error;
mod pull;
mod settings;
#[cfg(test)]
mod tests;

pub use cache::{Cache, CachedModel};
pub use error::HubError;
pub use pull::{Progress, Pull, pull};
pub use settings::{HubId, HubSettings};
