//! Somebody sets the machine's clock, forward and back by an hour. Linux only: `clock.c`, built here with `cc` and preloaded, plays
//! that for one process; where it cannot be built or preloaded, the test says so and passes.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::daemon::{Daemon, PATIENCE, settings};
use super::traffic::{Heard, Sender, all_have_verdicts, each_has_one_verdict, halves, trace, written};

const HOUR: i64 = 3_600;
/// How long a trace waits for stragglers once its root is there. Long, so that nothing but a jump closes it before its rest comes.
const ROOT_GRACE: Duration = Duration::from_secs(4);
/// How long a trace without its root waits.
const IDLE: Duration = Duration::from_secs(20);
/// The memory that the daemon may use for spans, in MiB, and what it may use beyond that and what it had before.
const BUDGET: u64 = 16;
const ALLOWANCE: u64 = 150;
/// Spans of a trace that its verdict names: all but the root, which says nothing by itself. Two of them come in the one half, and
/// one in the other.
const SPANS: usize = 3;

/// A wall clock that can be set, for daemons that start under it.
struct Clock {
    folder: tempfile::TempDir,
    page: File,
}

impl Clock {
    /// None where there is no such thing.
    fn build() -> Option<Self> {
        let skipped = |why: String| {
            println!("SKIPPED: no clock can be set here: {why}");
            None
        };
        if !cfg!(target_os = "linux") {
            return skipped("this is not Linux".to_owned());
        }
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/clock.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(folder.path().join("clock.so"))
            .arg(source)
            .output();
        match built {
            Ok(output) if output.status.success() => {}
            Ok(output) => return skipped(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => return skipped(format!("cc: {error}")),
        }
        let path = folder.path().join("page");
        std::fs::write(&path, [0; 16]).unwrap();
        let page = File::options().read(true).write(true).open(&path).unwrap();
        Some(Self { folder, page })
    }

    /// A daemon under this clock; none if it does not ask this clock.
    fn start(&self, folder: &Path, settings: &str) -> Option<Daemon> {
        let before = self.answers();
        let (library, page): (PathBuf, PathBuf) =
            (self.folder.path().join("clock.so"), self.folder.path().join("page"));
        let environment = [("LD_PRELOAD", library.as_path()), ("CLOCK_PAGE", page.as_path())];
        let daemon = Daemon::start_with(folder, settings, &environment);
        if self.answers() == before {
            println!("SKIPPED: the clock was not preloaded into the daemon");
            return None;
        }
        Some(daemon)
    }

    /// Sets it to so many seconds beside the true time, and sees to it that this is noticed.
    async fn set(&self, seconds: i64) {
        self.page.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
        let before = self.answers();
        let deadline = Instant::now() + PATIENCE;
        while self.answers() == before {
            assert!(Instant::now() < deadline, "nobody asks what time it is");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How often it was asked.
    fn answers(&self) -> u64 {
        let mut count = [0; 8];
        self.page.read_exact_at(&mut count, 8).unwrap();
        u64::from_ne_bytes(count)
    }
}

/// Whole traces, one after the other, to whichever daemon there is.
struct Load {
    endpoint: Mutex<String>,
    is_over: AtomicBool,
    acknowledged: Mutex<BTreeSet<String>>,
}

impl Load {
    fn start(endpoint: String) -> (Arc<Self>, tokio::task::JoinHandle<()>) {
        let load = Arc::new(Self {
            endpoint: Mutex::new(endpoint),
            is_over: AtomicBool::new(false),
            acknowledged: Mutex::default(),
        });
        (Arc::clone(&load), tokio::spawn(load.send()))
    }

    async fn send(self: Arc<Self>) {
        let mut sender = Sender::new(String::new());
        let mut connected = String::new();
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let endpoint = self.endpoint.lock().unwrap().clone();
            if endpoint != connected {
                sender = Sender::hasty(endpoint.clone(), Duration::from_secs(10));
                connected = endpoint;
            }
            let (id, request) = trace(number);
            if sender.send(request).await == Heard::Acknowledged {
                self.acknowledged.lock().unwrap().insert(id);
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    fn moves_to(&self, endpoint: String) {
        *self.endpoint.lock().unwrap() = endpoint;
    }

    fn end(&self) -> BTreeSet<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.acknowledged.lock().unwrap().clone()
    }
}

/// The verdicts of a trace.
fn of<'a>(verdicts: &'a [Value], id: &str) -> Vec<&'a Value> {
    verdicts.iter().filter(|verdict| verdict["trace_id"] == id).collect()
}

/// Every verdict of the trace is on all of it.
fn is_whole(verdicts: &[Value], id: &str) {
    let found = of(verdicts, id);
    assert!(!found.is_empty());
    for verdict in found {
        assert_eq!(verdict["span_ids"].as_array().unwrap().len(), SPANS, "closed early: {verdict}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_forward_and_back_closes_no_trace_early_and_none_never() {
    let Some(clock) = Clock::build() else { return };
    let folder = tempfile::tempdir().unwrap();
    let receive = format!(
        "{{ grpc: {{ listen: 127.0.0.1:0 }}, http: null, acknowledge: stored, max_bytes: {BUDGET}MiB, max_message: 2MiB }}"
    );
    let assemble = format!(
        "{{ root_grace: {}s, idle: {}s, max_bytes: 12MiB, keep_bytes: 4MiB }}",
        ROOT_GRACE.as_secs(),
        IDLE.as_secs()
    );
    let settings = settings(folder.path(), &[("receive", &receive), ("assemble", &assemble)]);
    let Some(daemon) = clock.start(folder.path(), &settings) else { return };
    let before = daemon.resident_mb();
    let mut most = before;
    let (load, sending) = Load::start(daemon.grpc());
    let mut sender = Sender::new(daemon.grpc());
    let mut whole = BTreeSet::new();
    let mut in_parts = BTreeSet::new();
    let mut acknowledged = BTreeSet::new();
    for round in 0..6 {
        // One trace waits for its root, the other for stragglers, as the clock jumps over the hour that either may take.
        let (waiting, [first, rest]) = halves(1_000_000 + round);
        let (rooted, [straggler, root]) = halves(2_000_000 + round);
        let began = Instant::now();
        sender.deliver(&first).await;
        sender.deliver(&root).await;
        let jump = if round % 2 == 0 { HOUR } else { -HOUR };
        for offset in [jump, 0] {
            clock.set(offset).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            // What is late here for no fault of the clock proves nothing.
            let verdicts = written(folder.path());
            if began.elapsed() < ROOT_GRACE {
                assert!(of(&verdicts, &rooted).is_empty(), "a jump to {offset} s closes a trace early");
            }
            if began.elapsed() < IDLE {
                assert!(of(&verdicts, &waiting).is_empty(), "a jump to {offset} s closes a trace early");
            }
        }
        clock.set(-jump).await;
        sender.deliver(&straggler).await;
        let is_in_time = began.elapsed() < ROOT_GRACE;
        sender.deliver(&rest).await;
        if is_in_time {
            whole.extend([rooted.clone(), waiting.clone()]);
        } else {
            println!("round {round}: this machine was too slow for the straggler");
            in_parts.insert(rooted.clone());
        }
        acknowledged.extend([rooted, waiting]);
        most = most.max(daemon.resident_mb());
    }
    // The last jump is to the hour ahead. A trace is held over a kill, and the next process starts an hour behind.
    let (held, [first, rest]) = halves(3_000_000);
    sender.deliver(&first).await;
    daemon.kill();
    clock.page.write_all_at(&(-HOUR).to_ne_bytes(), 0).unwrap();
    let daemon = clock.start(folder.path(), &settings).expect("it was preloaded before");
    load.moves_to(daemon.grpc());
    let mut sender = Sender::new(daemon.grpc());
    sender.deliver(&rest).await;
    acknowledged.insert(held.clone());
    whole.insert(held);
    clock.set(HOUR).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    clock.set(0).await;

    acknowledged.extend(load.end());
    sending.await.unwrap();
    let verdicts = all_have_verdicts(folder.path(), &acknowledged).await;
    most = most.max(daemon.resident_mb());
    assert!(daemon.is_ready().await);
    daemon.terminate();
    println!(
        "{} traces acknowledged, {} verdicts, {} traces held open over jumps; {before} MB resident before and {most} MB at most",
        acknowledged.len(),
        verdicts.len(),
        whole.len()
    );
    whole.iter().for_each(|id| is_whole(&verdicts, id));
    assert!(whole.len() > 3 && acknowledged.len() > 30, "the test did too little to mean anything");
    let of_whole: Vec<Value> = verdicts
        .into_iter()
        .filter(|verdict| !in_parts.contains(verdict["trace_id"].as_str().unwrap()))
        .collect();
    each_has_one_verdict(&of_whole);
    assert!(most < before + BUDGET + ALLOWANCE, "{most} MB resident");
}
