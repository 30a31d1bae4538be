//! How many verdicts of which kind there were, by service, agent and time: what a chart of the last hours needs.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

use crate::domain::{Label, Outcome, Time};

/// Width of a slot, in seconds.
pub(super) const SLOT: u64 = 10;
/// Slots that are remembered: three hours.
const SLOTS: u64 = 1_080;
/// Most pairs of service and agent that are told apart; further ones are counted as one.
const MAX_PAIRS: usize = 200;
/// What stands for all further ones.
const OTHER: &str = "other";
const NANOS: u64 = 1_000_000_000;

/// Verdicts by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Traces that were evaluated.
    pub scored: u32,
    /// Those of them with label `hallucination`.
    pub hallucination: u32,
    /// Those of them with label `unsure`.
    pub unsure: u32,
    /// Traces with nothing to evaluate.
    pub skipped: u32,
    /// Traces that could not be evaluated.
    pub failed: u32,
}

impl Tally {
    fn count(&mut self, outcome: Outcome, label: Option<Label>) {
        match outcome {
            Outcome::Scored => self.scored += 1,
            Outcome::Skipped => self.skipped += 1,
            Outcome::Failed => self.failed += 1,
        }
        match label {
            Some(Label::Hallucination) => self.hallucination += 1,
            Some(Label::Unsure) => self.unsure += 1,
            Some(Label::Faithful) | None => {}
        }
    }

    fn add(&mut self, other: &Tally) {
        self.scored += other.scored;
        self.hallucination += other.hallucination;
        self.unsure += other.unsure;
        self.skipped += other.skipped;
        self.failed += other.failed;
    }
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    /// When it begins.
    pub time: Time,
    /// What was counted in it.
    #[serde(flatten)]
    pub tally: Tally,
}

/// What was counted for one agent, over all that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// `service.name`.
    pub service: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// What was counted.
    #[serde(flatten)]
    pub tally: Tally,
}

/// What was counted for one agent: the slots that hold something, oldest first.
#[derive(Debug, Default)]
struct Track {
    slots: VecDeque<(u64, Tally)>,
}

impl Track {
    /// A clock that was set back counts into the latest slot.
    fn count(&mut self, slot: u64, outcome: Outcome, label: Option<Label>) {
        let latest = self.slots.back().map_or(slot, |(latest, _)| slot.max(*latest));
        if self.slots.back().is_none_or(|(last, _)| *last < latest) {
            self.slots.push_back((latest, Tally::default()));
        }
        if let Some((_, tally)) = self.slots.back_mut() {
            tally.count(outcome, label);
        }
        while self.slots.front().is_some_and(|(first, _)| first + SLOTS <= latest) {
            self.slots.pop_front();
        }
    }
}

/// Counts by service and agent.
#[derive(Debug, Default)]
pub(super) struct Rates {
    tracks: HashMap<Option<String>, HashMap<Option<String>, Track>>,
    pairs: usize,
}

impl Rates {
    /// Counts a verdict.
    pub fn count(
        &mut self,
        now: Time,
        service: &Option<String>,
        agent: &Option<String>,
        outcome: Outcome,
        label: Option<Label>,
    ) {
        self.track(service, agent).count(now.0 / NANOS / SLOT, outcome, label);
    }

    fn track(&mut self, service: &Option<String>, agent: &Option<String>) -> &mut Track {
        let is_known = self.tracks.get(service).is_some_and(|agents| agents.contains_key(agent));
        let is_told_apart = is_known || self.pairs < MAX_PAIRS;
        if is_told_apart && !is_known {
            self.pairs += 1;
        }
        let name = |name: &Option<String>| if is_told_apart { name.clone() } else { Some(OTHER.to_owned()) };
        self.tracks.entry(name(service)).or_default().entry(name(agent)).or_default()
    }

    /// The last `points` stretches of `slots_each` slots, the last one being now's; of one service or agent, or of all.
    pub fn points(
        &self,
        now: Time,
        slots_each: u64,
        points: usize,
        service: Option<&str>,
        agent: Option<&str>,
    ) -> Vec<Point> {
        let slots_each = slots_each.clamp(1, SLOTS);
        let end = (now.0 / NANOS / SLOT / slots_each + 1) * slots_each;
        let start = end.saturating_sub(slots_each * points as u64);
        let stretches = (end - start) / slots_each;
        let mut found: Vec<Point> = (0..stretches)
            .map(|number| Point {
                time: Time((start + number * slots_each) * SLOT * NANOS),
                tally: Tally::default(),
            })
            .collect();
        let wanted = |name: &Option<String>, wish: Option<&str>| wish.is_none() || name.as_deref() == wish;
        let chosen = self.tracks.iter().filter(|(name, _)| wanted(name, service));
        let chosen = chosen.flat_map(|(_, agents)| agents).filter(|(name, _)| wanted(name, agent));
        for (slot, tally) in chosen.flat_map(|(_, track)| &track.slots) {
            let place = slot.checked_sub(start).map(|offset| (offset / slots_each) as usize);
            if let Some(point) = place.and_then(|place| found.get_mut(place)) {
                point.tally.add(tally);
            }
        }
        found
    }

    /// Every service and agent with what was counted for it, by name.
    pub fn pairs(&self, now: Time) -> Vec<Pair> {
        let oldest = (now.0 / NANOS / SLOT + 1).saturating_sub(SLOTS);
        let mut found = Vec::new();
        for (service, agents) in &self.tracks {
            for (agent, track) in agents {
                let mut tally = Tally::default();
                track.slots.iter().filter(|(slot, _)| *slot >= oldest).for_each(|(_, more)| tally.add(more));
                if tally != Tally::default() {
                    found.push(Pair { service: service.clone(), agent: agent.clone(), tally });
                }
            }
        }
        found.sort_by(|a, b| (&a.service, &a.agent).cmp(&(&b.service, &b.agent)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * NANOS)
    }

    fn named(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn verdicts_are_counted_by_service_and_time() {
        let mut rates = Rates::default();
        let (shop, bank, agent) = (named("shop"), named("bank"), named("a"));
        rates.count(at(1_000), &shop, &agent, Outcome::Scored, Some(Label::Hallucination));
        rates.count(at(1_009), &shop, &agent, Outcome::Scored, Some(Label::Faithful));
        rates.count(at(1_055), &bank, &None, Outcome::Scored, Some(Label::Unsure));
        rates.count(at(1_056), &bank, &None, Outcome::Skipped, None);

        let points = rates.points(at(1_059), 1, 6, None, None);
        assert_eq!(points.iter().map(|point| point.tally.scored).collect::<Vec<_>>(), [2, 0, 0, 0, 0, 1]);
        assert_eq!(points[0].time, at(1_000));
        assert_eq!((points[0].tally.hallucination, points[5].tally.skipped), (1, 1));
        // Stretches begin at multiples of their width: 960 and 1,020.
        let shop_only = rates.points(at(1_059), 6, 2, Some("shop"), Some("a"));
        assert_eq!(shop_only[0].tally, Tally { scored: 2, hallucination: 1, ..Tally::default() });
        assert_eq!(rates.points(at(1_059), 6, 2, Some("shop"), Some("b"))[0].tally, Tally::default());
        let pairs = rates.pairs(at(1_059));
        assert_eq!(
            pairs.iter().map(|pair| pair.service.as_deref()).collect::<Vec<_>>(),
            [Some("bank"), Some("shop")]
        );
    }

    #[test]
    fn memory_ends_after_three_hours_and_after_so_many_agents() {
        let mut rates = Rates::default();
        for hour in 0..10 {
            for number in 0..2 * MAX_PAIRS {
                let agent = named(&format!("agent-{number}"));
                rates.count(at(3_600 * hour), &named("shop"), &agent, Outcome::Scored, None);
            }
        }
        let pairs = rates.pairs(at(3_600 * 9));
        assert_eq!(pairs.len(), MAX_PAIRS + 1);
        let other = pairs.iter().find(|pair| pair.service.as_deref() == Some(OTHER)).unwrap();
        assert_eq!(other.tally.scored, 3 * MAX_PAIRS as u32);
        assert!(rates.pairs(at(3_600 * 20)).is_empty());
    }

    #[test]
    fn a_clock_that_is_set_back_loses_nothing() {
        let mut rates = Rates::default();
        rates.count(at(5_000), &None, &None, Outcome::Failed, None);
        rates.count(at(4_000), &None, &None, Outcome::Failed, None);
        assert_eq!(rates.points(at(5_000), 1, 1, None, None)[0].tally.failed, 2);
    }
}
