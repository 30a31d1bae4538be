//! Claim: a worker alone that reads a backlog as fast as it can stays below 512 MB, and what it needs levels off.
//!
//! `tests/kafka/run -- cargo bench --bench backlog` starts a broker for it; `-- TRACES` chooses how many (100,000, about 1 GB). The worker
//! is the daemon as it is shipped, in a process of its own, with its own allocator; the load, and a decision model behind HTTP that costs
//! the worker nothing, are in this one.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use prost::Message;

#[path = "common/daemon.rs"]
mod daemon;
#[expect(dead_code, reason = "the model of this bench is behind HTTP")]
#[path = "common/load.rs"]
mod load;
#[path = "common/scripted.rs"]
mod scripted;
#[path = "common/topic.rs"]
mod topic;

use daemon::{Daemon, free_address};
use topic::PADDING;

const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(250);
const TELL: Duration = Duration::from_secs(10);

/// The daemon as a worker.
struct Worker {
    daemon: Daemon,
    admin: SocketAddr,
}

impl Worker {
    fn start(folder: &Path, brokers: &str, topic: &str, model: SocketAddr) -> anyhow::Result<Self> {
        let admin = free_address()?;
        let folder_name = folder.display();
        let settings = format!(
            "role: worker\n\
             receive: {{ kafka: {{ brokers: ['{brokers}'], topics: [{topic}], group: {topic} }} }}\n\
             assemble: {{ root_grace: 100ms }}\n\
             decide: {{ model: {{ systemone: {{ url: 'http://{model}', model: scripted, check_model: false }} }} }}\n\
             emit: {{ jsonl: {{ path: {folder_name}/verdicts.jsonl, fsync: never, rotate: {{ max_bytes: 16MiB, keep: 1 }} }} }}\n\
             serve: {{ listen: '{admin}' }}\n\
             data_dir: {folder_name}/data\n"
        );
        Ok(Self { daemon: Daemon::start(folder, &settings)?, admin })
    }

    /// Traces that have their outcome.
    async fn done(&self) -> u64 {
        let Ok(reply) = reqwest::get(format!("http://{}/metrics", self.admin)).await else { return 0 };
        let text = reply.text().await.unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("assayd_trace_outcomes_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

async fn run(brokers: &str, traces: u64) -> anyhow::Result<()> {
    let topic = topic::make(brokers, "backlog").await?;
    let record = |number| load::request(load::trace(number, PADDING)).encode_to_vec().into();
    let bytes = topic::fill(brokers, &topic, (0..traces).map(record))?;
    println!("a backlog of {traces} traces of {} spans, {} MB", load::SPANS_PER_TRACE, bytes / 1_000_000);
    let folder = tempfile::tempdir()?;
    let model = scripted::serve().await?;
    let worker = Worker::start(folder.path(), brokers, &topic, model)?;
    let began = Instant::now();
    let (mut most, mut told) = (0.0_f64, Instant::now());
    loop {
        tokio::time::sleep(LOOK).await;
        let (cpu, resident) = worker.daemon.spent();
        most = most.max(resident);
        let is_time = told.elapsed() >= TELL;
        let done = worker.done().await;
        if is_time || done >= traces {
            told = Instant::now();
            println!(
                "{:>4.0} s: {done:>7} traces done, {resident:.0} MB resident, {:.2} ms of CPU a trace",
                began.elapsed().as_secs_f64(),
                1e3 * cpu / done.max(1) as f64
            );
        }
        if done >= traces {
            break;
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "only {done} traces are done");
    }
    tokio::time::sleep(TELL).await;
    println!("{most:.0} MB at most, {:.0} MB after ten seconds of rest", worker.daemon.spent().1);
    worker.daemon.stop()
}

fn main() -> anyhow::Result<()> {
    let Some((brokers, traces)) = topic::asked("backlog", 100_000)? else { return Ok(()) };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(&brokers, traces))
}
