//! Ten times more than it can do.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prost::Message;

use super::daemon::{Daemon, settings};
use super::traffic::{Heard, Sender, all_have_verdicts, heavy, repeats_agree};

/// Bytes that each trace has beside its story: few traces fill the memory that the test allows.
const WEIGHT: usize = 100_000;
/// The memory that the daemon may use for spans, in MiB.
const BUDGET: u64 = 16;
/// What it may use beyond that and what it had before: requests on the wire, verdicts, the allocator's reserve.
const ALLOWANCE: u64 = 150;

#[derive(Default)]
struct Counts {
    acknowledged: Mutex<BTreeSet<String>>,
    refused: AtomicU32,
    next: AtomicU32,
}

impl Counts {
    fn next(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// Sends one trace after the other over gRPC without a pause, whatever the answers.
async fn over_grpc(endpoint: String, until: Instant, counts: Arc<Counts>) {
    let mut sender = Sender::new(endpoint);
    while Instant::now() < until {
        let (id, request) = heavy(counts.next(), WEIGHT);
        match sender.send(request).await {
            Heard::Acknowledged => {
                counts.acknowledged.lock().unwrap().insert(id);
            }
            Heard::Refused { code, come_back } => {
                assert!(
                    come_back,
                    "{code:?} without a word on when to come back: the sender would drop its spans"
                );
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            Heard::Nothing => panic!("no answer"),
        }
    }
}

/// The same over HTTP.
async fn over_http(endpoint: String, until: Instant, counts: Arc<Counts>) {
    let client = reqwest::Client::new();
    while Instant::now() < until {
        let (id, request) = heavy(counts.next(), WEIGHT);
        let reply = client
            .post(format!("{endpoint}/v1/traces"))
            .header("content-type", "application/x-protobuf")
            .body(request.encode_to_vec())
            .send()
            .await
            .expect("an answer");
        match reply.status().as_u16() {
            200 => {
                counts.acknowledged.lock().unwrap().insert(id);
            }
            429 | 503 => {
                assert!(reply.headers().contains_key("retry-after"), "no word on when to come back");
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            status => panic!("{status}: senders do not come back after this"),
        }
    }
}

async fn flood(length: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let receive = format!(
        "{{ grpc: {{ listen: 127.0.0.1:0 }}, http: {{ listen: 127.0.0.1:0 }}, acknowledge: stored, max_bytes: {BUDGET}MiB, \
         max_message: 2MiB, wait: 50ms, retry_after: 100ms }}"
    );
    let assemble = "{ root_grace: 100ms, idle: 500ms, max_bytes: 12MiB, keep_bytes: 4MiB }";
    let sections = [("receive", receive.as_str()), ("assemble", assemble)];
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &sections));
    let (_, first) = heavy(u32::MAX, WEIGHT);
    Sender::new(daemon.grpc()).deliver(&first).await;
    let before = daemon.resident_mb();

    let counts = Arc::new(Counts::default());
    let until = Instant::now() + length;
    let mut senders: Vec<_> =
        (0..24).map(|_| tokio::spawn(over_grpc(daemon.grpc(), until, Arc::clone(&counts)))).collect();
    senders.extend((0..8).map(|_| tokio::spawn(over_http(daemon.http(), until, Arc::clone(&counts)))));
    let mut most = before;
    while Instant::now() < until {
        most = most.max(daemon.resident_mb());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for sender in senders {
        sender.await.unwrap();
    }
    let (refused, acknowledged) =
        (counts.refused.load(Ordering::Relaxed), counts.acknowledged.lock().unwrap().clone());
    println!(
        "{} traces acknowledged, {refused} refused, {before} MB resident before and {most} MB at most",
        acknowledged.len()
    );
    assert!(refused as usize > acknowledged.len(), "that was no flood");
    assert!(most < before + BUDGET + ALLOWANCE, "{most} MB resident");

    // It takes new traces at once when there is room, without a restart.
    let (id, request) = heavy(counts.next(), WEIGHT);
    Sender::new(daemon.grpc()).deliver(&request).await;
    let mut acknowledged = acknowledged;
    acknowledged.insert(id);
    let verdicts = all_have_verdicts(folder.path(), &acknowledged).await;
    assert!(daemon.is_ready().await);
    daemon.terminate();
    repeats_agree(&verdicts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_refused_in_good_order_within_bounded_memory() {
    flood(Duration::from_secs(4)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes; run it before a release"]
async fn a_long_flood_is_refused_in_good_order_within_bounded_memory() {
    flood(Duration::from_secs(180)).await;
}
