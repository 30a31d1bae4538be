//! bf16 with AVX2, widened to f32: 4 rows by 16 columns in 8 registers, then the other 16 columns.

use std::arch::x86_64::{
    __m256, __m256i, _mm256_and_si256, _mm256_castsi256_ps, _mm256_fmadd_ps, _mm256_set1_epi32,
    _mm256_setzero_ps, _mm256_slli_epi32,
};

use super::super::bf16::Bf16;
use super::super::format::Values;
use super::super::kernel::{Block, Kernel, Tile};
use super::registers::{add_half, half_lanes};

/// Made in `detect` only.
struct Bf16Avx2;

/// The kernel, if this CPU has its instructions.
pub fn detect() -> Option<&'static dyn Kernel<Bf16>> {
    let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    found.then_some(&Bf16Avx2)
}

impl Kernel<Bf16> for Bf16Avx2 {
    fn instructions(&self) -> &'static str {
        "AVX2"
    }

    fn height(&self) -> usize {
        4
    }

    fn tile(&self, tile: &Tile<'_, Bf16>, block: &Block<'_, Bf16>, sums: &mut [Values]) {
        // SAFETY: `detect` has found the features.
        unsafe {
            match sums.len() {
                1 => rows::<1>(tile, block, sums),
                2 => rows::<2>(tile, block, sums),
                3 => rows::<3>(tile, block, sums),
                _ => rows::<4>(tile, block, sums),
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn rows<const M: usize>(tile: &Tile<'_, Bf16>, block: &Block<'_, Bf16>, sums: &mut [Values]) {
    for half in 0..2 {
        let mut totals = [[_mm256_setzero_ps(); 2]; M];
        for (lanes, step) in tile.lanes.as_chunks::<M>().0.iter().zip(block.steps) {
            let weights = half_lanes(step, half).map(|part| widen(part));
            for (totals, lane) in totals.iter_mut().zip(lanes) {
                let x = widen(_mm256_set1_epi32(lane.cast_signed()));
                for (total, weights) in totals.iter_mut().zip(weights) {
                    // The second first, as the instruction for bf16 does.
                    *total = _mm256_fmadd_ps(weights[1], x[1], *total);
                    *total = _mm256_fmadd_ps(weights[0], x[0], *total);
                }
            }
        }
        for (sums, totals) in sums.iter_mut().zip(totals) {
            add_half(sums, half, totals);
        }
    }
}

/// The first and the second value of each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(lanes: __m256i) -> [__m256; 2] {
    let first = _mm256_slli_epi32::<16>(lanes);
    let second = _mm256_and_si256(lanes, _mm256_set1_epi32(0xffff_0000_u32.cast_signed()));
    [_mm256_castsi256_ps(first), _mm256_castsi256_ps(second)]
}
