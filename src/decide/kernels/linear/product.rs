//! The loops around a kernel: threads over panels, blocks along the inputs, tiles of rows.

use std::cell::RefCell;

use rayon::prelude::*;

use super::format::{COLUMNS, Format, Values};
use super::inputs::Inputs;
use super::output::Output;
use super::panels::Panels;

/// The most rows that are packed at once. Enough for the weights' way from memory not to matter, few enough for packed rows and
/// sums to stay in the caches near the core.
const ROWS: usize = 384;

/// Multiplications of a piece of work that is worth another thread.
const WORTH_A_THREAD: usize = 1 << 16;

thread_local! {
    /// Memory of packed inputs: asking the system for it again in each product would cost a hundredth of the product.
    static MEMORY: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// `out = x · Wᵀ`, or `out += x · Wᵀ`, on the threads of the current pool.
///
/// # Panics
/// If `x` and `out` are not the same number of whole rows.
pub fn product<F: Format>(weights: &Panels<F>, x: &[f32], out: &mut [f32], add: bool) {
    let (outputs, inputs) = (weights.outputs(), weights.inputs());
    let rows = x.len().checked_div(inputs).or(out.len().checked_div(outputs)).unwrap_or(0);
    assert!(x.len() == rows * inputs && out.len() == rows * outputs, "rows of a linear layer");
    if out.is_empty() {
        return;
    }
    if inputs == 0 {
        if !add {
            out.fill(0.0);
        }
        return;
    }
    let part = part(rows, weights.kernel().height());
    for (x, out) in x.chunks(part * inputs).zip(out.chunks_mut(part * outputs)) {
        part_product(weights, x, &Output::new(out, outputs, add));
    }
}

/// Rows of a part: as many parts as [`ROWS`] demands, all about the same, in whole tiles.
fn part(rows: usize, tile: usize) -> usize {
    let parts = rows.div_ceil(ROWS);
    rows.div_ceil(parts).next_multiple_of(tile)
}

fn part_product<F: Format>(weights: &Panels<F>, x: &[f32], out: &Output<'_>) {
    let kernel = weights.kernel();
    let rows = x.len() / weights.inputs();
    let inputs = Inputs::<F>::pack(x, weights.inputs(), kernel.height(), MEMORY.take());
    let worth = WORTH_A_THREAD.div_ceil(COLUMNS * weights.inputs() * rows);
    (0..weights.count()).into_par_iter().with_min_len(worth).for_each_init(
        || vec![Values::ZERO; rows],
        |sums, panel| {
            sums.fill(Values::ZERO);
            for (block, tiles) in weights.blocks(panel).zip(inputs.blocks()) {
                for (tile, sums) in tiles.zip(sums.chunks_mut(kernel.height())) {
                    kernel.tile(&tile, &block, sums);
                }
            }
            // SAFETY: each panel is one item of the iteration.
            unsafe { out.write(panel, sums) };
        },
    );
    MEMORY.set(inputs.into_memory());
}
