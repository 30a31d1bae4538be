//! A decider that a closure plays: for tests of the rooms above, and for benches that want the flow without a model.

use std::sync::Arc;

use super::{
    Calibration, Capabilities, DecideError, Decider, Encoded, Encoder, Layout, ModelInfo, Reply, Size,
};
use crate::domain::Inquiry;

/// A decider whose answers a closure gives. Not to be had in configuration: it decides nothing.
pub struct Scripted<F> {
    script: F,
    capabilities: Capabilities,
}

impl<F> Scripted<F>
where
    F: FnMut(&Inquiry) -> Result<Reply, DecideError> + Send + 'static,
{
    /// Answers each inquiry with what `script` returns, on the inference thread.
    pub fn new(script: F) -> Self {
        Self { script, capabilities: Capabilities::ALL }
    }

    /// Claims these capabilities instead of all.
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }
}

impl<F> Decider for Scripted<F>
where
    F: FnMut(&Inquiry) -> Result<Reply, DecideError> + Send + 'static,
{
    type Work = Inquiry;

    fn info(&self) -> ModelInfo {
        ModelInfo {
            name: "scripted".to_owned(),
            revision: String::new(),
            calibration: Calibration::Uncalibrated,
            capabilities: self.capabilities,
            max_tokens: None,
            facts: serde_json::Map::new(),
        }
    }

    fn encoder(&self) -> Arc<dyn Encoder<Inquiry>> {
        Arc::new(AsIs)
    }

    fn layout(&self) -> Layout {
        Layout::Ragged
    }

    fn decide(&mut self, batch: &[Inquiry]) -> Result<Vec<Reply>, DecideError> {
        batch.iter().map(&mut self.script).collect()
    }

    fn warm_up(&mut self) -> Result<(), DecideError> {
        Ok(())
    }
}

/// Hands an inquiry on as it is; every question counts as one token.
struct AsIs;

impl Encoder<Inquiry> for AsIs {
    fn encode(&self, inquiry: Inquiry) -> Result<Encoded<Inquiry>, DecideError> {
        let size = Size::of_rows(inquiry.questions.iter().map(|_| 1));
        Ok(Encoded::Work { work: inquiry, size })
    }

    fn is_quick(&self, _: &Inquiry) -> bool {
        true
    }
}
