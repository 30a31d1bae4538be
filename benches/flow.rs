//! Claim: OTLP/gRPC in to verdict out, with a scripted decision model, takes at least 30,000 spans per second on two cores,
//! with the load generator on the same two cores.
//!
//! `cargo bench --bench flow` (add `-- SECONDS` for a longer run; memory is shown at the start and at the end).

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use assayd::config::Config;
use assayd::decide::{self, Scripted};
use assayd::domain::{Inquiry, Period};
use assayd::emit::{Fsync, JsonlConfig};
use assayd::pipeline::{App, Assayer, Ended};
use assayd::receive::{Acknowledge, Grpc};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;

#[path = "common/allocator.rs"]
mod allocator;
#[path = "common/load.rs"]
mod load;

use load::SPANS_PER_TRACE;

/// Exporters that send at the same time; each waits for its reply, as an SDK's batch processor does.
const SENDERS: u64 = 4;
/// 51 traces of ten spans: about what a batch processor sends at most by default.
const TRACES_PER_REQUEST: u64 = 51;

async fn send(at: String, next: Arc<AtomicU64>, until: Instant) -> io::Result<u64> {
    let mut client = TraceServiceClient::connect(at).await.map_err(io::Error::other)?;
    let mut traces = 0;
    while Instant::now() < until {
        let first = next.fetch_add(TRACES_PER_REQUEST, Ordering::Relaxed);
        let message = load::request(
            (first..first + TRACES_PER_REQUEST).flat_map(|number| load::trace(number, 0)).collect(),
        );
        // Refused means come back: the same request, a little later.
        while client.export(message.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        traces += TRACES_PER_REQUEST;
    }
    Ok(traces)
}

async fn run(seconds: u64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let verdicts = folder.path().join("verdicts.jsonl");
    let mut config = Config::default();
    config.receive.grpc = Some(Grpc { listen: "127.0.0.1:0".parse()? });
    config.receive.http = None;
    config.receive.acknowledge = Acknowledge::Admitted;
    config.serve.listen = "127.0.0.1:0".parse()?;
    config.assemble.root_grace = Period::millis(50);
    config.emit.jsonl =
        Some(JsonlConfig { path: verdicts.clone(), fsync: Fsync::Never, ..JsonlConfig::default() });
    let desk =
        decide::start_with(Scripted::new(|inquiry: &Inquiry| Ok(load::grounded(inquiry))), &config.decide)?;
    let assayer = Assayer::new(&config, desk, None)?;
    let app = App::bind_with(config, assayer).await?;
    let at = format!("http://{}", app.addresses().grpc.expect("it listens"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let daemon = tokio::spawn(app.run(async {
        let _ = stopped.await;
    }));

    let (cpu_before, memory_before) = load::spent("self");
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    let next = Arc::new(AtomicU64::new(0));
    let senders: Vec<_> =
        (0..SENDERS).map(|_| tokio::spawn(send(at.clone(), Arc::clone(&next), until))).collect();
    let mut traces = 0;
    for sender in senders {
        traces += sender.await??;
    }
    let _ = stop.send(());
    let ended = daemon.await??;
    let took = started.elapsed().as_secs_f64();
    let (cpu_after, memory_after) = load::spent("self");
    anyhow::ensure!(ended == Ended::Drained, "traces were left behind: {ended:?}");

    let cpu = cpu_after - cpu_before;
    let spans = (traces * SPANS_PER_TRACE) as f64;
    let mut written = 0;
    for file in std::fs::read_dir(folder.path())? {
        written += std::fs::read_to_string(file?.path())?.lines().count() as u64;
    }
    println!(
        "{traces} traces of {SPANS_PER_TRACE} spans sent and drained in {took:.1} s; verdicts in the kept files: {written}"
    );
    println!("{:.0} spans/s by the clock", spans / took);
    println!("{:.0} spans per CPU second, load generator included (two cores: twice that)", spans / cpu);
    println!("resident: {memory_before:.0} MB before, {memory_after:.0} MB after");
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let is_test = std::env::args().any(|argument| argument == "--test");
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(if is_test { 1 } else { 10 });
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(seconds))
}
