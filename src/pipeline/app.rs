//! The daemon: binds everything first, runs, and stops in one order whatever the cause.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::admin::{self, Admin};
use super::assembly::Assembly;
use super::intake::{Intake, Listeners};
use super::runs::Keeping;
use super::sessions::Conversations;
use super::{Assayer, StartError, self_check, status, stored};
use crate::config::{self, Config};
use crate::domain::ByteSize;
use crate::emit::{EmitError, Recent, RecentConfig, Sinks, Traces, TracesTask};
use crate::feedback::Feedback;
use crate::receive::{self, Acknowledge, Delivery, Door, KafkaSource, RunningKafka};
use crate::spool::{Replay, Spool};
use crate::{metrics, serve};

/// The part of `flow.drain` that senders have to end their requests: the larger part is for the traces.
const SENDERS_SHARE: u32 = 4;
/// What is left of `flow.drain` for settling, after the sinks' last chance; of a short drain, an eighth.
const SETTLING: Duration = Duration::from_secs(1);
/// How long the Kafka brokers may take to answer the last commit and the goodbye.
const KAFKA_GOODBYE: Duration = Duration::from_secs(10);
/// How long the receiver of the daemon's own spans may take for the last ones.
const TRACES_GOODBYE: Duration = Duration::from_secs(3);

/// A daemon whose ports are bound and whose model is loaded, and that does nothing yet.
pub struct App {
    config: Config,
    addresses: Addresses,
    grpc: Option<TcpListener>,
    http: Option<TcpListener>,
    admin: std::net::TcpListener,
    kafka: Option<KafkaSource>,
    door: (Door, mpsc::Receiver<Delivery>),
    stored: Option<(Spool, Replay)>,
    assayer: Arc<Assayer>,
    sinks: Arc<Sinks>,
    traces: (Traces, TracesTask),
    recent: Recent,
    feedback: Feedback,
    access: serve::Access,
    give_up: CancellationToken,
    metrics: metrics::Handle,
}

/// Where the daemon listens.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// OTLP over gRPC.
    pub grpc: Option<SocketAddr>,
    /// OTLP over HTTP.
    pub http: Option<SocketAddr>,
    /// Metrics, probes, checks, verdicts.
    pub admin: SocketAddr,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every trace has its outcome, or its source keeps its spans for the next start.
    Drained,
    /// `flow.drain` was over before that.
    GaveUp {
        /// Traces without a recorded outcome, or whose verdict some sink did not take.
        traces: usize,
    },
}

impl App {
    /// Binds all listeners, opens all sinks, loads the model. A taken port or a missing model shows here.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let assayer = Assayer::start_kept(&config, Some(&config.data_dir.join("judge")))?;
        Self::bind_with(config, assayer).await
    }

    /// The same with an assayer that exists already.
    pub async fn bind_with(config: Config, assayer: Assayer) -> Result<Self, StartError> {
        let grpc = listen("receive.grpc", config.receive.grpc.as_ref().map(|grpc| grpc.listen)).await?;
        let http = listen("receive.http", config.receive.http.as_ref().map(|http| http.listen)).await?;
        let admin = listen_blocking("serve", config.serve.listen)?;
        let recent = Recent::new(&remembered(&config));
        let feedback = Feedback::open(&config.data_dir.join("feedback"), &config.feedback)?;
        let access = serve::Access::open(&config.serve)?;
        // The receivers open it again for themselves; what is wrong with it must show before anything runs.
        receive::Guard::open(&config.receive, &[])?;
        // Without senders nothing is stored; but what an earlier run has stored still comes in.
        let has_senders = grpc.is_some() || http.is_some() || config.data_dir.join("spool").exists();
        let stored = match config.receive.acknowledge {
            Acknowledge::Stored if has_senders => Some(stored::open(&config.data_dir, &config.spool).await?),
            Acknowledge::Stored | Acknowledge::Admitted => None,
        };
        let kafka = config.receive.kafka.as_ref();
        let kafka = kafka.map(|kafka| KafkaSource::open(kafka, &config.receive)).transpose()?;
        let give_up = CancellationToken::new();
        let sinks = Sinks::open(&config.emit, &config.redact, recent.clone(), give_up.clone())?;
        let traces = Traces::open(config.emit.traces.as_ref())?;
        let addresses = Addresses {
            grpc: address("receive.grpc", grpc.as_ref())?,
            http: address("receive.http", http.as_ref())?,
            admin: admin.local_addr().map_err(|source| unbound("serve", config.serve.listen, source))?,
        };
        for listener in config::exposed(&config) {
            tracing::warn!(
                listener,
                "other machines can reach this listener without a token or a certificate; see docs/security.md"
            );
        }
        let metrics = metrics::install()?;
        metrics::receive_limit(config.receive.max_bytes.as_usize());
        metrics::spool_limit(stored.as_ref().map_or(0, |_| config.spool.max_bytes.0));
        Ok(Self {
            door: receive::open(&config.receive),
            assayer: Arc::new(assayer),
            sinks: Arc::new(sinks),
            traces,
            metrics,
            stored,
            config,
            addresses,
            grpc,
            http,
            admin,
            kafka,
            recent,
            feedback,
            access,
            give_up,
        })
    }

    /// Where it listens; with the ports that were chosen for port 0.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The way in, for a source in this process. Nothing that comes this way is stored.
    pub fn door(&self) -> Door {
        self.door.0.clone()
    }

    /// Runs until `shutdown`, or until a receiver or a sink fails for good; then stops: not ready, receivers stop, the door closes, traces finish,
    /// sinks have them, admin last.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<Ended, StartError> {
        let (ready_in, ready) = watch::channel(serve::Readiness::Starting);
        let concurrency = self.config.flow.concurrency.get();
        let (keeping, runs) = Keeping::start(
            &self.config.gsar,
            &self.config.data_dir,
            Arc::clone(&self.assayer),
            Arc::clone(&self.sinks),
        )?;
        let (door, deliveries) = self.door;
        let closing = door.closing();
        let (spool, replay) = self.stored.unzip();
        let mut kafka = self.kafka.map(|source| source.start(door.clone())).transpose()?;
        let conversations =
            Conversations::start(self.config.assemble.sessions.as_ref(), &self.assayer, &self.sinks);
        let assembly = Assembly::new(
            self.config.assemble.clone(),
            concurrency,
            deliveries,
            closing,
            Arc::clone(&self.assayer),
            Arc::clone(&self.sinks),
            conversations.as_ref().map(Conversations::told),
        );
        let (traces, traces_task) = self.traces;
        let assembly = assembly.followed(traces);
        let state = serve::State {
            metrics: self.metrics,
            readiness: ready,
            recent: self.recent,
            checker: Some(admin::checker(&self.assayer, concurrency)),
            tracer: Some(assembly.tracer()),
            feedback: Some(self.feedback),
            desk: Some(self.assayer.desk().clone()),
            access: self.access,
            runs: Some(runs),
            status: Some(account(self.config.clone(), Arc::clone(&self.assayer), self.addresses)),
        };
        let admin = Admin::start(self.admin, &self.config.serve, state)?;
        let listeners = Listeners { grpc: self.grpc, http: self.http };
        let has_senders = listeners.grpc.is_some() || listeners.http.is_some();
        let mut intake = Intake::start(&self.config.receive, listeners, door, spool.clone().zip(replay));
        let unfinished = assembly.unfinished();
        let mut broken = assembly.broken();
        let mut assembly = tokio::spawn(assembly.run());

        let work = async {
            self.assayer.reached().await?;
            ready_in.send_replace(serve::Readiness::Ready);
            metrics::process_ready(true);
            tracing::info!(model = self.assayer.desk().info().name, "ready");
            let failure = tokio::select! {
                failure = intake.failed() => failure,
                failure = kafka_failed(kafka.as_mut()) => failure,
                failure = sink_broken(&mut broken) => failure,
                never = self_check::run(&self.assayer, self.config.flow.self_check) => match never {},
            };
            Err::<(), _>(failure)
        };
        let failure = tokio::select! {
            () = shutdown => None,
            Err(failure) = work => Some(failure),
        };

        ready_in.send_replace(serve::Readiness::Stopping);
        metrics::process_ready(false);
        if let Some(kafka) = &kafka {
            kafka.stop();
        }
        let patience = self.config.flow.drain.0;
        let drained = tokio::time::timeout(patience, async {
            let finishing = async {
                intake.close(patience / SENDERS_SHARE).await;
                let assembled = (&mut assembly).await;
                if let Some(conversations) = conversations {
                    conversations.finish().await;
                }
                assembled
            };
            tokio::select! {
                finished = finishing => finished,
                never = hurry(&self.sinks, &self.give_up, patience) => match never {},
            }
        });
        let ended = match drained.await {
            Ok(_) => left_behind(self.sinks.abandoned(), spool.is_some() || !has_senders),
            Err(_) => {
                self.give_up.cancel();
                assembly.abort();
                Ended::GaveUp { traces: unfinished.load(Ordering::Relaxed) }
            }
        };
        keeping.stop().await;
        let assayer = Arc::clone(&self.assayer);
        if let Err(error) = tokio::task::spawn_blocking(move || assayer.keep()).await {
            tracing::error!(%error, "writing down what the judge has cost panicked");
        }
        drop(self.sinks);
        // The last who could tell of their work are gone.
        traces_task.finish(TRACES_GOODBYE).await;
        if let Some(spool) = spool {
            spool.close().await;
        }
        if let Some(kafka) = kafka {
            kafka.leave(KAFKA_GOODBYE).await;
        }
        admin.stop();
        match failure {
            Some(failure) => Err(failure),
            None => Ok(ended),
        }
    }
}

impl Addresses {
    /// Says where, in the log.
    pub fn log(&self) {
        if let Some(grpc) = self.grpc {
            tracing::info!(%grpc, "OTLP over gRPC");
        }
        if let Some(http) = self.http {
            tracing::info!(%http, "OTLP over HTTP: /v1/traces, /v1/logs");
        }
        tracing::info!(admin = %self.admin, "console, metrics, probes, checks, verdicts, /v1/systemone: http://{}/", self.admin);
    }
}

/// Stories are for the console: without it none is kept.
fn remembered(config: &Config) -> RecentConfig {
    let mut recent = config.emit.recent.clone();
    if !config.serve.console {
        recent.story_bytes = ByteSize(0);
    }
    recent
}

/// What `GET /v1/status` says, beside readiness.
fn account(config: Config, assayer: Arc<Assayer>, addresses: Addresses) -> serve::Status {
    serve::Status::new(move || status::whole(assayer.status(), &config, addresses))
}

/// While the daemon stops: sinks that are away are waited for until half of the time is over, and attempts under way are cut
/// shortly before its end, so that every trace is settled within it.
async fn hurry(sinks: &Sinks, give_up: &CancellationToken, patience: Duration) -> Infallible {
    let half = patience / 2;
    tokio::time::sleep(half).await;
    sinks.last_call();
    tokio::time::sleep(half - SETTLING.min(patience / 8)).await;
    give_up.cancel();
    std::future::pending().await
}

/// What it means that some sink did not get so many verdicts: nothing is lost if the sources keep the spans.
fn left_behind(verdicts: usize, is_kept: bool) -> Ended {
    if verdicts == 0 {
        return Ended::Drained;
    }
    if !is_kept {
        return Ended::GaveUp { traces: verdicts };
    }
    tracing::warn!(
        verdicts,
        "a sink did not take these verdicts before the stop; their spans are kept, and evaluated again after the next start"
    );
    Ended::Drained
}

/// Ends when a sink takes no verdict any more, such as standard output without its reader.
async fn sink_broken(broken: &mut watch::Receiver<Option<EmitError>>) -> StartError {
    match broken.wait_for(Option::is_some).await.map(|error| error.clone()) {
        Ok(Some(error)) => error.into(),
        // It ends when the assembly does.
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// Ends when Kafka can no longer be read; pends for ever if it is no source.
async fn kafka_failed(kafka: Option<&mut RunningKafka>) -> StartError {
    match kafka {
        Some(kafka) => kafka.failed().await.into(),
        None => std::future::pending().await,
    }
}

pub(super) async fn listen(
    what: &'static str,
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    TcpListener::bind(address).await.map(Some).map_err(|source| unbound(what, address, source))
}

pub(super) fn listen_blocking(
    what: &'static str,
    address: SocketAddr,
) -> Result<std::net::TcpListener, StartError> {
    let listener = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|source| unbound(what, address, source))
}

pub(super) fn address(
    what: &'static str,
    listener: Option<&TcpListener>,
) -> Result<Option<SocketAddr>, StartError> {
    let Some(listener) = listener else { return Ok(None) };
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
    listener.local_addr().map(Some).map_err(|source| unbound(what, unspecified, source))
}

pub(super) fn unbound(what: &'static str, address: SocketAddr, source: std::io::Error) -> StartError {
    StartError::Listen { what, address, source }
}
