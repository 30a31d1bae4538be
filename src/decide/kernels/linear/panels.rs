//! Weights, packed.

use rayon::prelude::*;

use super::format::{COLUMNS, DEPTH, Format, Step};
use super::kernel::{Block, Kernel};

/// A matrix of weights in panels of [`COLUMNS`] outputs. Within a panel the lanes of one step lie together and the steps follow
/// each other, so a product reads its weights front to back.
pub struct Panels<F: Format> {
    steps: Vec<Step>,
    /// Per panel, per block.
    scales: Vec<F::ColumnScales>,
    outputs: usize,
    inputs: usize,
    kernel: &'static dyn Kernel<F>,
}

impl<F: Format> Panels<F> {
    /// Packs `weights`, `[outputs, inputs]` in row order, for a kernel.
    pub fn pack(weights: &[f32], outputs: usize, inputs: usize, kernel: &'static dyn Kernel<F>) -> Self {
        let panels = outputs.div_ceil(COLUMNS);
        let depth = F::lanes(inputs);
        let blocks = depth.div_ceil(DEPTH);
        let mut steps = vec![Step::ZERO; panels * depth];
        let mut scales = vec![F::ColumnScales::default(); panels * blocks];
        if depth > 0 {
            let columns = weights.par_chunks(COLUMNS * inputs);
            let targets = steps.par_chunks_mut(depth).zip(scales.par_chunks_mut(blocks));
            targets.zip(columns).for_each(|((steps, scales), columns)| {
                pack_panel::<F>(columns, inputs, steps, scales);
            });
        }
        Self { steps, scales, outputs, inputs, kernel }
    }

    /// Rows of the matrix.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns of the matrix.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// What multiplies them.
    pub fn kernel(&self) -> &'static dyn Kernel<F> {
        self.kernel
    }

    /// How many panels there are.
    pub fn count(&self) -> usize {
        self.outputs.div_ceil(COLUMNS)
    }

    /// The blocks of a panel, in the order of the inputs.
    pub fn blocks(&self, panel: usize) -> impl Iterator<Item = Block<'_, F>> {
        let depth = F::lanes(self.inputs);
        let blocks = depth.div_ceil(DEPTH);
        let steps = self.steps[panel * depth..][..depth].chunks(DEPTH);
        let scales = &self.scales[panel * blocks..][..blocks];
        steps.zip(scales).map(|(steps, scales)| Block { steps, scales })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of_val(self.steps.as_slice()) + size_of_val(self.scales.as_slice())
    }
}

/// Packs up to [`COLUMNS`] rows of the matrix as the columns of one panel.
fn pack_panel<F: Format>(rows: &[f32], inputs: usize, steps: &mut [Step], scales: &mut [F::ColumnScales]) {
    let mut lanes = [0; DEPTH];
    for ((block, steps), scales) in steps.chunks_mut(DEPTH).enumerate().zip(scales) {
        let first = block * DEPTH * F::VALUES;
        for (column, row) in rows.chunks(inputs).enumerate() {
            let last = inputs.min(first + DEPTH * F::VALUES);
            F::encode_column(&row[first..last], &mut lanes, column, scales);
            for (step, lane) in steps.iter_mut().zip(&lanes) {
                step.0[column] = *lane;
            }
        }
    }
}
