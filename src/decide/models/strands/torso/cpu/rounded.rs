//! What rounding costs in the layers of a torso that is wide enough to be rounded.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView};

use super::super::super::config::TorsoConfig;
use super::super::super::shards::Rounding;
use super::super::super::weights::Weights;
use super::super::{After, Segment, Torso};
use super::CpuTorso;
use crate::decide::kernels::Precision;

const HIDDEN: usize = 512;
const INTERMEDIATE: usize = 1024;
const VOCAB: usize = 64;
const LAYERS: usize = 4;
/// Heads of all kinds, and their width: products with 512 inputs, the narrowest that are rounded.
const HEADS: usize = 4;
const WIDTH: usize = 128;

/// A folder with a base model of random weights: three layers of the delta rule and one of attention, as in the 2B model.
fn random_base() -> tempfile::TempDir {
    let folder = tempfile::TempDir::new().unwrap();
    let config = serde_json::json!({"model_type": "qwen3_5_text", "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": 2, "head_dim": WIDTH, "linear_num_key_heads": HEADS, "linear_num_value_heads": HEADS,
        "linear_key_head_dim": WIDTH, "linear_value_head_dim": WIDTH});
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut state = 0x9e37_79b9_u64;
    let mut normal = move || {
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..6).map(|_| uniform()).sum::<f32>() / 1.5
    };
    let mut tensors: HashMap<String, (Vec<usize>, Vec<u8>)> = HashMap::new();
    let mut add = |name: &str, shape: &[usize], scale: f32| {
        let count = shape.iter().product();
        let values: Vec<u8> = (0..count).flat_map(|_| (scale * normal()).to_le_bytes()).collect();
        tensors.insert(format!("model.{name}"), (shape.to_vec(), values));
    };
    let unit = |inputs: usize| (1.0 / inputs as f32).sqrt();
    let inner = HEADS * WIDTH;
    add("embed_tokens.weight", &[VOCAB, HIDDEN], 0.05);
    add("norm.weight", &[HIDDEN], 0.1);
    for layer in 0..LAYERS {
        let mut add =
            |name: &str, shape: &[usize], scale: f32| add(&format!("layers.{layer}.{name}"), shape, scale);
        add("input_layernorm.weight", &[HIDDEN], 0.1);
        add("post_attention_layernorm.weight", &[HIDDEN], 0.1);
        add("mlp.gate_proj.weight", &[INTERMEDIATE, HIDDEN], unit(HIDDEN));
        add("mlp.up_proj.weight", &[INTERMEDIATE, HIDDEN], unit(HIDDEN));
        add("mlp.down_proj.weight", &[HIDDEN, INTERMEDIATE], unit(INTERMEDIATE));
        if layer == LAYERS - 1 {
            add("self_attn.q_proj.weight", &[2 * inner, HIDDEN], unit(HIDDEN));
            add("self_attn.k_proj.weight", &[2 * WIDTH, HIDDEN], unit(HIDDEN));
            add("self_attn.v_proj.weight", &[2 * WIDTH, HIDDEN], unit(HIDDEN));
            add("self_attn.o_proj.weight", &[HIDDEN, inner], unit(inner));
            add("self_attn.q_norm.weight", &[WIDTH], 0.1);
            add("self_attn.k_norm.weight", &[WIDTH], 0.1);
        } else {
            add("linear_attn.in_proj_qkv.weight", &[3 * inner, HIDDEN], unit(HIDDEN));
            add("linear_attn.in_proj_z.weight", &[inner, HIDDEN], unit(HIDDEN));
            add("linear_attn.in_proj_b.weight", &[HEADS, HIDDEN], unit(HIDDEN));
            add("linear_attn.in_proj_a.weight", &[HEADS, HIDDEN], unit(HIDDEN));
            add("linear_attn.conv1d.weight", &[3 * inner, 1, 4], 0.5);
            add("linear_attn.A_log", &[HEADS], 1.0);
            add("linear_attn.dt_bias", &[HEADS], 1.0);
            add("linear_attn.norm.weight", &[WIDTH], 1.0);
            add("linear_attn.out_proj.weight", &[HIDDEN, inner], unit(inner));
        }
    }
    let views = tensors.iter().map(|(name, (shape, data))| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
    });
    let file = safetensors::serialize(views, None).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    folder
}

/// What each layer gave, and the final rows.
fn read(folder: &std::path::Path, precision: Precision, tokens: &[u32]) -> Vec<(String, Vec<f32>)> {
    let config = TorsoConfig::read(&folder.join("config.json")).unwrap();
    let weights = Weights::open(folder, Rounding::F32, None).unwrap();
    let mut torso = CpuTorso::load(config, &weights, precision).unwrap();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = std::sync::Arc::clone(&seen);
    torso.set_probe(Box::new(move |name, values| {
        // `layer.3.out`: the hidden rows after a layer.
        if name.ends_with(".out") && name.split('.').count() == 3 {
            sink.lock().unwrap().push((name.to_owned(), values.to_vec()));
        }
    }));
    let wanted = (0..tokens.len()).collect();
    let segment = Segment { tokens, after: After::Nothing, wanted, keep: false };
    let rows = torso.forward(&[segment]).unwrap().rows;
    let mut layers = std::mem::take(&mut *seen.lock().unwrap());
    layers.push(("final".to_owned(), rows));
    layers
}

/// Root of the mean square of the difference, as a share of that of the values.
fn error(ours: &[f32], exact: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value).powi(2);
    let off: f64 = ours.iter().zip(exact).map(|(a, b)| square(a - b)).sum();
    (off / exact.iter().map(|value| square(*value)).sum::<f64>()).sqrt()
}

/// A random net is the hard case: its residual stream is all made by the layers, so their errors add up undiluted.
#[test]
fn layers_of_a_wide_torso_stay_near_f32_when_they_are_rounded() {
    let folder = random_base();
    let tokens: Vec<u32> = (0..24).map(|position| position * 29 % VOCAB as u32).collect();
    let exact = read(folder.path(), Precision::F32, &tokens);
    assert_eq!(exact.len(), LAYERS + 1);
    for (precision, first, last) in [(Precision::Bf16, 0.009, 0.023), (Precision::Int8, 0.06, 0.13)] {
        let rounded = read(folder.path(), precision, &tokens);
        let errors: Vec<f64> =
            rounded.iter().zip(&exact).map(|((_, ours), (_, exact))| error(ours, exact)).collect();
        assert!(errors[0] > 1e-5, "{precision:?}: nothing was rounded: {errors:?}");
        assert!(errors[0] < first, "{precision:?}: the first layer is off by {errors:?}");
        assert!(errors.iter().all(|error| *error < last), "{precision:?}: layers are off by {errors:?}");
    }
}
