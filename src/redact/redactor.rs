//! What is masked at one place.

use std::sync::Arc;

use regex::Regex;

use super::{Config, Mask, PatternError};
use crate::find::Kind;

/// What is masked at one place. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Redactor {
    pub(super) kinds: Arc<[Kind]>,
    pub(super) patterns: Arc<[(String, Regex)]>,
}

impl Redactor {
    /// What the configuration wants at the place whose list of kinds this is; none if nothing is to be masked there. A pattern
    /// that cannot be used is an error: text must not leave unmasked for it.
    pub fn new(config: &Config, kinds: Option<&[Kind]>) -> Result<Option<Self>, PatternError> {
        let Some(kinds) = kinds else { return Ok(None) };
        let patterns = config.patterns.iter().map(|pattern| Ok((pattern.marker.clone(), pattern.compile()?)));
        let patterns: Vec<_> = patterns.collect::<Result<_, PatternError>>()?;
        if kinds.is_empty() && patterns.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { kinds: kinds.into(), patterns: patterns.into() }))
    }

    /// A mask for texts that go out together: equal values get equal markers in all of them.
    pub fn mask(&self) -> Mask<'_> {
        Mask::new(self)
    }
}
