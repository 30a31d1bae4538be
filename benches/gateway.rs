//! Claim: a gateway takes spans of 1 KB by OTLP/gRPC and acknowledges them when the brokers have them, at 20,000 spans/s and more on two
//! cores, with the broker and the senders on the same two.
//!
//! `tests/kafka/run bench` starts a broker for it. On brokers that run already:
//! `ASSAYD_TEST_BROKERS=host:port cargo bench --bench gateway` (add `-- TRACES`). With `ASSAYD_TEST_BROKERS_PID`, the process of a broker on
//! this machine, its CPU is shown apart.
//!
//! The gateway is the program itself, as a process of its own, so that its CPU is its own. Each sender waits for its acknowledgement before
//! it sends more, as an SDK's batch processor does. At the end the records in the topic are counted.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tonic::transport::Channel;

#[path = "common/daemon.rs"]
mod daemon;
#[expect(dead_code, reason = "a gateway asks no decision model")]
#[path = "common/load.rs"]
mod load;
#[expect(dead_code, reason = "the gateway fills it")]
#[path = "common/topic.rs"]
mod topic;

use daemon::{Daemon, free_address};
use load::SPANS_PER_TRACE;
use topic::PADDING;

/// Exporters that send at the same time.
const SENDERS: usize = 8;
/// 51 traces of ten spans: about what a batch processor sends at most by default.
const TRACES_PER_REQUEST: u64 = 51;
const PATIENCE: Duration = Duration::from_secs(60);
const MEGABYTE: f64 = 1e6;

/// Where its spans go.
struct Topic {
    brokers: String,
    name: String,
    /// The process of the one broker, if it is on this machine.
    broker: Option<String>,
}

impl Topic {
    async fn make(brokers: String) -> anyhow::Result<Self> {
        let name = topic::make(&brokers, "gateway").await?;
        Ok(Self { brokers, name, broker: std::env::var("ASSAYD_TEST_BROKERS_PID").ok() })
    }

    /// Records that were ever written to it.
    fn records(&self) -> anyhow::Result<u64> {
        let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &self.brokers).create()?;
        let metadata = consumer.fetch_metadata(Some(&self.name), PATIENCE)?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        let mut records = 0;
        for partition in partitions {
            records += u64::try_from(consumer.fetch_watermarks(&self.name, partition.id(), PATIENCE)?.1)?;
        }
        Ok(records)
    }
}

/// The daemon as a gateway.
struct Gateway {
    daemon: Daemon,
    at: String,
    _folder: tempfile::TempDir,
}

impl Gateway {
    async fn start(topic: &Topic) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = free_address()?;
        let daemon = Daemon::start(folder.path(), &settings(topic, address, folder.path()))?;
        let gateway = Self { daemon, at: format!("http://{address}"), _folder: folder };
        let deadline = Instant::now() + PATIENCE;
        while gateway.connect().await.is_err() {
            anyhow::ensure!(Instant::now() < deadline, "the gateway does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(gateway)
    }

    async fn connect(&self) -> anyhow::Result<TraceServiceClient<Channel>> {
        Ok(TraceServiceClient::connect(self.at.clone()).await?)
    }
}

fn settings(topic: &Topic, address: SocketAddr, folder: &Path) -> String {
    format!(
        "role: gateway\nreceive: {{ grpc: {{ listen: '{address}' }}, http: null }}\n\
         relay: {{ brokers: ['{}'], topic: {} }}\nserve: {{ listen: 127.0.0.1:0 }}\ndata_dir: {}\n",
        topic.brokers,
        topic.name,
        folder.display()
    )
}

/// What one round took.
struct Took {
    spans: f64,
    bytes: f64,
    seconds: f64,
    refused: u64,
    gateway: f64,
    senders: f64,
    broker: Option<f64>,
    resident_mb: f64,
}

/// Sends traces until all are sent; gives the bytes of its requests, and how often it was told to come back.
async fn send(
    mut client: TraceServiceClient<Channel>,
    next: Arc<AtomicU64>,
    end: u64,
) -> anyhow::Result<(u64, u64)> {
    let (mut bytes, mut refused) = (0, 0);
    loop {
        let first = next.fetch_add(TRACES_PER_REQUEST, Ordering::Relaxed);
        if first >= end {
            return Ok((bytes, refused));
        }
        let traces = first..end.min(first + TRACES_PER_REQUEST);
        let request = load::request(traces.flat_map(|number| load::trace(number, PADDING)).collect());
        bytes += prost::Message::encoded_len(&request) as u64;
        let deadline = Instant::now() + PATIENCE;
        // Refused means come back: the same request, a little later.
        while let Err(status) = client.export(request.clone()).await {
            anyhow::ensure!(Instant::now() < deadline, "nothing is acknowledged any more: {status}");
            refused += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn round(gateway: &Gateway, topic: &Topic, traces: std::ops::Range<u64>) -> anyhow::Result<Took> {
    let of_broker = || topic.broker.as_ref().map(|process| load::spent(process).0);
    let (gateway_before, senders_before, broker_before) =
        (gateway.daemon.spent().0, load::spent("self").0, of_broker());
    let began = Instant::now();
    let next = Arc::new(AtomicU64::new(traces.start));
    let mut senders = Vec::new();
    for _ in 0..SENDERS {
        let client = gateway.connect().await?;
        senders.push(tokio::spawn(send(client, Arc::clone(&next), traces.end)));
    }
    let (mut bytes, mut refused) = (0, 0);
    for sender in senders {
        let (sent, told) = sender.await??;
        bytes += sent;
        refused += told;
    }
    let seconds = began.elapsed().as_secs_f64();
    let (gateway_after, resident_mb) = gateway.daemon.spent();
    Ok(Took {
        spans: ((traces.end - traces.start) * SPANS_PER_TRACE) as f64,
        bytes: bytes as f64,
        seconds,
        refused,
        gateway: gateway_after - gateway_before,
        senders: load::spent("self").0 - senders_before,
        broker: of_broker().zip(broker_before).map(|(after, before)| after - before),
        resident_mb,
    })
}

fn show(took: &Took) {
    let million = took.spans / 1e6;
    println!(
        "gateway: {:.0} spans/s and {:.0} MB/s by the clock, acknowledged; CPU seconds per million spans: {:.2} of the gateway{}, {:.2} of the \
         senders; {} requests told to come back; {:.0} MB resident",
        took.spans / took.seconds,
        took.bytes / took.seconds / MEGABYTE,
        took.gateway / million,
        took.broker.map_or_else(String::new, |seconds| format!(", {:.2} of the broker", seconds / million)),
        took.senders / million,
        took.refused,
        took.resident_mb,
    );
}

async fn run(brokers: String, traces: u64) -> anyhow::Result<()> {
    let topic = Topic::make(brokers).await?;
    let gateway = Gateway::start(&topic).await?;
    println!(
        "{traces} traces of {SPANS_PER_TRACE} spans a round, {SENDERS} senders, {TRACES_PER_REQUEST} traces a request"
    );
    // The first one pays for connections and for what is known of the topic.
    let warm_up = 2 * SENDERS as u64 * TRACES_PER_REQUEST;
    let mut refused = round(&gateway, &topic, 0..warm_up).await?.refused;
    for number in 0..2 {
        let first = warm_up + number * traces;
        let took = round(&gateway, &topic, first..first + traces).await?;
        refused += took.refused;
        show(&took);
    }
    let (records, sent) = (topic.records()?, warm_up + 2 * traces);
    // What was refused in the middle may be there twice.
    anyhow::ensure!(
        records == sent || (refused > 0 && records > sent),
        "{sent} traces were acknowledged and the topic has {records} records"
    );
    println!("{sent} traces acknowledged, {records} records in the topic");
    gateway.daemon.stop()
}

fn main() -> anyhow::Result<()> {
    let Some((brokers, traces)) = topic::asked("gateway", 30_000)? else { return Ok(()) };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(brokers, traces))
}
