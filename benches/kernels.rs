//! Linear layers at the dimensions of the 2B torso: our kernels, the `gemm` crate and candle, against what this core can do.
//!
//! `cargo bench --bench kernels` prints a table first and then runs the usual benchmarks; `-- --table` prints the table alone.
//! All figures are operations per second of CPU time (all threads together), the best of several rounds that take turns, so
//! that they can be compared on a machine that has other work.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use assayd::decide::kernels::{Linear, Precision, Rows, RowsMut, Threads, times_transposed};
use candle_core::{DType, Device, Tensor};
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput};
use rayon::ThreadPool;

#[path = "kernels/peak.rs"]
mod peak;

/// Inputs and outputs of the torso's products.
const SHAPES: [(usize, usize); 5] = [(2048, 6144), (6144, 2048), (2048, 2048), (2048, 4096), (2048, 512)];
const ROWS: [usize; 5] = [1, 8, 64, 256, 1024];
const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::Int8];
/// Weights of a job together, so that they come from memory as in a whole model and not from a cache.
const WEIGHT_BYTES: usize = 96 << 20;
const ROUNDS: usize = 7;
const ROUND: f64 = 0.03;

fn main() {
    let table_only = std::env::args().any(|argument| argument == "--table");
    print_table();
    if table_only {
        return;
    }
    let mut criterion = Criterion::default().with_measurement(CpuTime).configure_from_args();
    benchmarks(&mut criterion);
    criterion.final_summary();
}

/// Something to measure, and the best that was seen.
struct Job<'a> {
    operations: f64,
    run: Box<dyn FnMut() + 'a>,
    /// Operations per second.
    best: f64,
}

impl<'a> Job<'a> {
    fn new(operations: usize, run: impl FnMut() + 'a) -> Self {
        Self { operations: operations as f64, run: Box::new(run), best: 0.0 }
    }

    /// Runs for a while.
    fn round(&mut self) {
        let start = cpu_seconds();
        let mut runs = 0.0;
        loop {
            (self.run)();
            runs += 1.0;
            let seconds = cpu_seconds() - start;
            if seconds > ROUND {
                self.best = self.best.max(runs * self.operations / seconds);
                return;
            }
        }
    }
}

/// Numbers from −1 to 1 without a pattern that matters.
fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 32_768.0 - 1.0)
        .collect()
}

fn pool(threads: usize) -> ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

fn print_table() {
    let (one, two) = (&pool(1), &pool(2));
    let mut peaks = ALL.map(|precision| Job::new(peak::OPERATIONS, move || peak::run(precision)));
    for _ in 0..ROUNDS {
        peaks.iter_mut().for_each(Job::round);
    }
    let peaks = peaks.map(|job| job.best);
    eprintln!("G operations per CPU second; in brackets % of the peak of that precision");
    for (precision, peak) in ALL.iter().zip(peaks) {
        eprintln!("{precision:?}: peak {:.0}, kernels for {}", peak / 1e9, precision.instructions());
    }
    eprintln!(
        "{:>14} {:>5} | {:>10} {:>10} {:>10} | {:>10} {:>10} {:>10} | {:>10} {:>10}",
        "inputs>outputs",
        "rows",
        "f32",
        "bf16",
        "int8",
        "f32 x2",
        "bf16 x2",
        "int8 x2",
        "gemm f32",
        "candle bf16"
    );
    for (inputs, outputs) in SHAPES {
        for rows in ROWS {
            let operations = 2 * rows * inputs * outputs;
            let mut jobs = Vec::new();
            for pool in [one, two] {
                jobs.extend(ALL.map(|precision| {
                    let mut run = ours(inputs, outputs, rows, precision);
                    Job::new(operations, move || pool.install(&mut run))
                }));
            }
            let mut run = gemm(inputs, outputs, rows);
            jobs.push(Job::new(operations, move || one.install(&mut run)));
            jobs.extend(candle(inputs, outputs, rows).map(|run| Job::new(operations, run)));
            for _ in 0..ROUNDS {
                jobs.iter_mut().for_each(Job::round);
            }
            let mut line = format!("{:>14} {rows:>5} |", format!("{inputs}>{outputs}"));
            for (index, job) in jobs.iter().enumerate() {
                let peak = peaks[[0, 1, 2, 0, 1, 2, 0, 1][index]];
                let _ = write!(line, " {:>4.0} ({:>3.0})", job.best / 1e9, job.best / peak * 100.0);
                line.push_str(if index % 3 == 2 { " |" } else { "" });
            }
            eprintln!("{line}");
        }
    }
}

/// A product with our kernels.
fn ours(inputs: usize, outputs: usize, rows: usize, precision: Precision) -> impl FnMut() + Send {
    let weights = numbers(outputs * inputs);
    let first = Linear::pack(&weights, outputs, inputs, precision);
    let copies = WEIGHT_BYTES.div_ceil(first.bytes());
    let mut layers = vec![first];
    layers.extend((1..copies).map(|_| Linear::pack(&weights, outputs, inputs, precision)));
    let x = numbers(rows * inputs);
    let mut out = vec![0.0; rows * outputs];
    let mut turn = 0;
    move || {
        turn = (turn + 1) % layers.len();
        layers[turn].apply(&x, &mut out);
        black_box(&out);
    }
}

/// The same product with the `gemm` crate on one thread.
fn gemm(inputs: usize, outputs: usize, rows: usize) -> impl FnMut() + Send {
    let copies = WEIGHT_BYTES.div_ceil(4 * outputs * inputs);
    let weights = vec![numbers(outputs * inputs); copies];
    let x = numbers(rows * inputs);
    let mut out = vec![0.0; rows * outputs];
    let mut turn = 0;
    move || {
        turn = (turn + 1) % weights.len();
        times_transposed(
            RowsMut::new(&mut out, rows, outputs, outputs),
            Rows::new(&x, rows, inputs, inputs),
            Rows::new(&weights[turn], outputs, inputs, inputs),
            false,
            Threads::One,
        );
        black_box(&out);
    }
}

/// The same product in bf16 with candle, if it has one.
fn candle(inputs: usize, outputs: usize, rows: usize) -> Option<impl FnMut()> {
    let tensor = |rows: usize| {
        Tensor::from_vec(numbers(rows * inputs), (rows, inputs), &Device::Cpu)?.to_dtype(DType::BF16)
    };
    let (x, weights) = (tensor(rows).ok()?, tensor(outputs).ok()?.t().ok()?);
    x.matmul(&weights).ok()?;
    Some(move || {
        black_box(x.matmul(&weights)).expect("it worked before");
    })
}

fn benchmarks(criterion: &mut Criterion<CpuTime>) {
    let one = pool(1);
    let (inputs, outputs) = (2048, 6144);
    for rows in [1, 64, 256] {
        let mut group = criterion.benchmark_group(format!("linear {inputs}>{outputs}"));
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(2));
        group.throughput(Throughput::Elements((2 * rows * inputs * outputs) as u64));
        for precision in ALL {
            let mut run = ours(inputs, outputs, rows, precision);
            group.bench_function(BenchmarkId::new(format!("{precision:?}"), rows), |bencher| {
                one.install(|| bencher.iter(&mut run));
            });
        }
        let mut run = gemm(inputs, outputs, rows);
        group.bench_function(BenchmarkId::new("gemm f32", rows), |bencher| bencher.iter(&mut run));
        group.finish();
    }
}

/// CPU time of the whole process.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = f64;
    type Value = Duration;

    fn start(&self) -> f64 {
        cpu_seconds()
    }

    fn end(&self, start: f64) -> Duration {
        Duration::from_secs_f64(cpu_seconds() - start)
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Seconds of CPU time that this process has used.
#[cfg(target_os = "linux")]
fn cpu_seconds() -> f64 {
    #[repr(C)]
    struct Time {
        seconds: std::ffi::c_long,
        nanoseconds: std::ffi::c_long,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: std::ffi::c_int, time: *mut Time) -> std::ffi::c_int;
    }
    const CLOCK_PROCESS_CPUTIME_ID: std::ffi::c_int = 2;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the C library fills in the struct, whose layout is its `timespec` on 64-bit Linux.
    let result = unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert!(result == 0, "no CPU clock");
    time.seconds as f64 + time.nanoseconds as f64 / 1e9
}

/// Elsewhere, seconds since the start: right only on a quiet machine.
#[cfg(not(target_os = "linux"))]
fn cpu_seconds() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}
