//! `assayd demo`: the main job in one command. The real daemon on loopback ports, real traces through a real OTLP client.

mod play;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};

use super::{Voice, table};
use crate::config::Config;
use crate::domain::{ByteSize, Period, Story, TraceId, Verdict};
use crate::pipeline::{Addresses, App};
use crate::receive::{Acknowledge, Grpc, Http};

/// Verdicts of bundled traces must be there by then.
const PATIENCE: Duration = Duration::from_secs(90);

/// See the main job: starts the daemon, sends bundled real traces to it, prints the verdicts
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  assayd demo          a few seconds
  assayd demo --keep   the daemon stays up: send your own spans to it, look at its metrics")]
pub struct Args {
    /// Leave the daemon running until Ctrl-C
    #[arg(long)]
    keep: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = config();
    super::log(&config.log, Voice::Quiet)?;
    super::count()?;
    super::runtime()?.block_on(async move {
        let signals = super::serve::Signals::listen()?;
        let app = App::bind(config).await?;
        let addresses = app.addresses();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let daemon = tokio::spawn(app.run(async move {
            // Either end of the channel may go first; both mean stop.
            let _ = stopped.await;
        }));
        let stopping = signals.first();
        tokio::pin!(stopping);
        let shown = tokio::select! {
            shown = show(&addresses) => shown,
            () = &mut stopping => Err(Interrupted.into()),
        };
        if args.keep && shown.is_ok() {
            super::print(&format!("\n{}", staying(&addresses)))?;
            stopping.await;
        }
        drop(stop);
        daemon.await.context("the daemon's task failed")??;
        shown.map(|()| ExitCode::SUCCESS)
    })
}

/// Somebody wants no more of it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
struct Interrupted;

/// The defaults, on ports that are free, in memory, and with less patience for late spans.
fn config() -> Config {
    let mut config = Config::default();
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    config.receive.grpc = Some(Grpc { listen: free });
    config.receive.http = Some(Http { listen: free });
    config.receive.acknowledge = Acknowledge::Admitted;
    config.receive.max_bytes = ByteSize::mib(64);
    config.serve.listen = free;
    config.assemble.root_grace = Period::millis(500);
    config.assemble.idle = Period::seconds(2);
    config.emit.stdout = Some(false);
    config
}

async fn show(addresses: &Addresses) -> anyhow::Result<()> {
    let grpc = addresses.grpc.context("the demo needs its OTLP/gRPC listener")?;
    let recording = play::recording()?;
    super::print(&format!(
        "assayd {} is up: OTLP/gRPC on {grpc}, metrics on http://{}/metrics\n\
         sending {} recorded traces of {} instrumentations in {} interleaved requests\n\n",
        env!("CARGO_PKG_VERSION"),
        addresses.admin,
        recording.traces(),
        recording.runs,
        recording.requests.len(),
    ))?;
    let stories = recording.stories();
    let wanted = recording.traces();
    play::send(grpc, recording.requests).await?;
    super::print(&table::head())?;
    let verdicts = await_verdicts(addresses, wanted, &stories).await?;
    let metrics = fetch(&format!("http://{}/metrics", addresses.admin)).await?;
    super::print(&summary(&verdicts, &metrics))
}

/// Prints verdicts as they come, until each trace has one.
async fn await_verdicts(
    addresses: &Addresses,
    wanted: usize,
    stories: &HashMap<TraceId, Story>,
) -> anyhow::Result<Vec<Verdict>> {
    let url = format!("http://{}/v1/verdicts?limit=1000", addresses.admin);
    let mut shown: HashMap<TraceId, Verdict> = HashMap::new();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while shown.len() < wanted {
        if tokio::time::Instant::now() > deadline {
            bail!("only {} of {wanted} traces have a verdict after {PATIENCE:?}", shown.len());
        }
        let page: VerdictPage = serde_json::from_str(&fetch(&url).await?)?;
        for verdict in page.verdicts.into_iter().rev() {
            let Some(trace_id) = verdict.trace_id else { continue };
            if shown.contains_key(&trace_id) {
                continue;
            }
            super::print(&table::line(&verdict, stories))?;
            shown.insert(trace_id, verdict);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(shown.into_values().collect())
}

#[derive(serde::Deserialize)]
struct VerdictPage {
    verdicts: Vec<Verdict>,
}

async fn fetch(url: &str) -> anyhow::Result<String> {
    Ok(reqwest::get(url).await?.error_for_status()?.text().await?)
}

/// What the metrics say, without the buckets.
fn summary(verdicts: &[Verdict], metrics: &str) -> String {
    const SHOWN: &[&str] = &[
        "assayd_receive_spans_total",
        "assayd_trace_outcomes_total",
        "assayd_verdicts_total",
        "assayd_claims_total",
        "assayd_cascade_answers_total",
    ];
    let model = verdicts.first().map_or("-", |verdict| verdict.provenance.decider.as_str());
    let mut text = format!(
        "\ndecision model: {model}; no judge is configured, so what it is unsure of stays unsure\n\nmetrics:\n"
    );
    let mut lines: Vec<&str> = metrics
        .lines()
        .filter(|line| SHOWN.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0"))
        .collect();
    lines.sort_unstable();
    for line in lines {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn staying(addresses: &Addresses) -> String {
    let grpc = addresses.grpc.map(|address| address.to_string()).unwrap_or_default();
    let http = addresses.http.map(|address| address.to_string()).unwrap_or_default();
    format!(
        "still running, with its console on http://{}/; Ctrl-C stops it\n  export OTEL_EXPORTER_OTLP_ENDPOINT=http://{grpc}   (gRPC; HTTP: http://{http})\n  \
         curl -N -H 'Accept: text/event-stream' http://{}/v1/verdicts\n",
        addresses.admin, addresses.admin
    )
}
