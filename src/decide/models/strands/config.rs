//! The three configuration files of a checkpoint: the decider's, the adapter's and the torso's. Unknown keys are ignored,
//! unsupported values are refused by name.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::LoadError;

/// `strands_decider_config.json` (or `hobson_config.json`), as far as inference reads it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeciderConfig {
    /// Hub id or folder of the base model.
    pub base_model: String,
    /// The base model's revision on the Hub.
    pub base_revision: Option<String>,
    /// `pointer` is the only supported one.
    pub head_type: String,
    /// Width of the pointer head.
    pub pointer_dim: usize,
    /// The window, in tokens.
    pub max_length: usize,
    /// The type that base weights are rounded to.
    pub torch_dtype: String,
    /// Divides the logits.
    pub temperature: f32,
    /// Overrides `temperature` for a kind of question.
    pub temperature_by_kind: Option<BTreeMap<String, f32>>,
    /// The smoothing that score questions were trained with.
    pub ordinal_smoothing: f64,
    /// Only reported.
    pub num_slots: usize,
    /// Whether there is an adapter.
    pub use_lora: bool,
    full_weight_targets: serde_json::Value,
}

impl Default for DeciderConfig {
    fn default() -> Self {
        Self {
            base_model: String::new(),
            base_revision: None,
            head_type: "slot".to_owned(),
            pointer_dim: 256,
            max_length: 3072,
            torch_dtype: "bfloat16".to_owned(),
            temperature: 1.0,
            temperature_by_kind: None,
            ordinal_smoothing: 0.0,
            num_slots: 24,
            use_lora: true,
            full_weight_targets: serde_json::Value::Null,
        }
    }
}

impl DeciderConfig {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let config: Self = read_json(path)?;
        let check = Check { path };
        check.that(config.head_type == "pointer", "head_type", &config.head_type, "pointer")?;
        check.that(config.pointer_dim > 0, "pointer_dim", config.pointer_dim, "1 or more")?;
        check.that(config.max_length > 1, "max_length", config.max_length, "2 or more")?;
        check.that(is_empty(&config.full_weight_targets), "full_weight_targets", "not empty", "empty")?;
        let temperatures = config.temperature_by_kind.iter().flatten().map(|(_, value)| *value);
        for temperature in temperatures.chain([config.temperature]) {
            check.that(temperature.is_finite(), "temperature", temperature, "a finite number")?;
        }
        Ok(config)
    }

    /// The temperature for questions of `kind`.
    pub fn temperature(&self, kind: &str) -> f32 {
        let by_kind = self.temperature_by_kind.as_ref().and_then(|by_kind| by_kind.get(kind));
        by_kind.copied().unwrap_or(self.temperature).max(1e-6)
    }
}

/// `lora/adapter_config.json` of PEFT, as far as merging needs it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AdapterConfig {
    /// Rank.
    pub r: usize,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    bias: Option<String>,
    #[serde(default)]
    peft_type: Option<String>,
    #[serde(default)]
    rank_pattern: serde_json::Value,
    #[serde(default)]
    alpha_pattern: serde_json::Value,
    #[serde(default)]
    modules_to_save: serde_json::Value,
    #[serde(default)]
    target_parameters: serde_json::Value,
    #[serde(default)]
    trainable_token_indices: serde_json::Value,
    #[serde(default)]
    layer_replication: serde_json::Value,
    #[serde(default)]
    lora_bias: bool,
    #[serde(default)]
    use_qalora: bool,
}

impl AdapterConfig {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let config: Self = read_json(path)?;
        let check = Check { path };
        let peft_type = config.peft_type.as_deref().unwrap_or("LORA");
        check.that(peft_type == "LORA", "peft_type", peft_type, "LORA")?;
        check.that(config.r > 0, "r", config.r, "1 or more")?;
        check.that(!config.use_dora, "use_dora", true, "false")?;
        check.that(!config.fan_in_fan_out, "fan_in_fan_out", true, "false")?;
        check.that(!config.lora_bias, "lora_bias", true, "false")?;
        check.that(!config.use_qalora, "use_qalora", true, "false")?;
        let bias = config.bias.as_deref().unwrap_or("none");
        check.that(bias == "none", "bias", bias, "none")?;
        for (key, value) in [
            ("rank_pattern", &config.rank_pattern),
            ("alpha_pattern", &config.alpha_pattern),
            ("modules_to_save", &config.modules_to_save),
            ("target_parameters", &config.target_parameters),
            ("trainable_token_indices", &config.trainable_token_indices),
            ("layer_replication", &config.layer_replication),
        ] {
            check.that(is_empty(value), key, value, "empty")?;
        }
        Ok(config)
    }

    /// What the adapter's product is multiplied by.
    pub fn scale(&self) -> f32 {
        let rank = self.r as f64;
        (self.lora_alpha / if self.use_rslora { rank.sqrt() } else { rank }) as f32
    }
}

/// How a layer of the torso mixes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixer {
    /// Gated full attention.
    Attention,
    /// Gated DeltaNet.
    Delta,
}

/// The Qwen3.5 text torso's dimensions, from the base model's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct TorsoConfig {
    /// V
    pub vocab: usize,
    /// H
    pub hidden: usize,
    /// I
    pub intermediate: usize,
    /// Query heads of full attention.
    pub heads: usize,
    /// Key and value heads of full attention.
    pub kv_heads: usize,
    /// Width of an attention head.
    pub head_dim: usize,
    /// Leading dimensions of a head that rotate.
    pub rotary: usize,
    /// RoPE's base.
    pub rope_theta: f32,
    /// Key heads of linear layers.
    pub key_heads: usize,
    /// Value heads of linear layers.
    pub value_heads: usize,
    /// Width of a key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// Width of the depthwise convolution.
    pub conv: usize,
    /// Added to a mean square under the root.
    pub eps: f32,
    /// The layers, first to last.
    pub layers: Vec<Mixer>,
}

#[derive(Deserialize)]
struct RawBase {
    model_type: String,
    #[serde(default)]
    text_config: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct RawTorso {
    model_type: Option<String>,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    linear_num_key_heads: usize,
    linear_num_value_heads: usize,
    linear_key_head_dim: usize,
    linear_value_head_dim: usize,
    #[serde(default = "four")]
    linear_conv_kernel_dim: usize,
    #[serde(default = "four")]
    full_attention_interval: usize,
    #[serde(default)]
    layer_types: Option<Vec<String>>,
    #[serde(default = "small")]
    rms_norm_eps: f32,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    attn_output_gate: Option<bool>,
    #[serde(default)]
    rope_parameters: Option<RawRope>,
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    partial_rotary_factor: Option<f64>,
}

#[derive(Deserialize, Default)]
struct RawRope {
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

fn four() -> usize {
    4
}

fn small() -> f32 {
    1e-6
}

impl TorsoConfig {
    /// Reads and checks the file. Another family than Qwen3.5 is refused by its name.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let whole: serde_json::Value = read_json(path)?;
        let as_read = |source| LoadError::Json { path: path.to_owned(), source };
        let base = RawBase::deserialize(&whole).map_err(as_read)?;
        let check = Check { path };
        let known = matches!(base.model_type.as_str(), "qwen3_5" | "qwen3_5_text");
        check.that(known, "model_type", &base.model_type, "qwen3_5 or qwen3_5_text")?;
        let text = base.text_config.as_ref().unwrap_or(&whole);
        let raw = RawTorso::deserialize(text).map_err(as_read)?;
        if let Some(model_type) = &raw.model_type {
            let known = matches!(model_type.as_str(), "qwen3_5" | "qwen3_5_text");
            check.that(known, "text_config.model_type", model_type, "qwen3_5_text")?;
        }
        Self::from_raw(raw, &check)
    }

    fn from_raw(raw: RawTorso, check: &Check<'_>) -> Result<Self, LoadError> {
        let act = raw.hidden_act.as_deref().unwrap_or("silu");
        check.that(act == "silu", "hidden_act", act, "silu")?;
        check.that(!raw.attention_bias, "attention_bias", true, "false")?;
        check.that(raw.attn_output_gate != Some(false), "attn_output_gate", false, "true")?;
        for (key, size) in [
            ("vocab_size", raw.vocab_size),
            ("hidden_size", raw.hidden_size),
            ("intermediate_size", raw.intermediate_size),
            ("num_hidden_layers", raw.num_hidden_layers),
            ("num_attention_heads", raw.num_attention_heads),
            ("num_key_value_heads", raw.num_key_value_heads),
            ("head_dim", raw.head_dim),
            ("linear_num_key_heads", raw.linear_num_key_heads),
            ("linear_num_value_heads", raw.linear_num_value_heads),
            ("linear_key_head_dim", raw.linear_key_head_dim),
            ("linear_value_head_dim", raw.linear_value_head_dim),
            ("linear_conv_kernel_dim", raw.linear_conv_kernel_dim),
            ("full_attention_interval", raw.full_attention_interval),
        ] {
            check.that((1..=1 << 24).contains(&size), key, size, "between 1 and 16777216")?;
        }
        let multiple = raw.num_attention_heads.is_multiple_of(raw.num_key_value_heads);
        check.that(
            multiple,
            "num_attention_heads",
            raw.num_attention_heads,
            "a multiple of num_key_value_heads",
        )?;
        let multiple = raw.linear_num_value_heads.is_multiple_of(raw.linear_num_key_heads);
        let found = raw.linear_num_value_heads;
        check.that(multiple, "linear_num_value_heads", found, "a multiple of linear_num_key_heads")?;
        let rope = raw.rope_parameters.unwrap_or_default();
        let rope_type = rope.rope_type.as_deref().unwrap_or("default");
        check.that(rope_type == "default", "rope_parameters.rope_type", rope_type, "default")?;
        let factor = rope.partial_rotary_factor.or(raw.partial_rotary_factor).unwrap_or(0.25);
        check.that((0.0..=1.0).contains(&factor), "partial_rotary_factor", factor, "between 0 and 1")?;
        let rotary = (raw.head_dim as f64 * factor) as usize;
        check.that(
            rotary.is_multiple_of(2),
            "partial_rotary_factor",
            factor,
            "one that gives an even number",
        )?;
        // What the reference takes where none is told; published models tell theirs, which is another.
        let theta = rope.rope_theta.or(raw.rope_theta).unwrap_or(1e4);
        check.that(theta > 0.0, "rope_theta", theta, "above 0")?;
        let types = raw.layer_types.unwrap_or_else(|| {
            let full = |layer: usize| (layer + 1).is_multiple_of(raw.full_attention_interval);
            let name = |layer| if full(layer) { "full_attention" } else { "linear_attention" };
            (0..raw.num_hidden_layers).map(|layer| name(layer).to_owned()).collect()
        });
        let found = types.len();
        check.that(
            found == raw.num_hidden_layers,
            "layer_types",
            found,
            "one for each of num_hidden_layers",
        )?;
        let layers = types
            .iter()
            .map(|name| match name.as_str() {
                "full_attention" => Ok(Mixer::Attention),
                "linear_attention" => Ok(Mixer::Delta),
                other => Err(check.refused("layer_types", other, "full_attention or linear_attention")),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            vocab: raw.vocab_size,
            hidden: raw.hidden_size,
            intermediate: raw.intermediate_size,
            heads: raw.num_attention_heads,
            kv_heads: raw.num_key_value_heads,
            head_dim: raw.head_dim,
            rotary,
            rope_theta: theta as f32,
            key_heads: raw.linear_num_key_heads,
            value_heads: raw.linear_num_value_heads,
            key_dim: raw.linear_key_head_dim,
            value_dim: raw.linear_value_head_dim,
            conv: raw.linear_conv_kernel_dim,
            eps: raw.rms_norm_eps,
            layers,
        })
    }

    /// Channels of q, k and v of a linear layer together.
    pub fn conv_channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }
}

/// Reads a JSON file of a known form.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, LoadError> {
    let bytes = std::fs::read(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| LoadError::Json { path: path.to_owned(), source })
}

struct Check<'a> {
    path: &'a Path,
}

impl Check<'_> {
    fn that(&self, holds: bool, key: &str, found: impl ToString, supported: &str) -> Result<(), LoadError> {
        if holds { Ok(()) } else { Err(self.refused(key, found, supported)) }
    }

    fn refused(&self, key: &str, found: impl ToString, supported: &str) -> LoadError {
        LoadError::Unsupported {
            path: self.path.to_owned(),
            key: key.to_owned(),
            found: found.to_string(),
            supported: supported.to_owned(),
        }
    }
}

fn is_empty(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => true,
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(members) => members.is_empty(),
        _ => false,
    }
}
