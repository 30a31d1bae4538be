//! Claim: spans of 1 KB from Kafka become verdicts at 20,000 a second and more on two cores with the broker on the same two, and cost
//! the daemon less than 15 % more CPU than the same records from memory.
//!
//! `tests/kafka/run bench` starts a broker for it. On brokers that run already:
//! `ASSAYD_TEST_BROKERS=host:port cargo bench --bench kafka` (add `-- TRACES`). With `ASSAYD_TEST_BROKERS_PID`, the process of a broker on
//! this machine, its CPU is shown apart.
//!
//! Both sides run in turn, twice, in one process: the same decoder, door, assembler, scripted decision model and file of verdicts. Each is
//! measured from its first verdict to its last, so that joining the group and filling the pipe do not count.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use assayd::config::Config;
use assayd::decide::{self, Scripted};
use assayd::domain::{Inquiry, Period};
use assayd::emit::{Fsync, JsonlConfig, RotateConfig};
use assayd::otlp::{Encoding, Signal};
use assayd::pipeline::{App, Assayer, Ended};
use assayd::receive::{Acknowledge, Arrival, Door, Held, Kafka, Raw};
use assayd::ticket::Promise;
use bytes::Bytes;
use prost::Message;

#[path = "common/allocator.rs"]
mod allocator;
#[path = "common/load.rs"]
mod load;
#[path = "common/topic.rs"]
mod topic;

use load::SPANS_PER_TRACE;
use topic::PADDING;

const PATIENCE: Duration = Duration::from_secs(300);

/// Where the spans come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Memory,
    Kafka,
}

/// What one run took.
struct Took {
    spans_per_second: f64,
    cpu_seconds_per_million: f64,
    broker_seconds_per_million: Option<f64>,
    resident_mb: f64,
}

struct Bench {
    brokers: String,
    topic: String,
    broker_process: Option<String>,
    records: Vec<Bytes>,
}

impl Bench {
    async fn prepare(brokers: String, traces: u64) -> anyhow::Result<Self> {
        let topic = topic::make(&brokers, "spans").await?;
        let records: Vec<Bytes> = (0..traces)
            .map(|number| load::request(load::trace(number, PADDING)).encode_to_vec().into())
            .collect();
        let bytes = topic::fill(&brokers, &topic, records.iter().cloned())?;
        let spans = traces * SPANS_PER_TRACE;
        println!("{traces} traces of {SPANS_PER_TRACE} spans, {} bytes a span, lz4", bytes / spans);
        let broker_process = std::env::var("ASSAYD_TEST_BROKERS_PID").ok();
        Ok(Self { brokers, topic, broker_process, records })
    }

    fn config(&self, source: Source, folder: &Path, group: String) -> anyhow::Result<Config> {
        let mut config = Config::default();
        config.receive.grpc = None;
        config.receive.http = None;
        config.receive.acknowledge = Acknowledge::Admitted;
        config.serve.listen = "127.0.0.1:0".parse()?;
        config.assemble.root_grace = Period::millis(50);
        let rotate = RotateConfig { max_bytes: None, max_age: None, keep: None };
        let path = folder.join("verdicts.jsonl");
        config.emit.jsonl = Some(JsonlConfig { path, fsync: Fsync::Never, rotate });
        config.receive.kafka = (source == Source::Kafka).then(|| Kafka {
            brokers: vec![self.brokers.clone()],
            topics: vec![self.topic.clone()],
            group,
            properties: BTreeMap::new(),
            ..Kafka::default()
        });
        Ok(config)
    }

    async fn run(&self, source: Source, round: usize) -> anyhow::Result<Took> {
        let folder = tempfile::tempdir()?;
        let config = self.config(source, folder.path(), format!("{}-{round}", self.topic))?;
        let desk = decide::start_with(
            Scripted::new(|inquiry: &Inquiry| Ok(load::grounded(inquiry))),
            &config.decide,
        )?;
        let assayer = Assayer::new(&config, desk, None)?;
        let app = App::bind_with(config, assayer).await?;
        let feeding = (source == Source::Memory).then(|| (app.door(), self.records.clone()));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let daemon = tokio::spawn(app.run(async {
            let _ = stopped.await;
        }));
        let feeding = feeding.map(|(door, records)| std::thread::spawn(move || feed(&door, &records)));

        let mut verdicts = Lines::open(&folder.path().join("verdicts.jsonl"))?;
        let deadline = Instant::now() + PATIENCE;
        let mut first = None;
        let (count, began) = loop {
            let count = verdicts.count()?;
            let (begun_count, began) = match first {
                Some(first) => first,
                None if count == 0 => (0, self.now()),
                None => *first.insert((count, self.now())),
            };
            if count >= self.records.len() as u64 {
                break (count - begun_count, began);
            }
            anyhow::ensure!(Instant::now() < deadline, "only {count} verdicts came");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let ended = self.now();
        let _ = stop.send(());
        anyhow::ensure!(daemon.await?? == Ended::Drained, "traces were left behind");
        if let Some(feeding) = feeding {
            feeding.join().map_err(|_| anyhow::anyhow!("the feeding thread panicked"))??;
        }
        let spans = (count * SPANS_PER_TRACE) as f64;
        let millions = spans / 1e6;
        Ok(Took {
            spans_per_second: spans / (ended.clock - began.clock).as_secs_f64(),
            cpu_seconds_per_million: (ended.cpu - began.cpu) / millions,
            broker_seconds_per_million: ended
                .broker
                .zip(began.broker)
                .map(|(after, before)| (after - before) / millions),
            resident_mb: load::spent("self").1,
        })
    }

    fn now(&self) -> Moment {
        Moment {
            clock: Instant::now(),
            cpu: load::spent("self").0,
            broker: self.broker_process.as_ref().map(|process| load::spent(process).0),
        }
    }
}

/// A point in the run.
#[derive(Clone, Copy)]
struct Moment {
    clock: Instant,
    cpu: f64,
    broker: Option<f64>,
}

/// Reads each record and brings its spans to the door, from one thread, as the Kafka consumer does.
fn feed(door: &Door, records: &[Bytes]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for record in records {
            let raw = Raw { signal: Signal::Traces, encoding: Encoding::Protobuf, body: record.clone() };
            door.admit_waiting(Arrival::read(&raw, Promise::unheard())?, Held::default()).await?;
        }
        Ok(())
    })
}

/// Counts the lines of a file that grows.
struct Lines {
    file: File,
    lines: u64,
    buffer: Vec<u8>,
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { file: File::open(path)?, lines: 0, buffer: vec![0; 1 << 20] })
    }

    fn count(&mut self) -> anyhow::Result<u64> {
        loop {
            let read = self.file.read(&mut self.buffer)?;
            if read == 0 {
                return Ok(self.lines);
            }
            self.lines += self.buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }
}

fn mean(runs: &[Took], of: impl Fn(&Took) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

async fn run(brokers: String, traces: u64) -> anyhow::Result<()> {
    let bench = Bench::prepare(brokers, traces).await?;
    let (mut memory, mut kafka) = (Vec::new(), Vec::new());
    for round in 0..2 {
        for (source, runs) in [(Source::Memory, &mut memory), (Source::Kafka, &mut kafka)] {
            let took = bench.run(source, round).await.with_context(|| format!("{source:?}"))?;
            let broker = took.broker_seconds_per_million;
            println!(
                "{source:?}: {:.0} spans/s by the clock; CPU seconds per million spans: {:.2} of the daemon{}; {:.0} MB resident",
                took.spans_per_second,
                took.cpu_seconds_per_million,
                broker.map_or_else(String::new, |seconds| format!(", {seconds:.2} of the broker")),
                took.resident_mb,
            );
            runs.push(took);
        }
    }
    let (of_memory, of_kafka) = (
        mean(&memory, |took| took.cpu_seconds_per_million),
        mean(&kafka, |took| took.cpu_seconds_per_million),
    );
    println!(
        "from Kafka: {:.0} spans/s by the clock; {:+.1} % CPU of the daemon against memory",
        mean(&kafka, |took| took.spans_per_second),
        (of_kafka / of_memory - 1.0) * 100.0
    );
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let Some((brokers, traces)) = topic::asked("kafka", 30_000)? else { return Ok(()) };
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(brokers, traces))
}
