//! bf16 with AVX-512 BF16: 12 rows by 32 columns in 24 registers, two products of a lane at once, summed in f32.

use std::arch::x86_64::{__m512bh, __m512i, _mm512_dpbf16_ps, _mm512_set1_epi32, _mm512_setzero_ps};
use std::mem::transmute;

use super::super::bf16::Bf16;
use super::super::format::{Step, Values};
use super::super::kernel::{Block, Kernel, Tile};
use super::registers::{add, lanes};

/// Made in `detect` only.
struct Bf16Avx512;

/// The kernel, if this CPU has its instructions.
pub fn detect() -> Option<&'static dyn Kernel<Bf16>> {
    let found = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16");
    found.then_some(&Bf16Avx512)
}

impl Kernel<Bf16> for Bf16Avx512 {
    fn instructions(&self) -> &'static str {
        "AVX-512 BF16"
    }

    fn height(&self) -> usize {
        12
    }

    fn tile(&self, tile: &Tile<'_, Bf16>, block: &Block<'_, Bf16>, sums: &mut [Values]) {
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

#[target_feature(enable = "avx512f,avx512bf16")]
fn rows<const M: usize>(x: &[u32], steps: &[Step], sums: &mut [Values]) {
    let mut totals = [[_mm512_setzero_ps(); 2]; M];
    for (x, step) in x.as_chunks::<M>().0.iter().zip(steps) {
        let weights = lanes(step);
        for (totals, lane) in totals.iter_mut().zip(x) {
            let x = pairs(_mm512_set1_epi32(lane.cast_signed()));
            totals[0] = _mm512_dpbf16_ps(totals[0], pairs(weights[0]), x);
            totals[1] = _mm512_dpbf16_ps(totals[1], pairs(weights[1]), x);
        }
    }
    for (sums, totals) in sums.iter_mut().zip(totals) {
        add(sums, totals);
    }
}

/// The same bits as 32 bf16 values.
#[inline(always)]
fn pairs(bits: __m512i) -> __m512bh {
    // SAFETY: both are 64 plain bytes.
    unsafe { transmute(bits) }
}
