//! Claims: the spool takes at least 100 MB/s of deliveries, each durable when its append returns, and at half that load an
//! append takes less than 20 ms (p99). Depends on the disk: `TMPDIR` says which one is measured.
//!
//! Not a criterion bench: the claim is a rate and a tail under load from many callers, which it does not measure.
//! `cargo bench --bench spool`, or with `-- SECONDS` for each figure.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assayd::domain::ByteSize;
use assayd::spool::{Config, Spool, SpoolError};
use bytes::Bytes;
use tokio_util::task::TaskTracker;

#[path = "common/allocator.rs"]
mod allocator;

/// Callers at the same time when it goes as fast as it can.
const CALLERS: usize = 64;
/// How long a delivery takes until it is settled.
const WORK: Duration = Duration::from_millis(200);

fn main() {
    let seconds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    for (size, megabytes_per_second) in
        [(64 << 10, None), (64 << 10, Some(50)), (8 << 10, Some(50)), (1 << 20, None), (1 << 20, Some(50))]
    {
        let figures = runtime.block_on(measure(size, megabytes_per_second, Duration::from_secs(seconds)));
        let load =
            megabytes_per_second.map_or("as fast as it goes".to_owned(), |rate| format!("at {rate} MB/s"));
        println!("deliveries of {:>7}, {load:<18}: {figures}", ByteSize(size as u64));
    }
}

/// Latencies of what was taken, and how often the spool was full.
type Figures = Arc<Mutex<(Vec<Duration>, usize)>>;

async fn measure(size: usize, megabytes_per_second: Option<u64>, length: Duration) -> String {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (spool, _) = Spool::open(folder.path(), &Config::default()).expect("the spool opens");
    let payload = noise(size);
    let figures = Figures::default();
    let start = Instant::now();
    let tasks = TaskTracker::new();
    match megabytes_per_second {
        // Callers that each wait for one acknowledgement before they send the next delivery.
        None => {
            for _ in 0..CALLERS {
                let (spool, payload, figures) = (spool.clone(), payload.clone(), Arc::clone(&figures));
                tasks.spawn(async move {
                    while start.elapsed() < length {
                        append(&spool, &payload, Instant::now(), &figures).await;
                    }
                });
            }
        }
        // Deliveries come when they come, however long the ones before them take.
        Some(rate) => {
            let gap = Duration::from_secs_f64(size as f64 / (rate as f64 * 1e6));
            let mut due = start;
            while due < start + length {
                tokio::time::sleep_until(due.into()).await;
                let (spool, payload, figures) = (spool.clone(), payload.clone(), Arc::clone(&figures));
                tasks.spawn(async move { append(&spool, &payload, due, &figures).await });
                due += gap;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
    let elapsed = start.elapsed();
    spool.close().await;
    let (taken, full) = &mut *figures.lock().expect("no task panics");
    taken.sort_unstable();
    let percentile = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let rate = (taken.len() * size) as f64 / 1e6 / elapsed.as_secs_f64();
    format!(
        "{rate:6.1} MB/s, append p50 {:5.1} ms, p99 {:5.1} ms, max {:6.1} ms, refused as full {full}",
        percentile(0.5),
        percentile(0.99),
        percentile(1.0)
    )
}

/// Appends one delivery, and settles it when its work is done.
async fn append(spool: &Spool, payload: &Bytes, due: Instant, figures: &Figures) {
    match spool.append(1, payload.clone()).await {
        Ok(id) => {
            figures.lock().expect("no task panics").0.push(due.elapsed());
            let spool = spool.clone();
            tokio::spawn(async move {
                tokio::time::sleep(WORK).await;
                spool.settled(id);
            });
        }
        Err(SpoolError::Full { .. }) => {
            figures.lock().expect("no task panics").1 += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(error) => panic!("{error}"),
    }
}

/// Bytes that no disk can compress.
fn noise(size: usize) -> Bytes {
    let mut seed = 1_u64;
    let bytes = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    });
    bytes.take(size).collect()
}
