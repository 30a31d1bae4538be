//! Strands Decider at the dimensions of the 2B model, with random weights: CPU seconds and tokens per request, and peak memory.
//!
//! `cargo bench --bench decider -- f32` (or `bf16`, `int8`). Writes a 3.8 GB checkpoint once, under `ASSAYD_BENCH_DIR` or the
//! system's temporary folder; answers are left beside it, so that a later precision is compared with `f32`. Rows may be chosen:
//! `-- int8 256+1 2000+8`. `python benches/decider_torch.py` runs the reference on the same weights beside it.
//! Claims (`docs/` says what they are measured against): f32 at least 1.1 times the merged f32 reference, bf16 level with the
//! best PyTorch, int8 1.7 times that; eight questions cost less than 1.4 times one, known evidence less than a quarter.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use assayd::decide::kernels::Precision;
use assayd::decide::{Config, Desk, ModelName, start};
use assayd::domain::{ByteSize, Inquiry, Kind, Question, Subject};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

const HIDDEN: usize = 2048;
const INTERMEDIATE: usize = 6144;
const VOCAB: usize = 248_320;
const LAYERS: usize = 24;
const POINTER: usize = 768;

/// Tokens of the state, about, and questions.
const ROWS: [&str; 6] = ["256+1", "256+4", "1024+1", "1024+4", "2000+1", "2000+8"];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let Some(precision) = arguments.first() else {
        // `cargo bench` without a name runs every bench: this one is too heavy for that.
        println!("decider: say f32, bf16 or int8");
        return;
    };
    let precision: Precision = serde_json::from_value(json!(precision)).expect("f32, bf16 or int8");
    let folder = std::env::var_os("ASSAYD_BENCH_DIR")
        .map_or_else(std::env::temp_dir, PathBuf::from)
        .join("assayd-bench-2b");
    if !folder.join("tokenizer.json").exists() {
        write_checkpoint(&folder);
    }
    let before = cpu_seconds();
    let started = Instant::now();
    let config = Config {
        model: ModelName::Checkpoint(folder.to_string_lossy().into_owned()),
        precision,
        prefix_cache: ByteSize::mib(1024),
        ..Config::default()
    };
    let desk = start(&config).expect("the checkpoint loads");
    println!("instructions: {}", precision.instructions());
    println!(
        "loaded in {:.1} s ({:.1} CPU s), resident {:.2} GiB, peak {:.2} GiB",
        started.elapsed().as_secs_f64(),
        cpu_seconds() - before,
        memory("VmRSS"),
        memory("VmHWM")
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(desk.ready());
    println!("request | tokens | CPU s | wall s | tokens/s on two idle cores");
    let mut bench = Bench { desk, runtime, answers: Vec::new(), seed: 0 };
    let chosen = &arguments[1..];
    let rows = if chosen.is_empty() { ROWS.map(str::to_owned).to_vec() } else { chosen.to_vec() };
    for row in &rows {
        let numbers = row
            .split_once('+')
            .and_then(|(state, questions)| Some((state.parse().ok()?, questions.parse().ok()?)));
        let (state, questions) = numbers.expect("rows like 256+1");
        bench.measure(row, state, questions, 3);
    }
    if chosen.is_empty() {
        bench.known_evidence();
    }
    println!("peak {:.2} GiB", memory("VmHWM"));
    compare(&folder.join(format!("answers-{}.json", rows.join("-"))), precision, &bench.answers);
}

struct Bench {
    desk: Desk,
    runtime: tokio::runtime::Runtime,
    /// Probabilities of every question, in order.
    answers: Vec<Vec<f64>>,
    seed: usize,
}

impl Bench {
    /// Asks about fresh states, so that no prefix is known; the least CPU time counts.
    fn measure(&mut self, name: &str, state: usize, questions: usize, times: usize) {
        let mut best = (f64::MAX, f64::MAX, 0);
        for _ in 0..times {
            self.seed += 1;
            let measured = self.ask(inquiry(self.seed, state, 0..questions));
            if measured.0 < best.0 {
                best = measured;
            }
        }
        print_row(name, best);
    }

    /// A second request on the same evidence.
    fn known_evidence(&mut self) {
        self.seed += 1;
        let first = self.ask(inquiry(self.seed, 2000, 0..1));
        let second = self.ask(inquiry(self.seed, 2000, 1..2));
        print_row("2000 + 1, new evidence", first);
        print_row("2000 + 1, known evidence", second);
    }

    fn ask(&mut self, inquiry: Inquiry) -> (f64, f64, u64) {
        let (cpu, wall) = (cpu_seconds(), Instant::now());
        let reply = self.runtime.block_on(self.desk.ask(inquiry)).expect("an answer");
        let took = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64(), reply.input_tokens);
        self.answers
            .extend(reply.decisions.into_iter().map(|decision| decision.expect("a decision").probabilities));
        took
    }
}

fn print_row(name: &str, (cpu, wall, tokens): (f64, f64, u64)) {
    println!("{name} | {tokens} | {cpu:.2} | {wall:.2} | {:.0}", tokens as f64 / (cpu / 2.0));
}

/// A state of about so many tokens and questions of about 60.
fn inquiry(seed: usize, tokens: usize, questions: std::ops::Range<usize>) -> Inquiry {
    // The tiny tokenizer splits digits one by one and knows few words: two tokens for each of these, the space included.
    let mut state = format!("{seed:04} ");
    let mut word = seed;
    while state.len() < tokens.saturating_sub(18) {
        word = (word * 7 + 13) % 97;
        state.push_str(&format!("{word:02} "));
    }
    let questions = questions.map(|index| Question {
        id: index.to_string(),
        kind: Kind::Choice { options: ["a", "b", "c"].map(|name| (name.to_owned(), json!(""))).to_vec() },
        instructions: json!(format!("Which {index}?")),
        subject: Subject::General,
    });
    Inquiry::new(Arc::new(json!(state)), questions.collect())
}

/// How far the answers are from those in f32, if there are any.
fn compare(path: &Path, precision: Precision, answers: &[Vec<f64>]) {
    if precision == Precision::F32 {
        fs::write(path, serde_json::to_string(answers).expect("numbers")).expect("a writable folder");
        return;
    }
    let Ok(text) = fs::read_to_string(path) else { return };
    let exact: Vec<Vec<f64>> = serde_json::from_str(&text).expect("what f32 wrote");
    let pick = |p: &[f64]| (0..p.len()).max_by(|a, b| p[*a].total_cmp(&p[*b]));
    let pairs = || answers.iter().zip(&exact);
    let spread = pairs().flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| (a - b).abs()));
    let same = pairs().filter(|(a, b)| pick(a) == pick(b)).count();
    // How far ahead the pick of f32 was where another one was made, and how far it is ahead in general.
    let margin = |p: &[f64]| {
        let mut sorted = p.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        sorted[0] - sorted[1]
    };
    let changed: Vec<String> = pairs()
        .filter(|(a, b)| pick(a) != pick(b))
        .map(|(_, exact)| format!("{:.4}", margin(exact)))
        .collect();
    let mut margins: Vec<f64> = exact.iter().map(|p| margin(p)).collect();
    margins.sort_by(f64::total_cmp);
    println!(
        "against f32: worst |dp| {:.4}, mean {:.5}, same pick {same} of {}",
        spread.clone().fold(0.0, f64::max),
        spread.clone().sum::<f64>() / spread.count() as f64,
        answers.len()
    );
    println!(
        "margins of the picks in f32: changed ones [{}], median of all {:.4}",
        changed.join(", "),
        margins[margins.len() / 2]
    );
}

fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields: Vec<f64> = after_name.split(' ').map(|field| field.parse().unwrap_or(0.0)).collect();
    // User and system time, in hundredths of a second.
    fields.get(11..13).map_or(0.0, |times| times.iter().sum::<f64>() / 100.0)
}

fn memory(key: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
    kib / f64::from(1 << 20)
}

/// Random weights in the merged, standalone form, one shard for each layer.
fn write_checkpoint(folder: &Path) {
    println!("writing random weights to {}", folder.display());
    fs::create_dir_all(folder).expect("a writable folder");
    let mut writer = Writer { folder, map: BTreeMap::new(), random: 0x9e37_79b9_7f4a_7c15 };
    let prefix = "model.language_model.";
    writer
        .shard("embed", &[(format!("{prefix}embed_tokens.weight"), vec![VOCAB, HIDDEN], 0.02, Dtype::BF16)]);
    for layer in 0..LAYERS {
        let mut tensors = Vec::new();
        let mut add = |name: &str, shape: &[usize], scale: f32| {
            tensors.push((format!("{prefix}layers.{layer}.{name}"), shape.to_vec(), scale, Dtype::BF16));
        };
        // A scale at which every product keeps the size of its input.
        let unit = |inputs: usize| (1.0 / inputs as f32).sqrt();
        add("input_layernorm.weight", &[HIDDEN], 0.1);
        add("post_attention_layernorm.weight", &[HIDDEN], 0.1);
        add("mlp.gate_proj.weight", &[INTERMEDIATE, HIDDEN], unit(HIDDEN));
        add("mlp.up_proj.weight", &[INTERMEDIATE, HIDDEN], unit(HIDDEN));
        add("mlp.down_proj.weight", &[HIDDEN, INTERMEDIATE], unit(INTERMEDIATE));
        if (layer + 1) % 4 == 0 {
            add("self_attn.q_proj.weight", &[2 * 8 * 256, HIDDEN], unit(HIDDEN));
            add("self_attn.k_proj.weight", &[2 * 256, HIDDEN], unit(HIDDEN));
            add("self_attn.v_proj.weight", &[2 * 256, HIDDEN], unit(HIDDEN));
            add("self_attn.o_proj.weight", &[HIDDEN, 8 * 256], unit(8 * 256));
            add("self_attn.q_norm.weight", &[256], 0.1);
            add("self_attn.k_norm.weight", &[256], 0.1);
        } else {
            add("linear_attn.in_proj_qkv.weight", &[3 * 2048, HIDDEN], unit(HIDDEN));
            add("linear_attn.in_proj_z.weight", &[2048, HIDDEN], unit(HIDDEN));
            add("linear_attn.in_proj_b.weight", &[16, HIDDEN], unit(HIDDEN));
            add("linear_attn.in_proj_a.weight", &[16, HIDDEN], unit(HIDDEN));
            add("linear_attn.conv1d.weight", &[3 * 2048, 1, 4], 0.5);
            add("linear_attn.A_log", &[16], 1.0);
            add("linear_attn.dt_bias", &[16], 1.0);
            add("linear_attn.norm.weight", &[128], 1.0);
            add("linear_attn.out_proj.weight", &[HIDDEN, 2048], unit(2048));
        }
        writer.shard(&format!("layer-{layer}"), &tensors);
    }
    let head = [
        ("norm.weight", vec![HIDDEN]),
        ("norm.bias", vec![HIDDEN]),
        ("q.weight", vec![POINTER, HIDDEN]),
        ("q.bias", vec![POINTER]),
        ("k.weight", vec![POINTER, HIDDEN]),
        ("k.bias", vec![POINTER]),
    ];
    let mut tensors: Vec<_> =
        head.into_iter().map(|(name, shape)| (name.to_owned(), shape, 0.05, Dtype::F32)).collect();
    tensors.push((format!("{prefix}norm.weight"), vec![HIDDEN], 0.1, Dtype::BF16));
    writer.shard("head", &tensors);
    let index = json!({"weight_map": writer.map});
    let config = json!({"architectures": ["StrandsDeciderForDecision"], "model_type": "qwen3_5_text", "vocab_size": VOCAB,
        "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": 16,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000, "partial_rotary_factor": 0.25}});
    let decider =
        json!({"head_type": "pointer", "pointer_dim": POINTER, "max_length": 4096, "use_lora": false});
    let write = |name: &str, value: &Value| {
        fs::write(folder.join(name), value.to_string()).expect("a writable folder")
    };
    write("model.safetensors.index.json", &index);
    write("config.json", &config);
    write("strands_decider_config.json", &decider);
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/decider/checkpoints/tiny-lora/tokenizer.json");
    fs::copy(tokenizer, folder.join("tokenizer.json")).expect("the fixture is there");
}

struct Writer<'a> {
    folder: &'a Path,
    map: BTreeMap<String, String>,
    random: u64,
}

impl Writer<'_> {
    fn shard(&mut self, name: &str, tensors: &[(String, Vec<usize>, f32, Dtype)]) {
        let file = format!("{name}.safetensors");
        let mut data = Vec::new();
        for (name, shape, scale, dtype) in tensors {
            self.map.insert(name.clone(), file.clone());
            let count: usize = shape.iter().product();
            let mut bytes = Vec::with_capacity(count * dtype.bitsize() / 8);
            for _ in 0..count {
                let value = scale * self.normal();
                match dtype {
                    Dtype::F32 => bytes.extend(value.to_le_bytes()),
                    _ => bytes.extend(&value.to_le_bytes()[2..]),
                }
            }
            data.push(bytes);
        }
        let views = tensors.iter().zip(&data).map(|((name, shape, _, dtype), bytes)| {
            (
                name.as_str(),
                TensorView::new(*dtype, shape.clone(), bytes).expect("as many bytes as the shape says"),
            )
        });
        safetensors::serialize_to_file(views, None, &self.folder.join(file)).expect("a writable folder");
    }

    /// Nearly normal, of variance 1: the sum of four uniform numbers.
    fn normal(&mut self) -> f32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let sum: u64 = (0..4).map(|part| self.random >> (16 * part) & 0xffff).sum();
        (sum as f32 / 65536.0 - 2.0) * 1.732
    }
}
