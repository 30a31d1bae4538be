//! What was acknowledged survives a kill. Real processes, real signals.
//!
//! The long run: `cargo test --release --test faults -- --ignored --nocapture` (50 kills).

#![expect(clippy::print_stdout, reason = "the long run shows how far it is")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message;

const PATIENCE: Duration = Duration::from_secs(120);

struct Daemon {
    process: Child,
    grpc: String,
}

impl Daemon {
    fn start(folder: &Path) -> Self {
        let config = folder.join("assayd.yaml");
        let text = format!(
            "receive: {{ grpc: {{ listen: 127.0.0.1:0 }}, http: null, acknowledge: stored }}\n\
             assemble: {{ root_grace: 100ms, idle: 500ms }}\n\
             serve: {{ listen: 127.0.0.1:0 }}\n\
             emit: {{ jsonl: {{ path: {0}/verdicts.jsonl }} }}\n\
             data_dir: {0}/data\n",
            folder.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args(["serve", "--config"])
            .arg(&config)
            .env("ASSAYD_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut grpc = None;
        for line in log.by_ref() {
            let line = line.unwrap();
            if let Some((_, rest)) = line.split_once("grpc=") {
                grpc = rest.split_whitespace().next().map(str::to_owned);
                break;
            }
        }
        // Read on, so that the daemon never waits for us.
        std::thread::spawn(move || log.for_each(drop));
        Self { process, grpc: grpc.expect("the daemon ended before it listened") }
    }

    /// Sends one request; whether it was acknowledged.
    async fn send(&self, request: ExportTraceServiceRequest) -> bool {
        let Ok(mut client) = TraceServiceClient::connect(format!("http://{}", self.grpc)).await else {
            return false;
        };
        client.export(request).await.is_ok()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn terminate(mut self) -> Option<i32> {
        let signal = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().unwrap();
        assert!(signal.success());
        self.process.wait().unwrap().code()
    }
}

/// A recorded trace under another id.
fn trace(number: u32) -> (String, ExportTraceServiceRequest) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces/strands/s11.otlp.pb");
    let mut request = ExportTraceServiceRequest::decode(&std::fs::read(path).unwrap()[..]).unwrap();
    let mut id = [0xa5u8; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    for resource in &mut request.resource_spans {
        for span in resource.scope_spans.iter_mut().flat_map(|scope| &mut scope.spans) {
            span.trace_id = id.to_vec();
        }
    }
    (id.iter().map(|byte| format!("{byte:02x}")).collect(), request)
}

/// Verdict ids by trace and revision.
fn verdicts(folder: &Path) -> BTreeMap<(String, u64), BTreeSet<String>> {
    let text = std::fs::read_to_string(folder.join("verdicts.jsonl")).unwrap_or_default();
    let mut found: BTreeMap<(String, u64), BTreeSet<String>> = BTreeMap::new();
    // A line that a kill cut off is ended by the next run and is no verdict.
    for verdict in text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        let key = (verdict["trace_id"].as_str().unwrap().to_owned(), verdict["revision"].as_u64().unwrap());
        found.entry(key).or_default().insert(verdict["verdict_id"].as_str().unwrap().to_owned());
    }
    found
}

async fn survive(kills: u32) {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    let mut seed = 0x2545_f491_u32;
    for round in 0..kills {
        let daemon = Daemon::start(folder.path());
        // Not random, but spread: the kill meets sending, assembling, evaluating and writing.
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        let until = Instant::now() + Duration::from_millis(u64::from(seed % 1200));
        loop {
            let (id, request) = trace(number);
            number += 1;
            if daemon.send(request).await {
                acknowledged.insert(id);
            }
            if Instant::now() >= until {
                break;
            }
        }
        daemon.kill();
        println!("kill {} of {kills}: {} traces acknowledged so far", round + 1, acknowledged.len());
    }
    let daemon = Daemon::start(folder.path());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found: BTreeSet<String> = verdicts(folder.path()).into_keys().map(|(trace, _)| trace).collect();
        let missing: Vec<_> = acknowledged.difference(&found).collect();
        if missing.is_empty() {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "{} acknowledged traces have no verdict: {missing:?}",
            missing.len()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(daemon.terminate(), Some(0));
    assert!(acknowledged.len() > kills as usize, "the test sent too little to mean anything");
    for (key, ids) in verdicts(folder.path()) {
        assert_eq!(ids.len(), 1, "{key:?} has verdicts of different ids: {ids:?}");
    }
}

#[tokio::test]
async fn what_was_acknowledged_has_a_verdict_after_a_kill() {
    survive(3).await;
}

#[tokio::test]
#[ignore = "minutes; run it before a release"]
async fn what_was_acknowledged_has_a_verdict_after_fifty_kills() {
    survive(50).await;
}
