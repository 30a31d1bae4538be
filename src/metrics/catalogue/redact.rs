//! What is masked.

use super::{closed, counter};
use crate::metrics::metric::Metric;

pub(super) const METRICS: &[Metric] = &[MASKED];

const MASKED: Metric = counter(
    "assayd_redact_masked_total",
    "pieces",
    &[closed("place", &["judge", "decider", "sink", "console"])],
    "Secrets and personal data that became markers before text went to this place.",
);

/// Pieces of text that were masked before they went to a place.
pub fn redact_masked(place: &'static str, pieces: usize) {
    MASKED.add(pieces as u64, [place.into()]);
}
