//! What a layer that mixes rows is given.

use super::super::super::config::TorsoConfig;
use super::LayerState;
use super::place::Places;

/// One layer's part in a pass.
pub struct Mixing<'m, 'a> {
    pub config: &'m TorsoConfig,
    /// All rows of the pass, normed.
    pub normed: &'m [f32],
    pub places: &'m Places<'a>,
    /// Rows to mix; none for all.
    pub wanted: Option<&'m [usize]>,
    /// Which layer it is.
    pub layer: usize,
}

impl<'a> Mixing<'_, 'a> {
    /// This layer's state before a segment, if an earlier pass has kept it.
    pub fn kept(&self, segment: usize) -> Option<&'a LayerState> {
        self.places.kept[segment].map(|state| &state.layers[self.layer])
    }
}
