//! f32 with AVX2: 6 rows by 16 columns in 12 registers, then the other 16 columns.

use std::arch::x86_64::{_mm256_castsi256_ps, _mm256_fmadd_ps, _mm256_set1_ps, _mm256_setzero_ps};

use super::super::f32::F32;
use super::super::format::Values;
use super::super::kernel::{Block, Kernel, Tile};
use super::registers::{add_half, half_lanes};

/// Made in `detect` only.
struct F32Avx2;

/// The kernel, if this CPU has its instructions.
pub fn detect() -> Option<&'static dyn Kernel<F32>> {
    let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    found.then_some(&F32Avx2)
}

impl Kernel<F32> for F32Avx2 {
    fn instructions(&self) -> &'static str {
        "AVX2"
    }

    fn height(&self) -> usize {
        6
    }

    fn tile(&self, tile: &Tile<'_, F32>, block: &Block<'_, F32>, sums: &mut [Values]) {
        // SAFETY: `detect` has found the features.
        unsafe {
            match sums.len() {
                1 => rows::<1>(tile, block, sums),
                2 => rows::<2>(tile, block, sums),
                3 => rows::<3>(tile, block, sums),
                4 => rows::<4>(tile, block, sums),
                5 => rows::<5>(tile, block, sums),
                _ => rows::<6>(tile, block, sums),
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn rows<const M: usize>(tile: &Tile<'_, F32>, block: &Block<'_, F32>, sums: &mut [Values]) {
    for half in 0..2 {
        let mut totals = [[_mm256_setzero_ps(); 2]; M];
        for (lanes, step) in tile.lanes.as_chunks::<M>().0.iter().zip(block.steps) {
            let weights = half_lanes(step, half).map(|part| _mm256_castsi256_ps(part));
            for (totals, lane) in totals.iter_mut().zip(lanes) {
                let x = _mm256_set1_ps(f32::from_bits(*lane));
                totals[0] = _mm256_fmadd_ps(weights[0], x, totals[0]);
                totals[1] = _mm256_fmadd_ps(weights[1], x, totals[1]);
            }
        }
        for (sums, totals) in sums.iter_mut().zip(totals) {
            add_half(sums, half, totals);
        }
    }
}
