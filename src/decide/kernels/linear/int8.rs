//! Weights and inputs as 8-bit integers; each run of 512 inputs is turned (see `turn`) and has its own scale, per row and per
//! column.
//!
//! A run with a value that is not finite has the scale NaN, and so has every result that it is part of.

use super::format::{DEPTH, Format, Step, Values};
use super::kernel::{Block, Kernel, Tile};
use super::turn::{RUN, turn};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::decide::kernels::dispatch::vectorised;

/// Four values in a lane, the first in the lowest byte. Weights are signed; inputs are offset by 128, as the CPU's instruction
/// for such products takes unsigned bytes on one side.
pub struct Int8;

/// What turns a block's sums of a panel back into values.
#[derive(Debug, Clone, Copy)]
pub struct ColumnScales {
    /// Of the weights.
    pub factors: Values,
    /// What a sum starts from so that the inputs' offset cancels out: −128 · Σ weights, as an i32's bits.
    pub starts: Step,
}

impl Default for ColumnScales {
    fn default() -> Self {
        Self { factors: Values::ZERO, starts: Step::ZERO }
    }
}

/// The inputs' offset.
const OFFSET: i32 = 128;

/// Largest magnitude of a quantised value: −128 is left out, so that both signs are alike.
const LARGEST: f32 = 127.0;

/// A run whose values are all smaller is a run of zeros: its scale could not be inverted.
const SMALLEST: f32 = 1e-30;

/// Adding it rounds to an integer, the even one of two, whose low bits are then the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

impl Format for Int8 {
    const VALUES: usize = 4;
    type RowScale = f32;
    type ColumnScales = ColumnScales;

    #[inline(always)]
    fn encode_row(values: &[f32], lanes: &mut [u32; DEPTH]) -> f32 {
        let mut run = [0.0; RUN];
        let turned = &mut run[..values.len()];
        turned.copy_from_slice(values);
        turn(turned);
        quantise(turned, lanes, 0x8080_8080)
    }

    fn encode_column(values: &[f32], lanes: &mut [u32; DEPTH], column: usize, scales: &mut ColumnScales) {
        let mut run = [0.0; RUN];
        let turned = &mut run[..values.len()];
        turned.copy_from_slice(values);
        let excess = vectorised(
            #[inline(always)]
            || turn(turned),
        );
        scales.factors.0[column] = quantise(turned, lanes, 0) / excess;
        let used = lanes[..values.len().div_ceil(Self::VALUES)].iter();
        let sum: i32 =
            used.flat_map(|lane| lane.to_le_bytes()).map(|byte| i32::from(byte.cast_signed())).sum();
        scales.starts.0[column] = (-OFFSET * sum).cast_unsigned();
    }

    fn kernels() -> Vec<&'static dyn Kernel<Self>> {
        let mut kernels: Vec<&'static dyn Kernel<Self>> = Vec::new();
        #[cfg(target_arch = "x86_64")]
        kernels.extend(x86::int8_avx512::detect().into_iter().chain(x86::int8_avx2::detect()));
        kernels.push(&Portable);
        kernels
    }
}

/// Writes the values as signed bytes, with the bits of `flip` turned, and gives their scale.
#[inline(always)]
fn quantise(values: &[f32], lanes: &mut [u32; DEPTH], flip: u32) -> f32 {
    // As integers, the bits of magnitudes have the order of the magnitudes, and NaN comes last.
    let largest = values.iter().fold(0, |largest: u32, value| largest.max(value.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(largest);
    let (factor, scale) = if !largest.is_finite() {
        (0.0, f32::NAN)
    } else if largest < SMALLEST {
        (0.0, 0.0)
    } else {
        (LARGEST / largest, largest / LARGEST)
    };
    let (fours, rest) = values.as_chunks::<4>();
    for (lane, four) in lanes.iter_mut().zip(fours) {
        *lane = lane_of(*four, factor) ^ flip;
    }
    if !rest.is_empty() {
        let mut four = [0.0; 4];
        four[..rest.len()].copy_from_slice(rest);
        lanes[fours.len()] = lane_of(four, factor) ^ flip;
    }
    scale
}

#[inline(always)]
fn lane_of(four: [f32; 4], factor: f32) -> u32 {
    let byte = |value: f32| (value * factor + ROUND).to_bits() & 0xff;
    byte(four[0]) | byte(four[1]) << 8 | byte(four[2]) << 16 | byte(four[3]) << 24
}

/// Plain loops.
struct Portable;

impl Kernel<Int8> for Portable {
    fn instructions(&self) -> &'static str {
        "portable"
    }

    fn height(&self) -> usize {
        4
    }

    fn tile(&self, tile: &Tile<'_, Int8>, block: &Block<'_, Int8>, sums: &mut [Values]) {
        vectorised(
            #[inline(always)]
            || add_products(tile, block, sums),
        );
    }
}

#[inline(always)]
fn add_products(tile: &Tile<'_, Int8>, block: &Block<'_, Int8>, sums: &mut [Values]) {
    let height = sums.len();
    for (row, (sums, scale)) in sums.iter_mut().zip(tile.scales).enumerate() {
        let mut totals = block.scales.starts.0.map(u32::cast_signed);
        for (lanes, step) in tile.lanes.chunks_exact(height).zip(block.steps) {
            let x = lanes[row].to_le_bytes().map(i32::from);
            for (total, weights) in totals.iter_mut().zip(&step.0) {
                let weights = weights.to_le_bytes().map(|byte| i32::from(byte.cast_signed()));
                *total += weights[0] * x[0] + weights[1] * x[1] + weights[2] * x[2] + weights[3] * x[3];
            }
        }
        for ((sum, total), factor) in sums.0.iter_mut().zip(totals).zip(&block.scales.factors.0) {
            *sum += total as f32 * (factor * scale);
        }
    }
}
