//! Checkpoints that are not what they should be are refused, and the message says where.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

use super::load::{Options, load};

/// A copy of the fixtures that a test may spoil. Hashes are dropped unless the test is about them.
struct Spoiled {
    folder: TempDir,
    name: &'static str,
}

impl Spoiled {
    fn new(name: &'static str) -> Self {
        let spoiled = Self { folder: TempDir::new().unwrap(), name };
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decider/checkpoints");
        copy(&fixtures, spoiled.folder.path());
        spoiled
    }

    fn without_hashes(name: &'static str) -> Self {
        let spoiled = Self::new(name);
        for file in ["MANIFEST.sha256", "provenance.json"] {
            let _ = fs::remove_file(spoiled.path(file));
        }
        spoiled
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(self.name).join(file)
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.path(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Rewrites a safetensors file with other shapes or names; `None` drops a tensor.
    fn reshape(&self, file: &str, change: impl Fn(&str, Vec<usize>) -> Option<(String, Vec<usize>)>) {
        let path = self.path(file);
        let bytes = fs::read(&path).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let mut changed: HashMap<String, (Vec<usize>, Vec<u8>)> = HashMap::new();
        for (name, view) in tensors.tensors() {
            if let Some((name, shape)) = change(&name, view.shape().to_vec()) {
                let data = vec![0; shape.iter().product::<usize>() * 4];
                changed.insert(name, (shape, data));
            }
        }
        let views = changed.iter().map(|(name, (shape, data))| {
            (name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
        });
        fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
    }

    #[track_caller]
    fn refused(&self, words: &[&str]) {
        let Err(error) = load(&self.path(""), &Options::default()) else { panic!("it loads") };
        let message = error.to_string();
        for word in words {
            assert!(message.contains(word), "{message:?} does not say {word:?}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

const CONFIG: &str = "strands_decider_config.json";

#[test]
fn the_copies_load_when_nothing_is_spoiled() {
    for name in ["tiny-lora", "tiny-legacy", "tiny-merged"] {
        load(&Spoiled::new(name).path(""), &Options::default()).unwrap();
        load(&Spoiled::without_hashes(name).path(""), &Options::default()).unwrap();
    }
}

#[test]
fn settings_that_are_not_supported_are_refused_by_name() {
    for (file, from, to, words) in [
        (CONFIG, r#""head_type": "pointer""#, r#""head_type": "token""#, ["head_type", "token"]),
        (CONFIG, r#"  "head_type": "pointer","#, "", ["head_type", "slot"]),
        (CONFIG, r#""torch_dtype": "bfloat16""#, r#""torch_dtype": "int4""#, ["torch_dtype", "int4"]),
        (
            CONFIG,
            r#""use_lora": true"#,
            r#""use_lora": true, "full_weight_targets": ["x"]"#,
            ["full_weight_targets", CONFIG],
        ),
        (CONFIG, r#""max_length": 640"#, r#""max_length": "long""#, [CONFIG, "long"]),
        (
            "lora/adapter_config.json",
            r#""use_dora": false"#,
            r#""use_dora": true"#,
            ["use_dora", "adapter_config.json"],
        ),
        (
            "lora/adapter_config.json",
            r#""rank_pattern": {}"#,
            r#""rank_pattern": {"q": 2}"#,
            ["rank_pattern", "adapter_config.json"],
        ),
        (
            "lora/adapter_config.json",
            r#""alpha_pattern": {}"#,
            r#""alpha_pattern": {"q": 2}"#,
            ["alpha_pattern", "adapter_config.json"],
        ),
        (
            "lora/adapter_config.json",
            r#""modules_to_save": null"#,
            r#""modules_to_save": ["x"]"#,
            ["modules_to_save", "adapter_config.json"],
        ),
        ("lora/adapter_config.json", r#""bias": "none""#, r#""bias": "all""#, ["bias", "all"]),
        (
            "lora/adapter_config.json",
            r#""fan_in_fan_out": false"#,
            r#""fan_in_fan_out": true"#,
            ["fan_in_fan_out", "true"],
        ),
        (
            "../tiny-qwen35-base/config.json",
            r#""model_type": "qwen3_5","#,
            r#""model_type": "gemma4","#,
            ["model_type", "gemma4"],
        ),
        (
            "../tiny-qwen35-base/config.json",
            r#""hidden_act": "silu""#,
            r#""hidden_act": "gelu""#,
            ["hidden_act", "gelu"],
        ),
        (
            "../tiny-qwen35-base/config.json",
            r#""linear_attention""#,
            r#""sliding_attention""#,
            ["layer_types", "sliding_attention"],
        ),
        (
            "../tiny-qwen35-base/config.json",
            r#""num_key_value_heads": 2"#,
            r#""num_key_value_heads": 3"#,
            ["num_attention_heads", "multiple"],
        ),
    ] {
        let spoiled = Spoiled::without_hashes("tiny-lora");
        spoiled.replace(file, from, to);
        spoiled.refused(&words);
    }
}

#[test]
fn files_that_are_missing_or_too_many_are_named() {
    for (file, words) in [
        (CONFIG, ["strands_decider_config.json", "missing"]),
        ("head.safetensors", ["head.safetensors", "missing"]),
        ("tokenizer.json", ["tokenizer.json", "missing"]),
        ("lora/adapter_config.json", ["adapter_config.json", "cannot read"]),
        ("../tiny-qwen35-base/model.safetensors-00001-of-00001.safetensors", ["00001-of-00001", "missing"]),
        ("../tiny-qwen35-base/config.json", ["tiny-qwen35-base", "not on this machine"]),
    ] {
        let spoiled = Spoiled::without_hashes("tiny-lora");
        fs::remove_file(spoiled.path(file)).unwrap();
        spoiled.refused(&words);
    }
    let spoiled = Spoiled::without_hashes("tiny-lora");
    fs::remove_dir_all(spoiled.path("lora")).unwrap();
    spoiled.refused(&["lora", "use_lora"]);
    let spoiled = Spoiled::without_hashes("tiny-lora");
    fs::write(spoiled.path("slot_head.pt"), "").unwrap();
    spoiled.refused(&["head.safetensors", "slot_head.pt"]);
    spoiled.replace(CONFIG, r#""pointer_dim": 16"#, r#""pointer_dim": 17"#);
    fs::remove_file(spoiled.path("slot_head.pt")).unwrap();
    spoiled.refused(&["head.safetensors", "q.weight", "[16, 64]", "[17, 64]"]);
    spoiled.refused(&["head.safetensors"]);
}

#[test]
fn adapters_must_fit_their_base() {
    let adapter = "lora/adapter_model.safetensors";
    let rename = |from: &'static str, to: &'static str| {
        let spoiled = Spoiled::without_hashes("tiny-lora");
        spoiled.reshape(adapter, |name, shape| Some((name.replace(from, to), shape)));
        spoiled
    };
    rename("layers.0.mlp.up_proj", "layers.9.mlp.up_proj").refused(&[
        "layers.9.mlp.up_proj",
        "matches no tensor",
        adapter,
    ]);
    rename("layers.0.mlp.up_proj.lora_A", "layers.0.mlp.up_proj.lora_C").refused(&["lora_C", adapter]);
    rename("base_model.model.layers.0", "model.layers.0").refused(&["model.layers.0", adapter]);
    let spoiled = Spoiled::without_hashes("tiny-lora");
    let lost = "base_model.model.layers.0.mlp.up_proj.lora_B.weight";
    spoiled.reshape(adapter, |name, shape| (name != lost).then(|| (name.to_owned(), shape)));
    spoiled.refused(&["layers.0.mlp.up_proj.lora_A", "no lora_B"]);
    spoiled.reshape(adapter, |name, mut shape| {
        if name.ends_with("lora_A.weight") {
            shape[0] += 1;
        }
        Some((name.replace("mlp.up_proj", "mlp.gate_proj"), shape))
    });
    spoiled.refused(&["lora_A.weight", "shape [5, ", "expected [4, "]);
}

#[test]
fn tensors_of_the_base_must_have_their_shapes() {
    let file = "../tiny-qwen35-base-flat/model.safetensors";
    for (tensor, words) in [
        ("model.layers.3.self_attn.q_norm.weight", ["q_norm", "[17]", "[16]"]),
        ("model.layers.0.linear_attn.A_log", ["A_log", "[7]", "[6]"]),
        ("model.embed_tokens.weight", ["embed_tokens", "[641, 48]", "[640, 48]"]),
        ("model.layers.7.mlp.down_proj.weight", ["down_proj", "[49, 112]", "[48, 112]"]),
    ] {
        let spoiled = Spoiled::without_hashes("tiny-legacy");
        // Without its adapter, or the adapter would be the first to complain.
        spoiled.replace("hobson_config.json", r#""use_lora": true"#, r#""use_lora": false"#);
        spoiled.reshape(file, |name, mut shape| {
            if name == tensor {
                shape[0] += 1;
            }
            Some((name.to_owned(), shape))
        });
        spoiled.refused(&words);
        spoiled.reshape(file, |name, shape| (name != tensor).then(|| (name.to_owned(), shape)));
        spoiled.refused(&[tensor, "missing"]);
    }
}

#[test]
fn a_file_that_was_changed_after_publication_is_refused() {
    let spoiled = Spoiled::new("tiny-lora");
    spoiled.replace(CONFIG, r#""temperature": 1.3"#, r#""temperature": 1.4"#);
    spoiled.refused(&["strands_decider_config.json", "SHA-256", "provenance.json"]);
    fs::remove_file(spoiled.path("provenance.json")).unwrap();
    spoiled.refused(&["strands_decider_config.json", "SHA-256", "MANIFEST.sha256"]);
    let spoiled = Spoiled::new("tiny-legacy");
    spoiled.reshape("head.safetensors", |name, shape| Some((name.to_owned(), shape)));
    spoiled.refused(&["head.safetensors", "SHA-256"]);
}

#[test]
fn a_tokenizer_must_fit_the_embedding() {
    let spoiled = Spoiled::without_hashes("tiny-lora");
    fs::write(spoiled.path("tokenizer.json"), "{}").unwrap();
    spoiled.refused(&["tokenizer.json", "usable"]);
    let spoiled = Spoiled::without_hashes("tiny-lora");
    spoiled.replace("../tiny-qwen35-base/config.json", r#""vocab_size": 640"#, r#""vocab_size": 600"#);
    spoiled.refused(&["tokenizer.json", "600"]);
}

#[test]
fn truncated_and_garbage_files_are_refused() {
    for file in ["head.safetensors", "lora/adapter_model.safetensors"] {
        for keep in [0, 4, 100] {
            let spoiled = Spoiled::without_hashes("tiny-lora");
            let bytes = fs::read(spoiled.path(file)).unwrap();
            fs::write(spoiled.path(file), &bytes[..keep]).unwrap();
            spoiled.refused(&[file]);
        }
    }
}
