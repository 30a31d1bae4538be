//! The seam between the kernels and the loops around them.

use super::format::{Format, Step, Values};

/// The inner loop of a format for one set of instructions. A kernel can only be had where the CPU has them.
pub trait Kernel<F: Format>: Sync {
    /// The instructions that it uses, for people.
    fn instructions(&self) -> &'static str;

    /// The most rows of a tile: what the registers hold.
    fn height(&self) -> usize;

    /// Adds the products of a tile's rows with a block's columns to the rows' sums: one element of `sums` for each row, from 1
    /// to [`Kernel::height`]. What is done to the sums of a row, and in which order, does not depend on the other rows.
    fn tile(&self, tile: &Tile<'_, F>, block: &Block<'_, F>, sums: &mut [Values]);
}

/// A block of a panel of weights.
pub struct Block<'a, F: Format> {
    /// One per lane.
    pub steps: &'a [Step],
    /// As the format needs.
    pub scales: &'a F::ColumnScales,
}

/// The same block of a few rows of the input.
pub struct Tile<'a, F: Format> {
    /// The first lane of each row, then the second of each, and so on.
    pub lanes: &'a [u32],
    /// One per row.
    pub scales: &'a [F::RowScale],
}
