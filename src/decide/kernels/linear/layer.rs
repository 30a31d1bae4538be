//! A linear layer in any of the formats.

use serde::{Deserialize, Serialize};

use super::bf16::Bf16;
use super::f32::F32;
use super::format::Format;
use super::int8::Int8;
use super::kernel::Kernel;
use super::panels::Panels;
use super::product::product;

/// What a layer's weights are kept in, and its inputs rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// As they are: four bytes for a weight.
    #[default]
    F32,
    /// Rounded to bf16: two bytes. Sums are in f32.
    Bf16,
    /// Turned by a matrix of ±1 in runs of 512, then rounded to 8 bits with a scale for each run, per output and per row: one
    /// byte. Sums of a run are exact, sums of runs in f32.
    Int8,
}

impl Precision {
    /// The instructions that its products use on this CPU, for people.
    pub fn instructions(self) -> &'static str {
        match self {
            Precision::F32 => fastest::<F32>().instructions(),
            Precision::Bf16 => fastest::<Bf16>().instructions(),
            Precision::Int8 => fastest::<Int8>().instructions(),
        }
    }
}

/// `y = x · Wᵀ` with constant weights.
///
/// Products run on the threads of the current rayon pool (`ThreadPool::install` says which). A row of the output has the same
/// bits whatever the other rows and however many the threads.
///
/// A row of the input that holds NaN or an infinity gives NaN or infinities in f32 and bf16; in int8 its outputs are all NaN.
/// Other rows are not touched by it.
pub struct Linear {
    packed: Packed,
}

enum Packed {
    F32(Panels<F32>),
    Bf16(Panels<Bf16>),
    Int8(Panels<Int8>),
}

impl Linear {
    /// Packs the weights, `[outputs, inputs]` in row order.
    ///
    /// # Panics
    /// If there are not `outputs · inputs` weights.
    pub fn pack(weights: &[f32], outputs: usize, inputs: usize, precision: Precision) -> Self {
        assert!(weights.len() == outputs * inputs, "{} weights for {outputs} x {inputs}", weights.len());
        let packed = match precision {
            Precision::F32 => Packed::F32(Panels::pack(weights, outputs, inputs, fastest())),
            Precision::Bf16 => Packed::Bf16(Panels::pack(weights, outputs, inputs, fastest())),
            Precision::Int8 => Packed::Int8(Panels::pack(weights, outputs, inputs, fastest())),
        };
        Self { packed }
    }

    /// `out = x · Wᵀ`, row by row.
    ///
    /// # Panics
    /// If `x` and `out` are not the same number of whole rows.
    pub fn apply(&self, x: &[f32], out: &mut [f32]) {
        self.multiply(x, out, false);
    }

    /// `out += x · Wᵀ`, row by row.
    ///
    /// # Panics
    /// If `x` and `out` are not the same number of whole rows.
    pub fn apply_adding(&self, x: &[f32], out: &mut [f32]) {
        self.multiply(x, out, true);
    }

    /// Width of a row of the output.
    pub fn outputs(&self) -> usize {
        match &self.packed {
            Packed::F32(panels) => panels.outputs(),
            Packed::Bf16(panels) => panels.outputs(),
            Packed::Int8(panels) => panels.outputs(),
        }
    }

    /// Width of a row of the input.
    pub fn inputs(&self) -> usize {
        match &self.packed {
            Packed::F32(panels) => panels.inputs(),
            Packed::Bf16(panels) => panels.inputs(),
            Packed::Int8(panels) => panels.inputs(),
        }
    }

    /// Bytes of memory that the weights take.
    pub fn bytes(&self) -> usize {
        match &self.packed {
            Packed::F32(panels) => panels.bytes(),
            Packed::Bf16(panels) => panels.bytes(),
            Packed::Int8(panels) => panels.bytes(),
        }
    }

    fn multiply(&self, x: &[f32], out: &mut [f32], add: bool) {
        match &self.packed {
            Packed::F32(panels) => product(panels, x, out, add),
            Packed::Bf16(panels) => product(panels, x, out, add),
            Packed::Int8(panels) => product(panels, x, out, add),
        }
    }
}

fn fastest<F: Format>() -> &'static dyn Kernel<F> {
    *F::kernels().first().expect("the portable kernel is always there")
}
