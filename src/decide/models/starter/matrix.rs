//! A weight matrix for products with rows.

use crate::decide::kernels::{Linear, Precision, Rows, RowsMut, Threads, times_transposed};

/// How a weight matrix is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Packed for this CPU's instructions: fastest where it is compiled with optimisation.
    Packed,
    /// As it is stored, for the `gemm` crate: the development profile optimises that and not this crate.
    Stored,
}

impl Form {
    /// The faster one of this build.
    pub const FASTER: Form = if cfg!(debug_assertions) { Form::Stored } else { Form::Packed };
}

/// A weight matrix: a row for each output.
pub enum Matrix {
    /// See [`Form::Packed`].
    Packed(Linear),
    /// See [`Form::Stored`].
    Stored {
        /// `[outputs, inputs]`.
        weights: Vec<f32>,
        /// How many.
        outputs: usize,
        /// How many.
        inputs: usize,
    },
}

impl Matrix {
    /// `weights` are as many as `shape` (outputs and inputs) says.
    pub fn new(weights: Vec<f32>, shape: [usize; 2], form: Form) -> Self {
        let [outputs, inputs] = shape;
        match form {
            Form::Packed => Self::Packed(Linear::pack(&weights, outputs, inputs, Precision::F32)),
            Form::Stored => Self::Stored { weights, outputs, inputs },
        }
    }

    /// A row of outputs for each row of `x`.
    pub fn multiply(&self, x: &[f32]) -> Vec<f32> {
        match self {
            Matrix::Packed(linear) => {
                let mut out = vec![0.0; x.len() / linear.inputs() * linear.outputs()];
                linear.apply(x, &mut out);
                out
            }
            Matrix::Stored { weights, outputs, inputs } => {
                let rows = x.len() / inputs;
                let mut out = vec![0.0; rows * outputs];
                let target = RowsMut::new(&mut out, rows, *outputs, *outputs);
                let weights = Rows::new(weights, *outputs, *inputs, *inputs);
                times_transposed(target, Rows::new(x, rows, *inputs, *inputs), weights, false, Threads::All);
                out
            }
        }
    }
}
