//! int8 with AVX-512 VNNI: 12 rows by 32 columns in 24 registers, four products of a lane at once, summed in i32.

use std::arch::x86_64::{
    _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps,
};

use super::super::format::Values;
use super::super::int8::Int8;
use super::super::kernel::{Block, Kernel, Tile};
use super::registers::{add, lanes, values};

/// Made in `detect` only.
struct Int8Avx512;

/// The kernel, if this CPU has its instructions.
pub fn detect() -> Option<&'static dyn Kernel<Int8>> {
    let found = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
    found.then_some(&Int8Avx512)
}

impl Kernel<Int8> for Int8Avx512 {
    fn instructions(&self) -> &'static str {
        "AVX-512 VNNI"
    }

    fn height(&self) -> usize {
        12
    }

    fn tile(&self, tile: &Tile<'_, Int8>, block: &Block<'_, Int8>, sums: &mut [Values]) {
        // SAFETY: `detect` has found the features.
        unsafe {
            match sums.len() {
                1 => rows::<1>(tile, block, sums),
                2 => rows::<2>(tile, block, sums),
                3 => rows::<3>(tile, block, sums),
                4 => rows::<4>(tile, block, sums),
                5 => rows::<5>(tile, block, sums),
                6 => rows::<6>(tile, block, sums),
                7 => rows::<7>(tile, block, sums),
                8 => rows::<8>(tile, block, sums),
                9 => rows::<9>(tile, block, sums),
                10 => rows::<10>(tile, block, sums),
                11 => rows::<11>(tile, block, sums),
                _ => rows::<12>(tile, block, sums),
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512vnni")]
fn rows<const M: usize>(tile: &Tile<'_, Int8>, block: &Block<'_, Int8>, sums: &mut [Values]) {
    let mut totals = [lanes(&block.scales.starts); M];
    for (row_lanes, step) in tile.lanes.as_chunks::<M>().0.iter().zip(block.steps) {
        let weights = lanes(step);
        for (totals, lane) in totals.iter_mut().zip(row_lanes) {
            let x = _mm512_set1_epi32(lane.cast_signed());
            totals[0] = _mm512_dpbusd_epi32(totals[0], x, weights[0]);
            totals[1] = _mm512_dpbusd_epi32(totals[1], x, weights[1]);
        }
    }
    let factors = values(&block.scales.factors);
    for ((sums, totals), scale) in sums.iter_mut().zip(totals).zip(tile.scales) {
        let scale = _mm512_set1_ps(*scale);
        let value = |half: usize| {
            _mm512_mul_ps(_mm512_cvtepi32_ps(totals[half]), _mm512_mul_ps(factors[half], scale))
        };
        add(sums, [value(0), value(1)]);
    }
}
