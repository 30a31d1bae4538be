//! Rows of the input, packed for one product.

use rayon::prelude::*;

use super::format::{DEPTH, Format};
use super::kernel::Tile;
use crate::decide::kernels::dispatch::vectorised;

/// Rows in tiles of a kernel's height: block by block, tile by tile, lane by lane.
pub struct Inputs<F: Format> {
    lanes: Vec<u32>,
    /// Per block, per row.
    scales: Vec<F::RowScale>,
    rows: usize,
    /// Rows of a tile; the last tile may have less.
    height: usize,
}

impl<F: Format> Inputs<F> {
    /// Packs rows of `width` values, in tiles of `height` rows, in the memory of earlier inputs. Neither is zero.
    pub fn pack(rows: &[f32], width: usize, height: usize, mut memory: Vec<u32>) -> Self {
        let count = rows.len() / width;
        let depth = F::lanes(width);
        memory.resize(count * depth, 0);
        let mut scales = vec![F::RowScale::default(); count * depth.div_ceil(DEPTH)];
        let blocks = memory.par_chunks_mut(count * DEPTH).zip(scales.par_chunks_mut(count));
        blocks.enumerate().for_each(|(block, (lanes, scales))| {
            vectorised(
                #[inline(always)]
                || pack_block::<F>(rows, width, block, height, lanes, scales),
            );
        });
        Self { lanes: memory, scales, rows: count, height }
    }

    /// The tiles of each block, in the order of the inputs.
    pub fn blocks(&self) -> impl Iterator<Item = impl Iterator<Item = Tile<'_, F>>> {
        let blocks = self.lanes.chunks(self.rows * DEPTH).zip(self.scales.chunks(self.rows));
        blocks.map(|(lanes, scales)| {
            let depth = lanes.len() / self.rows;
            let tiles = lanes.chunks(depth * self.height).zip(scales.chunks(self.height));
            tiles.map(|(lanes, scales)| Tile { lanes, scales })
        })
    }

    /// The memory, for later inputs.
    pub fn into_memory(self) -> Vec<u32> {
        self.lanes
    }
}

#[inline(always)]
fn pack_block<F: Format>(
    rows: &[f32],
    width: usize,
    block: usize,
    height: usize,
    lanes: &mut [u32],
    scales: &mut [F::RowScale],
) {
    let depth = lanes.len() / scales.len();
    let first = block * DEPTH * F::VALUES;
    let last = width.min(first + DEPTH * F::VALUES);
    let mut one = [0; DEPTH];
    let tiles =
        rows.chunks(width * height).zip(lanes.chunks_mut(depth * height)).zip(scales.chunks_mut(height));
    for ((rows, lanes), scales) in tiles {
        let height = scales.len();
        for (place, (row, scale)) in rows.chunks(width).zip(scales).enumerate() {
            *scale = F::encode_row(&row[first..last], &mut one);
            for (lane, slots) in one.iter().zip(lanes.chunks_exact_mut(height)) {
                slots[place] = *lane;
            }
        }
    }
}
