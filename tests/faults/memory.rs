//! Memory under a load that comes in bursts: it levels off when the stores are full that are configured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::daemon::{Daemon, settings};
use super::traffic::{Heard, Sender, heavy};

#[path = "../../benches/common/scripted.rs"]
mod scripted;

/// Bytes that each trace has beside its story.
const WEIGHT: usize = 8_000;
const SENDERS: usize = 8;
const BURST: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_secs(5);
/// What the second half may need beyond the first: bursts differ.
const ALLOWANCE: u64 = 48;

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
        scripted::serve().await.unwrap()
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
