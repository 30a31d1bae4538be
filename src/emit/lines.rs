//! One thread owns a stream of lines. Whoever writes waits until the line is safe; lines that wait together become safe together.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::EmitError;
use crate::domain::Verdict;
use crate::error::Fault;

/// Lines that may wait for the thread; beyond that, writers wait.
const WAITING: usize = 256;
/// Bytes that become safe in one go, more or less.
const GROUP_BYTES: usize = 4 << 20;

/// How long the thread may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines are kept.
pub(super) trait LineFile: Send + 'static {
    /// Keeps all `lines`, each with its newline at the end. After an error none of them counts as kept.
    fn append(&mut self, lines: &[Vec<u8>]) -> io::Result<()>;
}

/// A verdict as one line of JSON.
pub(super) fn line(verdict: &Verdict) -> Vec<u8> {
    let mut line = serde_json::to_vec(verdict).expect("a verdict has text keys only, so it is always JSON");
    line.push(b'\n');
    line
}

struct Job {
    line: Vec<u8>,
    done: oneshot::Sender<Result<(), Failure>>,
}

/// `io::Error` cannot be cloned, and all writers of a group need to know.
#[derive(Clone)]
struct Failure {
    message: String,
    kind: io::ErrorKind,
}

/// The writers' end.
pub(super) struct Lines {
    sink: &'static str,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Starts the thread that owns `file`.
    pub(super) fn start(sink: &'static str, file: impl LineFile) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let thread =
            std::thread::Builder::new().name(format!("emit-{sink}")).spawn(move || keep(file, receiver))?;
        Ok(Self { sink, jobs: Some(sender), thread: Some(thread) })
    }

    /// Returns when the line is safe.
    pub(super) async fn write(&self, line: Vec<u8>) -> Result<(), EmitError> {
        let (done, answer) = oneshot::channel();
        let sent = match &self.jobs {
            Some(jobs) => jobs.send(Job { line, done }).await.is_ok(),
            None => false,
        };
        let stopped = || EmitError {
            sink: self.sink,
            message: "its writer has stopped".to_owned(),
            fault: Fault::Fatal,
        };
        if !sent {
            return Err(stopped());
        }
        answer.await.map_err(|_| stopped())?.map_err(|failure| EmitError {
            sink: self.sink,
            message: failure.message,
            fault: match failure.kind {
                // The reader of our output has gone and will not come back.
                io::ErrorKind::BrokenPipe => Fault::Fatal,
                _ => Fault::Transient,
            },
        })
    }
}

impl Drop for Lines {
    /// Waits for the thread, so that the file is closed and unlocked when the sink is gone; but not for long: a reader of our
    /// output that has stopped reading would keep the daemon from stopping.
    fn drop(&mut self) {
        drop(self.jobs.take());
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + PATIENCE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !thread.is_finished() {
            tracing::warn!(sink = self.sink, "a sink is stuck in a write; leaving it");
        }
    }
}

fn keep(mut file: impl LineFile, mut jobs: mpsc::Receiver<Job>) {
    while let Some(first) = jobs.blocking_recv() {
        let mut bytes = first.line.len();
        let mut lines = vec![first.line];
        let mut waiting = vec![first.done];
        while bytes < GROUP_BYTES {
            let Ok(next) = jobs.try_recv() else { break };
            bytes += next.line.len();
            lines.push(next.line);
            waiting.push(next.done);
        }
        let kept =
            file.append(&lines).map_err(|error| Failure { message: error.to_string(), kind: error.kind() });
        for done in waiting {
            // A writer that stopped waiting (a cancelled trace) needs no answer.
            drop(done.send(kept.clone()));
        }
    }
}
