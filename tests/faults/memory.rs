//! Memory under a load that comes in bursts: it levels off when the stores are full that are configured.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::daemon::{Daemon, settings};
use super::traffic::{Heard, Sender, heavy};

/// Bytes that each trace has beside its story.
const WEIGHT: usize = 8_000;
const SENDERS: usize = 8;
const BURST: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_secs(5);
/// What the second half may need beyond the first: bursts differ.
const ALLOWANCE: u64 = 48;

/// A decision model that finds everything grounded, behind HTTP: it costs the daemon nothing, so that the load can be high.
async fn scripted() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new()
        .route("/v1/systemone", post(|Json(asked): Json<Value>| async move { Json(answer(&asked)) }));
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    address
}

fn answer(asked: &Value) -> Value {
    let questions = asked["questions"].as_object().unwrap();
    let answers: BTreeMap<&String, Value> =
        questions.iter().map(|(name, asked)| (name, one(asked))).collect();
    json!({ "model": "scripted", "answers": answers, "usage": { "input_tokens": 1, "output_tokens": 1 } })
}

fn one(asked: &Value) -> Value {
    let kind = asked["type"].as_str().unwrap();
    let labels: Vec<String> = match &asked["criteria"] {
        _ if kind == "noul" => return json!({ "type": "noul", "noul": 0.01 }),
        Value::Object(options) => options.keys().cloned().collect(),
        Value::Array(levels) => (0..levels.len()).map(|level| level.to_string()).collect(),
        other => panic!("criteria of a {kind}: {other}"),
    };
    let best = labels.iter().position(|label| label == "grounded").unwrap_or(0);
    let rest = 0.02 / (labels.len() - 1) as f64;
    let probabilities: BTreeMap<&String, f64> =
        labels.iter().enumerate().map(|(at, label)| (label, if at == best { 0.98 } else { rest })).collect();
    json!({ "type": kind, kind: labels[best], "probabilities": probabilities, "confidence": 0.9 })
}

async fn send(endpoint: String, until: Instant, next: Arc<AtomicU32>) {
    let mut sender = Sender::new(endpoint);
    while Instant::now() < until {
        let (_, request) = heavy(next.fetch_add(1, Ordering::Relaxed), WEIGHT);
        while sender.send(request.clone()).await != Heard::Acknowledged {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes; run it on a release build before a release"]
async fn memory_levels_off_under_bursts() {
    let length =
        std::env::var("ASSAYD_MEMORY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let folder = tempfile::tempdir().unwrap();
    let model = format!(
        "{{ model: {{ systemone: {{ url: 'http://{}', model: scripted, check_model: false }} }} }}",
        scripted().await
    );
    let emit = format!(
        "{{ jsonl: {{ path: {}/verdicts.jsonl, fsync: never, rotate: {{ max_bytes: 16MiB, keep: 1 }} }} }}",
        folder.path().display()
    );
    let sections = [
        ("decide", model.as_str()),
        ("receive", "{ grpc: { listen: 127.0.0.1:0 }, http: null, acknowledge: admitted }"),
        // Full soon, so that what grows after that is none of theirs.
        ("assemble", "{ root_grace: 100ms, idle: 500ms, keep_bytes: 32MiB, keep_traces: 20000 }"),
        ("emit", &emit),
    ];
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &sections));
    let next = Arc::new(AtomicU32::new(0));
    let began = Instant::now();
    let length = Duration::from_secs(length);
    let mut most: [u64; 2] = [0, 0];
    while began.elapsed() < length {
        let until = Instant::now() + BURST;
        let senders: Vec<_> =
            (0..SENDERS).map(|_| tokio::spawn(send(daemon.grpc(), until, Arc::clone(&next)))).collect();
        while Instant::now() < until + PAUSE {
            let half = usize::from(began.elapsed() > length / 2);
            most[half] = most[half].max(daemon.resident_mb());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        for sender in senders {
            sender.await.unwrap();
        }
        let (seconds, traces) = (began.elapsed().as_secs(), next.load(Ordering::Relaxed));
        println!("{seconds} s: {traces} traces sent, {} MB resident", daemon.resident_mb());
    }
    println!("{} MB at most in the first half, {} MB in the second", most[0], most[1]);
    assert!(most[1] <= most[0] + ALLOWANCE, "memory grows");
    daemon.terminate();
}
