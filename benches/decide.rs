//! Claim: the embedded model is at least as fast as the same model in PyTorch on the same CPU, with two threads.
//!
//! `cargo bench --bench decide` times whole inquiries (preparation, queue and forward pass) of some claims with inputs of some
//! length. `python benches/decide_torch.py` measures PyTorch and this side by side in CPU seconds; see `benches/README.md`.

#![expect(clippy::print_stdout, reason = "the comparison with PyTorch reads the figures")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use assayd::decide::{Config, Desk, start};
use assayd::domain::{Inquiry, Json, Kind, Question, Subject};
use criterion::{BenchmarkId, Criterion, Throughput};

#[path = "common/allocator.rs"]
mod allocator;

/// Claims at once, and tokens of the input for each.
const SHAPES: [(usize, usize); 6] = [(1, 32), (8, 32), (1, 128), (8, 128), (1, 256), (8, 256)];
const CLAIM: &str = "The order was shipped to Spain.";
/// Tokens of the claim and the three special ones.
const CLAIM_TOKENS: usize = 7 + 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let config = Config { threads: NonZeroUsize::new(2), ..Config::default() };
    let desk = start(&config).expect("the embedded model");
    runtime.block_on(desk.ready());
    if std::env::args().any(|argument| argument == "--cpu-seconds") {
        return cpu_seconds(&runtime, &desk);
    }
    let mut criterion = Criterion::default().configure_from_args().warm_up_time(Duration::from_secs(1));
    let mut group = criterion.benchmark_group("decide/embedded");
    for (claims, tokens) in SHAPES {
        let inquiry = inquiry(claims, tokens);
        group.throughput(Throughput::Elements(claims as u64));
        group.bench_function(
            BenchmarkId::new(format!("{claims} claims"), format!("{tokens} tokens")),
            |bencher| {
                bencher.iter(|| ask(&runtime, &desk, &inquiry));
            },
        );
    }
    group.finish();
    criterion.final_summary();
}

/// Claims about one evidence that together with it makes inputs of exactly so many tokens.
fn inquiry(claims: usize, tokens: usize) -> Inquiry {
    let words = vec!["order"; tokens - CLAIM_TOKENS];
    let question = |index: usize| Question {
        id: index.to_string(),
        kind: Kind::Noul { if_true: None, if_false: None },
        instructions: Json::Null,
        subject: Subject::Grounding { claim: CLAIM.to_owned() },
    };
    Inquiry::new(Arc::new(Json::String(words.join(" "))), (0..claims).map(question).collect())
}

fn ask(runtime: &tokio::runtime::Runtime, desk: &Desk, inquiry: &Inquiry) {
    let reply = runtime.block_on(desk.ask(inquiry.clone())).expect("a reply");
    black_box(reply);
}

/// For each shape one JSON line: the CPU seconds of all threads, and the wall seconds, of the best of some rounds.
fn cpu_seconds(runtime: &tokio::runtime::Runtime, desk: &Desk) {
    for (claims, tokens) in SHAPES {
        let inquiry = inquiry(claims, tokens);
        let reply = runtime.block_on(desk.ask(inquiry.clone())).expect("a reply");
        assert_eq!(reply.input_tokens as usize, claims * tokens);
        let asks = (8192 / (claims * tokens)).max(2);
        let (mut cpu, mut wall) = (f64::MAX, f64::MAX);
        for _ in 0..7 {
            let (started, before) = (std::time::Instant::now(), on_cpu());
            (0..asks).for_each(|_| ask(runtime, desk, &inquiry));
            cpu = cpu.min((on_cpu() - before) / asks as f64);
            wall = wall.min(started.elapsed().as_secs_f64() / asks as f64);
        }
        println!("{}", serde_json::json!({ "claims": claims, "tokens": tokens, "cpu": cpu, "wall": wall }));
    }
}

/// Seconds that all threads of this process have been on a CPU.
fn on_cpu() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
    let nanoseconds = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}
