//! `role: gateway`: OTLP in, spans to Kafka. No model, no traces: workers behind the topic evaluate.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::admin::Admin;
use super::app::{address, listen, listen_blocking, unbound};
use super::intake::{Intake, Listeners};
use super::{Addresses, StartError};
use crate::config::Config;
use crate::emit::Recent;
use crate::receive::{self, Door, LeftOut, Raw, Refusal};
use crate::relay::{Forwarded, Relay};
use crate::{metrics, serve};

/// A gateway whose ports are bound, and that does nothing yet.
pub struct Gateway {
    config: Config,
    addresses: Addresses,
    grpc: Option<TcpListener>,
    http: Option<TcpListener>,
    admin: std::net::TcpListener,
    access: serve::Access,
    relay: Arc<Relay>,
    metrics: metrics::Handle,
}

impl Gateway {
    /// Binds all listeners and makes the producer. A taken port or a wrong property shows here; the brokers need not be there.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let grpc = listen("receive.grpc", config.receive.grpc.as_ref().map(|grpc| grpc.listen)).await?;
        let http = listen("receive.http", config.receive.http.as_ref().map(|http| http.listen)).await?;
        let admin = listen_blocking("serve", config.serve.listen)?;
        let access = serve::Access::open(&config.serve)?;
        receive::Guard::open(&config.receive, &[])?;
        let relay = Arc::new(Relay::open(config.relay.clone())?);
        let addresses = Addresses {
            grpc: address("receive.grpc", grpc.as_ref())?,
            http: address("receive.http", http.as_ref())?,
            admin: admin.local_addr().map_err(|source| unbound("serve", config.serve.listen, source))?,
        };
        let metrics = metrics::install()?;
        metrics::receive_limit(config.receive.max_bytes.as_usize());
        Ok(Self { config, addresses, grpc, http, admin, access, relay, metrics })
    }

    /// Where it listens; with the ports that were chosen for port 0.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Runs until `shutdown`, or until a receiver fails; then answers what is in flight and stops.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), StartError> {
        let (ready_in, ready) = watch::channel(serve::Readiness::Ready);
        let state = serve::State {
            metrics: self.metrics,
            readiness: ready,
            recent: Recent::new(&self.config.emit.recent),
            checker: None,
            tracer: None,
            feedback: None,
            desk: None,
            access: self.access,
            runs: None,
            status: None,
        };
        let admin = Admin::start(self.admin, &self.config.serve, state)?;
        let (door, _inside) = receive::open(&self.config.receive);
        let listeners = Listeners { grpc: self.grpc, http: self.http };
        let mut intake = Intake::start(&self.config.receive, listeners, forwarding(door, &self.relay), None);
        metrics::process_ready(true);
        tracing::info!(topic = self.config.relay.topic, "ready: spans go to kafka");
        let failure = tokio::select! {
            () = shutdown => None,
            failure = intake.failed() => Some(failure),
        };
        ready_in.send_replace(serve::Readiness::Stopping);
        metrics::process_ready(false);
        intake.close(self.config.flow.drain.0).await;
        admin.stop();
        failure.map_or(Ok(()), Err)
    }
}

/// A door behind which is not the assembler but the topic.
fn forwarding(door: Door, relay: &Arc<Relay>) -> Door {
    let relay = Arc::clone(relay);
    let forward = move |raw: Raw| -> BoxFuture<'static, Result<LeftOut, Refusal>> {
        let relay = Arc::clone(&relay);
        async move {
            let forwarded = relay.forward(raw.signal, raw.encoding, raw.body, receive::is_own);
            // The relay has said in the log what is wrong.
            let Forwarded { left_out, message } = forwarded.await.map_err(|_| Refusal::NotStored)?;
            Ok(LeftOut { items: left_out, message })
        }
        .boxed()
    };
    door.forwarding(forward)
}
