//! What all listeners and clients of the house share: connections accepted under limits, HTTP/1.1 on them, TLS on both sides,
//! bearer tokens, addresses that are not called.

mod accept;
mod config;
mod http1;
mod special;
mod stream;
mod tls;
mod tokens;

pub use accept::{Limits, accept};
pub use config::{TlsClient, TlsServer};
pub use http1::serve_http1;
pub use special::AddressGuard;
pub use stream::Connection;
pub use tls::{Acceptor, TlsError};
pub use tokens::Tokens;
