//! Which traces an evaluator is for: patterns, and a sample that is the same wherever and whenever it is drawn.

use globset::{GlobBuilder, GlobMatcher};
use sha2::{Digest, Sha256};

use super::{Fate, MatchConfig};
use crate::domain::{Story, Trace, Value};

/// A story with what else is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The story.
    pub story: &'a Story,
    /// The trace that it was read from; none for a text that was handed in, to which no sampling applies.
    pub trace: Option<&'a Trace>,
    /// The service that sent it, where the story does not name one.
    pub service: Option<&'a str>,
}

/// Which traces.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    fields: Vec<(Field, Pattern)>,
    share: f64,
}

#[derive(Debug, Clone)]
enum Field {
    Service,
    Agent,
    Model,
    Attribute(String),
}

#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

impl Scope {
    /// Of settings that were checked; a pattern that cannot be read matches nothing but its own text.
    pub fn new(matching: Option<&MatchConfig>, sample: Option<f64>) -> Self {
        let fields = patterns(matching).filter_map(|(field, text)| Some((field, Pattern::read(text).ok()?)));
        Self { fields: fields.collect(), share: sample.unwrap_or(1.0) }
    }

    /// What is wrong with patterns, in words.
    pub fn problems(matching: Option<&MatchConfig>) -> Vec<String> {
        let wrong = patterns(matching).filter_map(|(field, text)| {
            let error = Pattern::read(text).err()?;
            Some(format!("match.{}: {text:?} is no pattern: {}", field.as_str(), error.kind()))
        });
        wrong.collect()
    }

    /// Why the story is not for the evaluator of this name; none if it is.
    pub fn refuses(&self, evaluator: &str, candidate: &Candidate) -> Option<Fate> {
        let misfit = self.fields.iter().find_map(|(field, pattern)| misfit(field, pattern, candidate));
        misfit.or_else(|| {
            let trace = candidate.trace?;
            let is_in = self.share >= 1.0 || draw(evaluator, trace.trace_id.as_bytes()) < self.share;
            (!is_in).then_some(Fate::NotSampled { share: self.share })
        })
    }
}

impl Field {
    fn as_str(&self) -> &str {
        match self {
            Field::Service => "service",
            Field::Agent => "agent",
            Field::Model => "model",
            Field::Attribute(name) => name,
        }
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Self, globset::Error> {
        // Names of models and services hold slashes that mean nothing special here.
        let glob = GlobBuilder::new(text).literal_separator(false).build()?;
        Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    fn fits(&self, text: &str) -> bool {
        self.matcher.is_match(text)
    }
}

fn patterns(matching: Option<&MatchConfig>) -> impl Iterator<Item = (Field, &String)> {
    matching.into_iter().flat_map(|matching| {
        let named = [
            (Field::Service, &matching.service),
            (Field::Agent, &matching.agent),
            (Field::Model, &matching.model),
        ];
        let attributes =
            matching.attributes.iter().map(|(name, text)| (Field::Attribute(name.clone()), text));
        named.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?))).chain(attributes)
    })
}

fn misfit(field: &Field, pattern: &Pattern, candidate: &Candidate) -> Option<Fate> {
    let not_matched = |found: Option<String>| {
        Some(Fate::NotMatched { what: field.as_str().to_owned(), wanted: pattern.text.clone(), found })
    };
    let one = |found: Option<&str>| match found {
        Some(text) if pattern.fits(text) => None,
        other => not_matched(other.map(str::to_owned)),
    };
    let story = candidate.story;
    match field {
        Field::Service => one(story.service.as_deref().or(candidate.service)),
        Field::Model => one(story.model.as_deref()),
        Field::Agent if story.agents.iter().any(|agent| pattern.fits(agent)) => None,
        Field::Agent => not_matched((!story.agents.is_empty()).then(|| story.agents.join(", "))),
        Field::Attribute(name) => {
            let mut first = None;
            for value in candidate.trace.into_iter().flat_map(|trace| values(trace, name)) {
                if texts(value).iter().any(|text| pattern.fits(text)) {
                    return None;
                }
                first.get_or_insert_with(|| texts(value).join(", "));
            }
            not_matched(first)
        }
    }
}

/// An attribute's values, of all spans and their resources.
fn values<'a>(trace: &'a Trace, name: &'a str) -> impl Iterator<Item = &'a Value> {
    trace
        .spans
        .iter()
        .flat_map(move |span| span.attributes.get(name).into_iter().chain(span.resource.attributes.get(name)))
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Int(number) => vec![number.to_string()],
        Value::Double(number) => vec![number.to_string()],
        Value::Bool(truth) => vec![truth.to_string()],
        Value::List(items) => items.iter().flat_map(texts).collect(),
        Value::Null | Value::Bytes(_) | Value::Map(_) => Vec::new(),
    }
}

/// A number from 0 up to 1 that depends on nothing but the evaluator's name and the trace: every instance, every restart and
/// every replay draws the same traces, and evaluators draw independently of each other.
fn draw(evaluator: &str, trace: &[u8]) -> f64 {
    let mut hash = Sha256::new();
    hash.update(b"assayd sample 1");
    hash.update((evaluator.len() as u64).to_be_bytes());
    hash.update(evaluator.as_bytes());
    hash.update(trace);
    let digest = hash.finalize();
    let first = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
    // 53 bits are what a float holds exactly.
    (first >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share_drawn(evaluator: &str, traces: u32, share: f64) -> f64 {
        let drawn = (1..=traces).filter(|number| draw(evaluator, &u128::from(*number).to_be_bytes()) < share);
        drawn.count() as f64 / f64::from(traces)
    }

    #[test]
    fn a_sample_holds_its_share_even_of_consecutive_ids() {
        for share in [0.0, 0.01, 0.2, 0.5, 0.9, 1.0] {
            let drawn = share_drawn("tone", 20_000, share);
            // Five standard deviations.
            assert!(
                (drawn - share).abs() <= 5.0 * (share * (1.0 - share) / 20_000.0).sqrt() + 1e-9,
                "{share}: {drawn}"
            );
        }
    }

    #[test]
    fn evaluators_draw_independently() {
        let both = (1u128..=20_000).filter(|number| {
            let id = number.to_be_bytes();
            draw("one", &id) < 0.5 && draw("two", &id) < 0.5
        });
        let share = both.count() as f64 / 20_000.0;
        assert!((share - 0.25).abs() < 0.02, "{share}");
    }

    proptest! {
        #[test]
        fn a_draw_depends_on_the_trace_and_grows_with_the_share(id in any::<u128>(), name in "[a-z]{1,12}", less in 0.0f64..1.0, more in 0.0f64..1.0) {
            let drawn = draw(&name, &id.to_be_bytes());
            prop_assert!((0.0..1.0).contains(&drawn));
            prop_assert_eq!(drawn, draw(&name, &id.to_be_bytes()));
            let (less, more) = (less.min(more), less.max(more));
            // Whoever is in a small sample is in every larger one.
            prop_assert!(drawn >= less || drawn < more);
        }

        #[test]
        fn a_pattern_without_marks_matches_itself_alone(text in "[a-zA-Z0-9/._ -]{1,20}", other in "[a-zA-Z0-9/._ -]{1,20}") {
            let pattern = Pattern::read(&text).unwrap();
            prop_assert!(pattern.fits(&text));
            prop_assert_eq!(pattern.fits(&other), text == other);
            let prefix = Pattern::read(&format!("{text}*")).unwrap();
            let longer = format!("{text}{other}");
            prop_assert!(prefix.fits(&longer));
        }
    }
}
