//! Listeners that ask nobody who they are.

use std::net::SocketAddr;

use super::Config;
use crate::net::TlsServer;
use crate::secret::Secret;

/// Listeners that other machines can reach without a token or a client's certificate, by their keys.
pub fn exposed(config: &Config) -> Vec<&'static str> {
    let (receive, serve) = (&config.receive, &config.serve);
    let grpc = receive.grpc.as_ref().map(|grpc| grpc.listen);
    let http = receive.http.as_ref().map(|http| http.listen);
    let all = [
        ("receive.grpc", grpc, receive.tls.as_ref(), &receive.tokens),
        ("receive.http", http, receive.tls.as_ref(), &receive.tokens),
        ("serve", Some(serve.listen), serve.tls.as_ref(), &serve.tokens),
    ];
    let open = all
        .into_iter()
        .filter(|(_, listen, tls, tokens)| listen.is_some_and(|listen| is_open(listen, *tls, tokens)));
    open.map(|(name, ..)| name).collect()
}

fn is_open(listen: SocketAddr, tls: Option<&TlsServer>, tokens: &[Secret]) -> bool {
    let knows_clients = tls.is_some_and(|tls| tls.client_ca.is_some());
    !listen.ip().is_loopback() && tokens.is_empty() && !knows_clients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_for_everybody_is_named_until_it_asks_who_is_there() {
        let mut config = Config::default();
        assert_eq!(exposed(&config), Vec::<&str>::new());
        config.serve.listen = "0.0.0.0:8321".parse().unwrap();
        config.receive.grpc.as_mut().unwrap().listen = "[::]:4317".parse().unwrap();
        assert_eq!(exposed(&config), ["receive.grpc", "serve"]);
        config.serve.tokens = vec![Secret::Env("TOKEN".into())];
        let (certificate, key) = ("a".into(), "b".into());
        config.receive.tls = Some(TlsServer { certificate, key, client_ca: Some("c".into()) });
        assert_eq!(exposed(&config), Vec::<&str>::new());
    }
}
