//! f32 with AVX-512: 12 rows by 32 columns in 24 registers.

use std::arch::x86_64::{_mm512_castsi512_ps, _mm512_fmadd_ps, _mm512_set1_ps, _mm512_setzero_ps};

use super::super::f32::F32;
use super::super::format::{Step, Values};
use super::super::kernel::{Block, Kernel, Tile};
use super::registers::{add, lanes};

/// Made in `detect` only.
struct F32Avx512;

/// The kernel, if this CPU has its instructions.
pub fn detect() -> Option<&'static dyn Kernel<F32>> {
    let found = is_x86_feature_detected!("avx512f");
    found.then_some(&F32Avx512)
}

impl Kernel<F32> for F32Avx512 {
    fn instructions(&self) -> &'static str {
        "AVX-512"
    }

    fn height(&self) -> usize {
        12
    }

    fn tile(&self, tile: &Tile<'_, F32>, block: &Block<'_, F32>, sums: &mut [Values]) {
        // SAFETY: `detect` has found the features.
        unsafe {
            match sums.len() {
                1 => rows::<1>(tile.lanes, block.steps, sums),
                2 => rows::<2>(tile.lanes, block.steps, sums),
                3 => rows::<3>(tile.lanes, block.steps, sums),
                4 => rows::<4>(tile.lanes, block.steps, sums),
                5 => rows::<5>(tile.lanes, block.steps, sums),
                6 => rows::<6>(tile.lanes, block.steps, sums),
                7 => rows::<7>(tile.lanes, block.steps, sums),
                8 => rows::<8>(tile.lanes, block.steps, sums),
                9 => rows::<9>(tile.lanes, block.steps, sums),
                10 => rows::<10>(tile.lanes, block.steps, sums),
                11 => rows::<11>(tile.lanes, block.steps, sums),
                _ => rows::<12>(tile.lanes, block.steps, sums),
            }
        }
    }
}

#[target_feature(enable = "avx512f")]
fn rows<const M: usize>(x: &[u32], steps: &[Step], sums: &mut [Values]) {
    let mut totals = [[_mm512_setzero_ps(); 2]; M];
    for (x, step) in x.as_chunks::<M>().0.iter().zip(steps) {
        let weights = lanes(step).map(|half| _mm512_castsi512_ps(half));
        for (totals, lane) in totals.iter_mut().zip(x) {
            let x = _mm512_set1_ps(f32::from_bits(*lane));
            totals[0] = _mm512_fmadd_ps(weights[0], x, totals[0]);
            totals[1] = _mm512_fmadd_ps(weights[1], x, totals[1]);
        }
    }
    for (sums, totals) in sums.iter_mut().zip(totals) {
        add(sums, totals);
    }
}
