//! How often each variant of a service (its model, release and prompt) hallucinates now, against the days before: whether it
//! has drifted. The same windows, least counts and margin as `AssaydVariantDrift` of `deploy/prometheus`.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use crate::domain::{Label, Outcome, Time, Verdict};
use crate::measure::wilson;

const NANOS: u64 = 1_000_000_000;
/// Width of a slot, in seconds.
const SLOT: u64 = 600;
/// Slots that are "now": an hour.
const NOW: u64 = 6;
/// Slots between the baseline and now, so that a drift does not become its own baseline at once: six hours.
const BETWEEN: u64 = 36;
/// Slots of the baseline: three days.
const BASELINE: u64 = 3 * 144;
const SLOTS: u64 = NOW + BETWEEN + BASELINE;
/// Most variants that are told apart.
const MAX_VARIANTS: usize = 200;
/// What stands for all further ones.
const OTHER: &str = "other";
/// Fewer answers than this in the last hour say nothing.
const LEAST_NOW: u64 = 50;
/// Fewer answers than this are no baseline.
const LEAST_BEFORE: u64 = 200;
/// A rate within this of the baseline is no drift.
const MARGIN: f64 = 0.02;

/// What tells two variants apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Variant {
    /// `service.name`.
    pub service: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// `service.version`.
    pub service_version: Option<String>,
    /// The version of the prompt.
    pub prompt_version: Option<String>,
}

/// Answers that have a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    /// All of them.
    pub scored: u64,
    /// Those with label `hallucination`.
    pub hallucination: u64,
}

impl Share {
    fn add(&mut self, more: Share) {
        self.scored += more.scored;
        self.hallucination += more.hallucination;
    }

    fn less(self, other: Share) -> Share {
        Share { scored: self.scored - other.scored, hallucination: self.hallucination - other.hallucination }
    }

    fn rate(self) -> f64 {
        if self.scored == 0 { 0.0 } else { self.hallucination as f64 / self.scored as f64 }
    }

    fn band(self) -> [f64; 2] {
        let whole = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        wilson(whole(self.hallucination), whole(self.scored))
    }
}

/// What a variant is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BaselineOf {
    /// Its own last days.
    Own,
    /// The last days of the service's other variants: it has none of its own yet.
    Others,
    /// Nothing: there were too few answers.
    Nothing,
}

/// Whether a variant has drifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drift {
    /// Even the lower end of the last hour's 95 % band is above the baseline, by more than two points of a hundred.
    Above,
    /// Even the upper end is below it, by as much.
    Below,
    /// Neither.
    Level,
    /// There are too few answers to say so: 50 in the last hour and 200 in the baseline are wanted.
    Unknown,
}

/// A variant's last hour, and its baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantRate {
    /// Which.
    #[serde(flatten)]
    pub variant: Variant,
    /// Its last hour.
    pub now: Share,
    /// The three days that ended six hours before that.
    pub baseline: Share,
    /// Whose these days are.
    pub baseline_of: BaselineOf,
    /// What follows.
    pub drift: Drift,
}

/// Counts of all variants, by slots that hold something, oldest first.
#[derive(Debug, Default)]
pub(super) struct Variants {
    tracks: HashMap<Variant, VecDeque<(u64, Share)>>,
}

impl Variants {
    /// Counts a verdict, if it is on an answer with claims.
    pub fn count(&mut self, verdict: &Verdict) {
        if verdict.outcome != Outcome::Scored || verdict.label.is_none() {
            return;
        }
        let slot = verdict.times.emitted.0 / NANOS / SLOT;
        let more = Share { scored: 1, hallucination: u64::from(verdict.label == Some(Label::Hallucination)) };
        let slots = self.track(verdict, slot);
        // A clock that was set back counts into the latest slot.
        match slots.back_mut() {
            Some((latest, share)) if *latest >= slot => share.add(more),
            _ => slots.push_back((slot, more)),
        }
        while slots.front().is_some_and(|(first, _)| first + SLOTS <= slot) {
            slots.pop_front();
        }
    }

    fn track(&mut self, verdict: &Verdict, slot: u64) -> &mut VecDeque<(u64, Share)> {
        let variant = Variant {
            service: verdict.service.clone(),
            model: verdict.model.clone(),
            service_version: verdict.service_version.clone(),
            prompt_version: verdict.prompt_version.clone(),
        };
        if !self.tracks.contains_key(&variant) && self.tracks.len() >= MAX_VARIANTS {
            // Releases come and go: those of which nothing was heard for days make room.
            self.tracks.retain(|_, slots| slots.back().is_some_and(|(last, _)| last + SLOTS > slot));
        }
        let is_told_apart = self.tracks.contains_key(&variant) || self.tracks.len() < MAX_VARIANTS;
        let other = || Some(OTHER.to_owned());
        let variant = if is_told_apart {
            variant
        } else {
            Variant { service: other(), model: other(), service_version: other(), prompt_version: other() }
        };
        self.tracks.entry(variant).or_default()
    }

    /// All variants that answered in the last hour or in the baseline's days, by name.
    pub fn rates(&self, now: Time) -> Vec<VariantRate> {
        let end = now.0 / NANOS / SLOT + 1;
        let between = |from: u64, to: u64, slots: &VecDeque<(u64, Share)>| {
            let mut sum = Share::default();
            slots.iter().filter(|(slot, _)| (from..to).contains(slot)).for_each(|(_, share)| sum.add(*share));
            sum
        };
        let begins = end.saturating_sub(NOW);
        let baseline_ends = begins.saturating_sub(BETWEEN);
        let baseline_begins = end.saturating_sub(SLOTS);
        let mut of_service: HashMap<&Option<String>, Share> = HashMap::new();
        let mut found = Vec::new();
        for (variant, slots) in &self.tracks {
            let before = between(baseline_begins, baseline_ends, slots);
            of_service.entry(&variant.service).or_default().add(before);
            found.push((variant, between(begins, u64::MAX, slots), before));
        }
        found.retain(|(_, recent, before)| recent.scored + before.scored > 0);
        found.sort_by_key(|(variant, _, _)| *variant);
        let rates = found.into_iter().map(|(variant, recent, own)| {
            let others = of_service[&variant.service].less(own);
            compared(variant.clone(), recent, own, others)
        });
        rates.collect()
    }
}

fn compared(variant: Variant, now: Share, own: Share, others: Share) -> VariantRate {
    let (baseline, baseline_of) = if own.scored >= LEAST_BEFORE {
        (own, BaselineOf::Own)
    } else if others.scored >= LEAST_BEFORE {
        (others, BaselineOf::Others)
    } else {
        (own, BaselineOf::Nothing)
    };
    let [low, high] = now.band();
    let drift = if baseline_of == BaselineOf::Nothing || now.scored < LEAST_NOW {
        Drift::Unknown
    } else if low > baseline.rate() + MARGIN {
        Drift::Above
    } else if high < baseline.rate() - MARGIN {
        Drift::Below
    } else {
        Drift::Level
    };
    VariantRate { variant, now, baseline, baseline_of, drift }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::sample;

    const HOUR: u64 = 3_600;
    /// A week after the epoch, so that there is room before it.
    const WEEK: u64 = 7 * 24 * HOUR;

    /// `bad` of `all` answers of a prompt's version, all at once.
    fn answers(variants: &mut Variants, seconds: u64, prompt: &str, bad: u64, all: u64) {
        for number in 0..all {
            let label = if number < bad { Label::Hallucination } else { Label::Faithful };
            let mut verdict = sample::numbered(number);
            verdict.label = Some(label);
            verdict.prompt_version = Some(prompt.to_owned());
            verdict.times.emitted = Time(seconds * NANOS);
            variants.count(&verdict);
        }
    }

    fn drift(variants: &Variants, seconds: u64, prompt: &str) -> (Drift, BaselineOf) {
        let rates = variants.rates(Time(seconds * NANOS));
        let rate = rates.iter().find(|rate| rate.variant.prompt_version.as_deref() == Some(prompt)).unwrap();
        (rate.drift, rate.baseline_of)
    }

    #[test]
    fn a_variant_is_compared_with_its_own_last_days() {
        let mut variants = Variants::default();
        for day in 0..3 {
            answers(&mut variants, WEEK + day * 24 * HOUR, "v1", 5, 100);
        }
        let today = WEEK + 3 * 24 * HOUR - HOUR;
        answers(&mut variants, today, "v1", 3, 49);
        assert_eq!(drift(&variants, today, "v1"), (Drift::Unknown, BaselineOf::Own), "49 are too few");
        answers(&mut variants, today, "v1", 0, 30);
        assert_eq!(drift(&variants, today, "v1").0, Drift::Level);
        answers(&mut variants, today, "v1", 30, 50);
        assert_eq!(drift(&variants, today, "v1").0, Drift::Above);
        let rates = variants.rates(Time(today * NANOS));
        assert_eq!(rates[0].now, Share { scored: 129, hallucination: 33 });
        assert_eq!(rates[0].baseline, Share { scored: 300, hallucination: 15 });
    }

    #[test]
    fn a_better_rate_is_told_too() {
        let mut variants = Variants::default();
        answers(&mut variants, WEEK, "v1", 200, 400);
        answers(&mut variants, WEEK + 8 * HOUR, "v1", 1, 100);
        assert_eq!(drift(&variants, WEEK + 8 * HOUR, "v1").0, Drift::Below);
    }

    #[test]
    fn a_new_version_is_compared_with_the_service_s_others() {
        let mut variants = Variants::default();
        answers(&mut variants, WEEK, "v1", 10, 500);
        answers(&mut variants, WEEK + 8 * HOUR, "v2", 40, 100);
        answers(&mut variants, WEEK + 8 * HOUR, "v1", 2, 100);
        assert_eq!(drift(&variants, WEEK + 8 * HOUR, "v2"), (Drift::Above, BaselineOf::Others));
        assert_eq!(drift(&variants, WEEK + 8 * HOUR, "v1"), (Drift::Level, BaselineOf::Own));
    }

    #[test]
    fn nothing_is_no_baseline() {
        let mut variants = Variants::default();
        answers(&mut variants, WEEK, "v1", 100, 100);
        assert_eq!(drift(&variants, WEEK, "v1"), (Drift::Unknown, BaselineOf::Nothing));
        assert!(variants.rates(Time(2 * WEEK * NANOS)).is_empty(), "it is forgotten");
        let mut skipped = sample::skipped();
        skipped.times.emitted = Time(2 * WEEK * NANOS);
        variants.count(&skipped);
        assert!(variants.rates(Time(2 * WEEK * NANOS)).is_empty(), "it is no answer");
    }

    #[test]
    fn a_flood_of_versions_is_bounded_and_old_ones_make_room() {
        let mut variants = Variants::default();
        for number in 0..3 * MAX_VARIANTS {
            answers(&mut variants, WEEK, &format!("v{number}"), 0, 1);
        }
        assert_eq!(variants.rates(Time(WEEK * NANOS)).len(), MAX_VARIANTS + 1);
        answers(&mut variants, 2 * WEEK, "new", 0, 1);
        let rates = variants.rates(Time(2 * WEEK * NANOS));
        assert_eq!(rates.len(), 1);
        assert_eq!(rates[0].variant.prompt_version.as_deref(), Some("new"));
    }
}
