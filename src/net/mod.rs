//! What all listeners and clients of the house share: connections accepted under limits, TLS on both sides, bearer tokens.

mod accept;
mod config;
mod stream;
mod tls;
mod tokens;

pub use accept::{Limits, accept};
pub use config::{TlsClient, TlsServer};
pub use stream::Connection;
pub use tls::{Acceptor, TlsError};
pub use tokens::Tokens;
