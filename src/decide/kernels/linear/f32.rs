//! f32: weights and inputs as they are.

use super::format::{DEPTH, Format, Step, Values};
use super::kernel::{Block, Kernel, Tile};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::decide::kernels::dispatch;

/// One value in a lane.
pub struct F32;

impl Format for F32 {
    const VALUES: usize = 1;
    type RowScale = ();
    type ColumnScales = ();

    #[inline(always)]
    fn encode_row(values: &[f32], lanes: &mut [u32; DEPTH]) {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = value.to_bits();
        }
    }

    fn encode_column(values: &[f32], lanes: &mut [u32; DEPTH], _: usize, (): &mut ()) {
        Self::encode_row(values, lanes);
    }

    fn kernels() -> Vec<&'static dyn Kernel<Self>> {
        let mut kernels: Vec<&'static dyn Kernel<Self>> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        kernels.extend(x86::f32_avx512::detect().into_iter().chain(x86::f32_avx2::detect()));
        kernels.push(&Portable);
        kernels
    }
}

/// Plain loops.
struct Portable;

impl Kernel<F32> for Portable {
    fn instructions(&self) -> &'static str {
        "portable"
    }

    fn height(&self) -> usize {
        4
    }

    fn tile(&self, tile: &Tile<'_, F32>, block: &Block<'_, F32>, sums: &mut [Values]) {
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
                let x = f32::from_bits(lanes[row]);
                for (total, weight) in totals.0.iter_mut().zip(&step.0) {
                    *total = F::multiply_add(f32::from_bits(*weight), x, *total);
                }
            }
            sums.0.iter_mut().zip(&totals.0).for_each(|(sum, total)| *sum += total);
        }
    }
}
