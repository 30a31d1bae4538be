//! The daemon as a process: started with a configuration, signalled, watched, and never left behind.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a loaded machine may take for anything that must happen.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Lines of a daemon's log that are kept for the message of a test that fails.
const KEPT_LINES: usize = 60;

/// A daemon that runs. Killed when dropped.
pub struct Daemon {
    process: Child,
    /// Where it listens, by the name that its log gives: `grpc`, `http`, `admin`.
    addresses: BTreeMap<String, String>,
    log: Arc<Mutex<Vec<String>>>,
}

/// A configuration that closes traces quickly, takes any free ports and keeps everything in `folder`: OTLP and the spool in,
/// `verdicts.jsonl` out. `sections` replace its sections or add to them.
pub fn settings(folder: &Path, sections: &[(&str, &str)]) -> String {
    let jsonl = format!("{{ jsonl: {{ path: {}/verdicts.jsonl }} }}", folder.display());
    let data_dir = format!("{}/data", folder.display());
    let mut all = BTreeMap::from([
        ("receive", "{ grpc: { listen: 127.0.0.1:0 }, http: null, acknowledge: stored }"),
        ("assemble", "{ root_grace: 100ms, idle: 500ms }"),
        ("serve", "{ listen: 127.0.0.1:0 }"),
        ("emit", &jsonl),
        ("data_dir", &data_dir),
    ]);
    all.extend(sections.iter().copied());
    all.into_iter().map(|(name, section)| format!("{name}: {section}\n")).collect()
}

impl Daemon {
    /// Starts it with this configuration, written to `folder`; returns when it listens.
    pub fn start(folder: &Path, settings: &str) -> Self {
        Self::start_with(folder, settings, &[])
    }

    /// The same with more in its environment.
    pub fn start_with(folder: &Path, settings: &str, environment: &[(&str, &Path)]) -> Self {
        let config = folder.join("assayd.yaml");
        std::fs::write(&config, settings).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args(["serve", "--config"])
            .arg(&config)
            .env("ASSAYD_LOG", "info")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let found = listen(&mut process, Arc::clone(&log));
        let mut daemon = Self { process, addresses: BTreeMap::new(), log };
        loop {
            match found.recv_timeout(PATIENCE) {
                Ok((name, address)) => {
                    let is_last = name == "admin";
                    daemon.addresses.insert(name, address);
                    if is_last {
                        return daemon;
                    }
                }
                Err(_) => panic!("the daemon does not listen; its log:\n{}", daemon.log()),
            }
        }
    }

    /// Where it takes OTLP over gRPC.
    pub fn grpc(&self) -> String {
        format!("http://{}", self.addresses["grpc"])
    }

    /// Where it takes OTLP over HTTP.
    pub fn http(&self) -> String {
        format!("http://{}", self.addresses["http"])
    }

    /// Where it answers about itself, and takes GSAR's runs.
    pub fn admin(&self) -> String {
        format!("http://{}", self.addresses["admin"])
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// The sum of a metric over its labels; `labels` is a part of what stands in its braces.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let url = format!("{}/metrics", self.admin());
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            rest.starts_with(['{', ' ']) && rest.contains(labels)
        });
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// What `GET /v1/status` says.
    pub async fn status(&self) -> serde_json::Value {
        let url = format!("http://{}/v1/status", self.addresses["admin"]);
        reqwest::get(url).await.unwrap().json().await.unwrap()
    }

    /// Whether it says that it is ready.
    pub async fn is_ready(&self) -> bool {
        let url = format!("{}/readyz", self.admin());
        reqwest::get(url).await.is_ok_and(|reply| reply.status().is_success())
    }

    /// Its resident memory in MB.
    pub fn resident_mb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// Sends it a signal, such as `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
        if name == "STOP" {
            // Its threads stop one by one.
            while !self.is_frozen() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn is_frozen(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't']))
        })
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks it to stop, and checks that it ends well.
    pub fn terminate(mut self) {
        self.signal("TERM");
        let deadline = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status.code();
            }
            assert!(Instant::now() < deadline, "the daemon does not stop; its log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(code, Some(0), "the daemon did not end well; its log:\n{}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Also when it is frozen; and when it has ended, which is no matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the log to its end, so that the daemon never waits for us; gives the addresses in it.
fn listen(process: &mut Child, kept: Arc<Mutex<Vec<String>>>) -> Receiver<(String, String)> {
    let (found, addresses) = mpsc::channel();
    let lines = BufReader::new(process.stderr.take().unwrap()).lines();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            for name in ["grpc", "http", "admin"] {
                if let Some((_, rest)) = line.split_once(&format!(" {name}="))
                    && let Some(address) = rest.split_whitespace().next()
                {
                    // Nobody waits for addresses any more once the last one is found.
                    let _ = found.send((name.to_owned(), address.to_owned()));
                }
            }
            let mut kept = kept.lock().unwrap();
            if kept.len() == KEPT_LINES {
                kept.remove(0);
            }
            kept.push(line);
        }
    });
    addresses
}
