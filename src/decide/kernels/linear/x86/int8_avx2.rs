//! int8 with AVX2: 4 rows by 16 columns in 8 registers, then the other 16 columns.
//!
//! Bytes are widened to 16 bits before they are multiplied: the instruction that multiplies bytes themselves saturates.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_cvtepi32_ps, _mm256_madd_epi16, _mm256_mul_ps,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi16, _mm256_srai_epi16,
    _mm256_srli_epi16,
};

use super::super::format::Values;
use super::super::int8::Int8;
use super::super::kernel::{Block, Kernel, Tile};
use super::registers::{add_half, half_lanes, half_values};

/// Made in `detect` only.
struct Int8Avx2;

/// The kernel, if this CPU has its instructions.
pub fn detect() -> Option<&'static dyn Kernel<Int8>> {
    let found = is_x86_feature_detected!("avx2");
    found.then_some(&Int8Avx2)
}

impl Kernel<Int8> for Int8Avx2 {
    fn instructions(&self) -> &'static str {
        "AVX2"
    }

    fn height(&self) -> usize {
        4
    }

    fn tile(&self, tile: &Tile<'_, Int8>, block: &Block<'_, Int8>, sums: &mut [Values]) {
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

#[target_feature(enable = "avx2")]
fn rows<const M: usize>(tile: &Tile<'_, Int8>, block: &Block<'_, Int8>, sums: &mut [Values]) {
    for half in 0..2 {
        let mut totals = [half_lanes(&block.scales.starts, half); M];
        for (lanes, step) in tile.lanes.as_chunks::<M>().0.iter().zip(block.steps) {
            let weights = half_lanes(step, half).map(|part| signed(part));
            for (totals, lane) in totals.iter_mut().zip(lanes) {
                let x = unsigned(_mm256_set1_epi32(lane.cast_signed()));
                for (total, weights) in totals.iter_mut().zip(weights) {
                    let even = _mm256_madd_epi16(weights[0], x[0]);
                    let odd = _mm256_madd_epi16(weights[1], x[1]);
                    *total = _mm256_add_epi32(*total, _mm256_add_epi32(even, odd));
                }
            }
        }
        let factors = half_values(&block.scales.factors, half);
        for ((sums, totals), scale) in sums.iter_mut().zip(totals).zip(tile.scales) {
            let scale = _mm256_set1_ps(*scale);
            let value = |part: usize| {
                _mm256_mul_ps(_mm256_cvtepi32_ps(totals[part]), _mm256_mul_ps(factors[part], scale))
            };
            add_half(sums, half, [value(0), value(1)]);
        }
    }
}

/// The even and the odd bytes, as 16-bit integers.
#[inline]
#[target_feature(enable = "avx2")]
fn signed(bytes: __m256i) -> [__m256i; 2] {
    [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)), _mm256_srai_epi16::<8>(bytes)]
}

/// The even and the odd bytes, as 16-bit integers.
#[inline]
#[target_feature(enable = "avx2")]
fn unsigned(bytes: __m256i) -> [__m256i; 2] {
    [_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16::<8>(bytes)]
}
