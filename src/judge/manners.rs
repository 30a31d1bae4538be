//! What an endpoint takes: how the shape of the reply is asked for, and which settings it refuses. Pure; `now` is an argument.

use std::time::{Duration, Instant};

/// After this time a better way of asking is tried again: the endpoint may have been updated behind its address.
const CLIMB_AFTER: Duration = Duration::from_secs(3600);

/// How the shape of the reply is asked for, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rung {
    /// `response_format: json_schema`, strict.
    JsonSchema,
    /// A tool that has to be called.
    ToolCall,
    /// `response_format: json_object`.
    JsonObject,
    /// Nothing but the prompt.
    Plain,
}

impl Rung {
    /// The word that logs use.
    pub fn as_str(self) -> &'static str {
        match self {
            Rung::JsonSchema => "json_schema",
            Rung::ToolCall => "tool_call",
            Rung::JsonObject => "json_object",
            Rung::Plain => "plain",
        }
    }
}

/// Something in a request that an endpoint may not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feature {
    /// The way in which the reply's shape is asked for.
    Shape,
    /// The name of the limit of the reply's tokens.
    OutputLimit,
    /// A temperature.
    Temperature,
}

/// How one request was, or is to be, written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// How the shape of the reply is asked for.
    pub rung: Rung,
    /// Whether the token limit is called `max_completion_tokens` (newer OpenAI models) rather than `max_tokens` (all others).
    pub completion_limit: bool,
    /// Whether a temperature may be sent.
    pub temperature: bool,
}

/// What one endpoint has taught us.
#[derive(Debug)]
pub(super) struct Manners {
    rungs: &'static [Rung],
    style: Style,
    lowered: Option<Instant>,
    limit_renamed: bool,
}

impl Manners {
    /// The best of `rungs`, which are in order, is expected of an endpoint that is not known.
    pub fn new(rungs: &'static [Rung]) -> Self {
        let style = Style { rung: best(rungs), completion_limit: false, temperature: true };
        Self { rungs, style, lowered: None, limit_renamed: false }
    }

    /// How to write the next request.
    pub fn style(&mut self, now: Instant) -> Style {
        if self.lowered.is_some_and(|since| now.saturating_duration_since(since) >= CLIMB_AFTER) {
            self.style.rung = best(self.rungs);
            self.lowered = None;
        }
        self.style
    }

    /// The endpoint said that it does not know `feature` of a request in the style `sent`. Whether another style is worth a try.
    pub fn refused(&mut self, feature: Feature, sent: Style, now: Instant) -> bool {
        // Another call may have learnt the same meanwhile.
        if self.style != sent {
            return true;
        }
        match feature {
            Feature::Shape => {
                let lower = self.rungs.iter().copied().find(|rung| *rung > sent.rung);
                let Some(lower) = lower else { return false };
                self.style.rung = lower;
                self.lowered = Some(now);
                true
            }
            // Renamed once, not back and forth: an endpoint that knows neither name gets its error reported.
            Feature::OutputLimit => {
                let first = !self.limit_renamed;
                self.limit_renamed = true;
                self.style.completion_limit |= first;
                first
            }
            Feature::Temperature => std::mem::replace(&mut self.style.temperature, false),
        }
    }
}

fn best(rungs: &[Rung]) -> Rung {
    rungs.first().copied().unwrap_or(Rung::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Rung] = &[Rung::JsonSchema, Rung::ToolCall, Rung::JsonObject, Rung::Plain];

    #[test]
    fn each_refusal_of_a_shape_goes_one_rung_down_and_is_remembered() {
        let now = Instant::now();
        let mut manners = Manners::new(ALL);
        for rung in [Rung::JsonSchema, Rung::ToolCall, Rung::JsonObject] {
            let sent = manners.style(now);
            assert_eq!(sent.rung, rung);
            assert!(manners.refused(Feature::Shape, sent, now));
        }
        let plain = manners.style(now);
        assert_eq!(plain.rung, Rung::Plain);
        assert!(!manners.refused(Feature::Shape, plain, now));
        assert_eq!(manners.style(now + CLIMB_AFTER / 2).rung, Rung::Plain);
    }

    #[test]
    fn rungs_that_a_provider_does_not_have_are_left_out() {
        let now = Instant::now();
        let mut manners = Manners::new(&[Rung::ToolCall, Rung::Plain]);
        let sent = manners.style(now);
        assert_eq!(sent.rung, Rung::ToolCall);
        assert!(manners.refused(Feature::Shape, sent, now));
        assert_eq!(manners.style(now).rung, Rung::Plain);
    }

    #[test]
    fn the_best_way_is_tried_again_after_a_while() {
        let now = Instant::now();
        let mut manners = Manners::new(ALL);
        let sent = manners.style(now);
        manners.refused(Feature::Shape, sent, now);
        assert_eq!(manners.style(now + CLIMB_AFTER).rung, Rung::JsonSchema);
    }

    #[test]
    fn calls_in_flight_together_go_down_one_rung_and_not_one_each() {
        let now = Instant::now();
        let mut manners = Manners::new(ALL);
        let sent = manners.style(now);
        assert!(manners.refused(Feature::Shape, sent, now));
        assert!(manners.refused(Feature::Shape, sent, now));
        assert_eq!(manners.style(now).rung, Rung::ToolCall);
    }

    #[test]
    fn a_setting_is_given_up_once() {
        let now = Instant::now();
        let mut manners = Manners::new(ALL);
        for feature in [Feature::OutputLimit, Feature::Temperature] {
            let sent = manners.style(now);
            assert!(manners.refused(feature, sent, now));
            let sent = manners.style(now);
            assert!(!manners.refused(feature, sent, now));
        }
        let style = manners.style(now);
        assert!(style.completion_limit && !style.temperature && style.rung == Rung::JsonSchema);
    }
}
