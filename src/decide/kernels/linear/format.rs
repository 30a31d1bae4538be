//! How values lie in memory: what the formats, the kernels and the loops around them agree on.

use super::kernel::Kernel;

/// Outputs of a panel: two 512-bit registers of lanes, or four of 256 bits.
pub const COLUMNS: usize = 32;

/// Lanes of a block along the inputs. A block of a panel is then 16 KiB, half of the first-level cache, and is read again for
/// each tile of rows. In int8 it is also the run of inputs (512) that is turned together and shares a scale.
pub const DEPTH: usize = 128;

/// One lane of each column of a panel.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Step(pub [u32; COLUMNS]);

impl Step {
    /// Zeros, in every format.
    pub const ZERO: Step = Step([0; COLUMNS]);
}

/// One value for each column of a panel.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Values(pub [f32; COLUMNS]);

impl Values {
    /// Zeros.
    pub const ZERO: Values = Values([0.0; COLUMNS]);
}

/// A number format. Values along the inputs are grouped in lanes of 32 bits, so that packing, blocking and threads are the
/// same for all formats.
pub trait Format: Sized + 'static {
    /// Values in a lane.
    const VALUES: usize;

    /// What a block of one row of the input needs beside its lanes.
    type RowScale: Copy + Default + Send + Sync;

    /// What a block of a panel of weights needs beside its lanes.
    type ColumnScales: Copy + Default + Send + Sync;

    /// Writes a block of one row of the input.
    fn encode_row(values: &[f32], lanes: &mut [u32; DEPTH]) -> Self::RowScale;

    /// Writes a block of one column of weights.
    fn encode_column(
        values: &[f32],
        lanes: &mut [u32; DEPTH],
        column: usize,
        scales: &mut Self::ColumnScales,
    );

    /// The kernels that this CPU can run, the fastest first. The last one runs everywhere.
    fn kernels() -> Vec<&'static dyn Kernel<Self>>;

    /// Lanes of a row.
    fn lanes(inputs: usize) -> usize {
        inputs.div_ceil(Self::VALUES)
    }
}
