//! bf16: weights and inputs rounded to the upper half of an f32, products summed in f32.

use super::format::{DEPTH, Format, Step, Values};
use super::kernel::{Block, Kernel, Tile};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::decide::kernels::dispatch;

/// Two values in a lane, the first in the low half.
pub struct Bf16;

impl Format for Bf16 {
    const VALUES: usize = 2;
    type RowScale = ();
    type ColumnScales = ();

    #[inline(always)]
    fn encode_row(values: &[f32], lanes: &mut [u32; DEPTH]) {
        let (pairs, rest) = values.as_chunks::<2>();
        for (lane, pair) in lanes.iter_mut().zip(pairs) {
            *lane = bits(pair[0]) | bits(pair[1]) << 16;
        }
        if let [last] = rest {
            lanes[pairs.len()] = bits(*last);
        }
    }

    fn encode_column(values: &[f32], lanes: &mut [u32; DEPTH], _: usize, (): &mut ()) {
        Self::encode_row(values, lanes);
    }

    fn kernels() -> Vec<&'static dyn Kernel<Self>> {
        let mut kernels: Vec<&'static dyn Kernel<Self>> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        kernels.extend(x86::bf16_avx512::detect().into_iter().chain(x86::bf16_avx2::detect()));
        kernels.push(&Portable);
        kernels
    }
}

/// The nearest bf16, the even one of two; NaN stays NaN.
#[inline(always)]
fn bits(value: f32) -> u32 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    if value.is_nan() { quiet } else { nearest }
}

/// Plain loops.
struct Portable;

impl Kernel<Bf16> for Portable {
    fn instructions(&self) -> &'static str {
        "portable"
    }

    fn height(&self) -> usize {
        4
    }

    fn tile(&self, tile: &Tile<'_, Bf16>, block: &Block<'_, Bf16>, sums: &mut [Values]) {
        dispatch::run(Loop { lanes: tile.lanes, steps: block.steps, sums });
    }
}

struct Loop<'a> {
    lanes: &'a [u32],
    steps: &'a [Step],
    sums: &'a mut [Values],
}

impl dispatch::Kernel for Loop<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: dispatch::Fused>(self) {
        let height = self.sums.len();
        for (row, sums) in self.sums.iter_mut().enumerate() {
            let mut totals = Values::ZERO;
            for (lanes, step) in self.lanes.chunks_exact(height).zip(self.steps) {
                let x = lanes[row];
                for (total, weights) in totals.0.iter_mut().zip(&step.0) {
                    // The second first, as the CPU's instruction does.
                    *total = F::multiply_add(second(*weights), second(x), *total);
                    *total = F::multiply_add(first(*weights), first(x), *total);
                }
            }
            sums.0.iter_mut().zip(&totals.0).for_each(|(sum, total)| *sum += total);
        }
    }
}

#[inline(always)]
fn first(lane: u32) -> f32 {
    f32::from_bits(lane << 16)
}

#[inline(always)]
fn second(lane: u32) -> f32 {
    f32::from_bits(lane & 0xffff_0000)
}
