//! The torso's seam: token ids in, final hidden rows out, with the state after any segment kept for later ones.
//! A family of models is one implementation of [`Torso`] (or two: one for the CPU, one for any device).

mod cpu;
mod device;

pub use cpu::CpuTorso;
pub use device::DeviceTorso;

/// A decoder without its language-model head.
pub trait Torso: Send + 'static {
    /// What is carried across a split: exactly what the torso needs to read on after a prefix.
    type State: Send + Sync + 'static;

    /// Reads segments. Rows of different segments share every product; a segment sees only itself and its ancestors.
    fn forward(&mut self, segments: &[Segment<'_, Self::State>]) -> Result<Pass<Self::State>, TorsoError>;

    /// Width of a hidden row.
    fn hidden(&self) -> usize;

    /// Bytes that a state holds.
    fn weight(&self, state: &Self::State) -> usize;
}

/// A run of tokens.
pub struct Segment<'a, S> {
    /// Token ids; at least one.
    pub tokens: &'a [u32],
    /// What comes before it.
    pub after: After<'a, S>,
    /// Offsets of the tokens whose hidden rows are wanted.
    pub wanted: Vec<usize>,
    /// Whether the state after its last token is wanted.
    pub keep: bool,
}

/// What comes before a segment.
#[derive(Debug)]
pub enum After<'a, S> {
    /// Nothing.
    Nothing,
    /// An earlier segment of this pass, by its position.
    Segment(usize),
    /// The prefix of an earlier pass.
    Kept(&'a S),
}

/// What a pass gives.
pub struct Pass<S> {
    /// Final hidden rows, after the last norm, in the order of segments and of their wanted offsets.
    pub rows: Vec<f32>,
    /// Per segment, if it was to be kept.
    pub states: Vec<Option<S>>,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum TorsoError {
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] candle_core::Error),
}
