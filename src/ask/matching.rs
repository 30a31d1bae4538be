//! Which pieces of evidence a claim is about, and what kind of evidence that is. Lexical, so it holds for every model:
//! it says where to look, never whether the claim is true.
//!
//! A piece counts by the claim's words in it, weighed: figures, names and identifiers most, words that all the evidence
//! repeats least. Of a record the whole row counts a little for each member, so that "Gdansk has 7" finds the 7 of Gdansk's
//! row. A figure of the claim that no evidence holds may be a wrong one: then a piece that says another figure of the same
//! thing ("30 days" for "90 days") comes first, since that is what the claim conflicts with.
//!
//! The kind follows from the match, first rule that fits:
//!
//! | kind | when |
//! |---|---|
//! | `signal_match` | the user's own words hold most of the claim, the observations do not, nor do they say another figure |
//! | `neg_evidence` | the claim says that something is not, and no piece it matches says so |
//! | `unknown` | next to nothing of the claim is in the evidence |
//! | `tool_match` | one record or sentence holds nearly all of it, each figure and name included |
//! | `synthesis` | pieces of several observations together do, figures that follow from two others included |
//! | `inference` | it gives a cause or a figure that no evidence holds |
//! | `specific_data` | the best piece shares a figure or a name with it, or says another figure of the same thing |
//! | `inference` | some of it is in the evidence |

use std::collections::{HashMap, HashSet};

use super::bits::Bits;
use super::units::{Index, Source};
use super::words::{Class, Word, words};
use crate::domain::EvidenceType;

/// What is known of a claim's evidence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Match {
    /// What kind of evidence it is.
    pub kind: EvidenceType,
    /// Units of the index, the most relevant first.
    pub units: Vec<usize>,
}

/// A share above which "nearly all" of a claim is in a piece, and one for "most".
const NEARLY_ALL: f64 = 0.75;
const MOST: f64 = 0.6;

/// Below this share there is next to nothing of a claim in the evidence.
const LITTLE: f64 = 0.2;

/// How much the rest of a row, or of a line, counts for one piece of it.
const NEIGHBOURS: f64 = 0.25;

/// A further piece must bring this share of the claim.
const WORTH_ADDING: f64 = 0.12;

/// How many words around a figure say what it counts.
const AROUND: usize = 2;

/// Words that give a cause or draw a conclusion, without their endings.
const CAUSES: &[&str] = &[
    "becaus", "therefor", "caus", "reason", "henc", "thu", "likely", "probably", "suggest", "imply", "impli",
    "indicat",
];

/// Whether a word, without its endings, gives a cause or draws a conclusion.
pub(super) fn gives_cause(key: &str) -> bool {
    CAUSES.contains(&key)
}

/// A claim's words: in order, and each once with its weight. Sets of them are bits, by their position in `keys`.
struct Wanted {
    words: Vec<Word>,
    keys: Vec<String>,
    weights: Vec<f64>,
    total: f64,
}

impl Wanted {
    fn new(claim: &str, index: &Index) -> Self {
        let chars: Vec<char> = claim.chars().collect();
        let mut wanted = Self { words: words(&chars), keys: Vec::new(), weights: Vec::new(), total: 0.0 };
        let units = index.units.len().max(1) as f64;
        for word in wanted.words.iter().filter(|word| word.class != Class::Negation) {
            if wanted.keys.contains(&word.key) || wanted.keys.len() == Bits::MOST {
                continue;
            }
            let base = match word.class {
                Class::Number if word.key.chars().count() > 1 => 3.0,
                Class::Number => 2.0,
                Class::Name => 3.0,
                Class::Word | Class::Negation => 1.0,
            };
            // In every unit: half of the weight. In one, or none: all of it.
            let common = index.with(&word.key).len().max(1) as f64;
            let rarity = 1.0 - 0.5 * common.ln() / (units + 1.0).ln();
            wanted.keys.push(word.key.clone());
            wanted.weights.push(base * rarity);
        }
        wanted.total = wanted.weights.iter().sum();
        wanted
    }

    /// The words for which this holds.
    fn those(&self, holds: impl Fn(&str) -> bool) -> Bits {
        self.keys.iter().enumerate().filter(|(_, key)| holds(key)).map(|(bit, _)| bit).collect()
    }

    /// The words of a class.
    fn of(&self, class: Class) -> Bits {
        self.those(|key| self.words.iter().any(|word| word.class == class && word.key == key))
    }

    fn weight(&self, words: Bits) -> f64 {
        words.iter().map(|bit| self.weights[bit]).sum()
    }

    fn share(&self, words: Bits) -> f64 {
        if self.total > 0.0 { self.weight(words) / self.total } else { 0.0 }
    }
}

/// Finds the evidence of a claim among the observations; `signal` holds what the user said. At most `most` pieces.
pub(super) fn find(
    claim: &str,
    index: &Index,
    sources: &[Source],
    signal: &HashSet<String>,
    most: usize,
) -> Match {
    let wanted = Wanted::new(claim, index);
    let ranked = Ranked::new(&wanted, index);
    let units = ranked.choose(most);
    let observed = wanted.share(wanted.those(|key| !index.with(key).is_empty()));
    let signalled = wanted.share(wanted.those(|key| signal.contains(key)));
    let kind = kind(&ranked, &units, sources, observed, signalled);
    let units = if kind == EvidenceType::SignalMatch && observed < LITTLE { Vec::new() } else { units };
    Match { kind, units }
}

/// Units that share words with a claim, the most relevant first, at most `most`.
pub(super) fn near(claim: &str, index: &Index, most: usize) -> Vec<usize> {
    let wanted = Wanted::new(claim, index);
    let ranked = Ranked::new(&wanted, index);
    let mut alike: Vec<(f64, &Alike)> =
        ranked.alike.iter().map(|alike| (ranked.relevance(alike, Bits::NONE), alike)).collect();
    alike.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.units.cmp(&right.1.units)));
    alike.into_iter().flat_map(|(_, alike)| alike.units.iter().copied()).take(most).collect()
}

/// Units that share the same words with the claim. Thousands of log lines are a handful of these.
struct Alike {
    /// The claim's words in each of them.
    own: Bits,
    /// The claim's words in the row or line of each of them, itself included.
    around: Bits,
    /// Whether they are members of records.
    is_member: bool,
    /// Whether they say a figure that the claim does not.
    says_other: bool,
    /// The units, in order.
    units: Vec<usize>,
}

/// Units that share words with a claim.
struct Ranked<'a> {
    wanted: &'a Wanted,
    index: &'a Index,
    alike: Vec<Alike>,
    /// Whether a figure of the claim is in no unit.
    misses: bool,
    /// For each such figure: the words around it that are in some unit.
    missing: Vec<Bits>,
}

impl<'a> Ranked<'a> {
    fn new(wanted: &'a Wanted, index: &'a Index) -> Self {
        let mut own = vec![Bits::NONE; index.units.len()];
        let mut around = vec![Bits::NONE; index.groups + 1];
        for (bit, key) in wanted.keys.iter().enumerate() {
            for unit in index.with(key) {
                own[*unit].insert(bit);
                around[index.units[*unit].group].insert(bit);
            }
        }
        let figures = wanted.of(Class::Number);
        let mut alike: HashMap<(Bits, Bits, bool, bool), Vec<usize>> = HashMap::new();
        for (at, (unit, own)) in index.units.iter().zip(own).enumerate() {
            if own != Bits::NONE {
                let says_other = unit.numbers > own.and(figures).count();
                alike.entry((own, around[unit.group], unit.is_member, says_other)).or_default().push(at);
            }
        }
        let mut alike: Vec<Alike> = alike
            .into_iter()
            .map(|((own, around, is_member, says_other), units)| Alike {
                own,
                around,
                is_member,
                says_other,
                units,
            })
            .collect();
        alike.sort_unstable_by_key(|alike| alike.units[0]);
        let (misses, missing) = missing(wanted, index);
        Self { wanted, index, alike, misses, missing }
    }

    fn of(&self, unit: usize) -> Option<&Alike> {
        self.alike.iter().find(|alike| alike.units.binary_search(&unit).is_ok())
    }

    /// How much of what a missing figure counts is said by the units, if they say another figure: 0 to 1. The key of a
    /// record's member says only a part of that ("open"); the rest ("NOK") may stand in its row.
    fn conflict(&self, alike: &Alike) -> f64 {
        if !alike.says_other {
            return 0.0;
        }
        let row = if alike.is_member { alike.around } else { alike.own };
        let touched = self.missing.iter().filter(|near| near.and(alike.own) != Bits::NONE);
        touched.map(|near| self.wanted.weight(near.and(row)) / self.wanted.weight(*near)).fold(0.0, f64::max)
    }

    fn relevance(&self, alike: &Alike, covered: Bits) -> f64 {
        let fresh = alike.own.without(covered);
        if fresh == Bits::NONE {
            return 0.0;
        }
        let beside = self.wanted.weight(alike.around.without(covered).without(fresh));
        let conflict = if covered == Bits::NONE { 3.0 * self.conflict(alike) } else { 0.0 };
        self.wanted.weight(fresh) + NEIGHBOURS * beside + conflict
    }

    /// The unit that matters most, then those that bring what is still missing.
    fn choose(&self, most: usize) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let mut covered = Bits::NONE;
        while chosen.len() < most {
            let relevance = |alike: &Alike| self.relevance(alike, covered);
            let Some(highest) = self.alike.iter().map(relevance).reduce(f64::max) else { break };
            // Of equals the shorter, then the earlier.
            let equals = self.alike.iter().filter(|alike| relevance(alike) >= highest - 1e-9);
            let size = |unit: &usize| (self.index.units[*unit].size, *unit);
            let candidates = equals
                .filter_map(|alike| Some((size(alike.units.iter().min_by_key(|unit| size(unit))?), alike)));
            let Some(((_, unit), best)) = candidates.min_by_key(|(size, _)| *size) else { break };
            let fresh = self.wanted.share(best.own.without(covered));
            if highest <= 0.0 || (!chosen.is_empty() && fresh < WORTH_ADDING) {
                break;
            }
            covered = covered.or(best.own);
            chosen.push(unit);
        }
        chosen
    }
}

/// Whether figures of the claim are in no unit and do not follow from others of its figures; what stands around each.
fn missing(wanted: &Wanted, index: &Index) -> (bool, Vec<Bits>) {
    let known = |key: &str| !index.with(key).is_empty();
    let figures: Vec<f64> = wanted
        .words
        .iter()
        .filter(|word| word.class == Class::Number && known(&word.key))
        .filter_map(|word| word.key.parse().ok())
        .collect();
    let missing: Vec<usize> = wanted
        .words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.class == Class::Number && !known(&word.key) && !follows(&word.key, &figures))
        .map(|(at, _)| at)
        .collect();
    let around = |at: &usize| {
        let near = &wanted.words[at.saturating_sub(AROUND)..(at + AROUND + 1).min(wanted.words.len())];
        let counted = |key: &str| {
            near.iter().any(|word| matches!(word.class, Class::Word | Class::Name) && word.key == key)
                && known(key)
        };
        wanted.those(counted)
    };
    let near = missing.iter().map(around).filter(|near| *near != Bits::NONE).collect();
    (!missing.is_empty(), near)
}

/// Whether a figure is the sum, difference or product of two others: "42 and 7, together 49".
fn follows(figure: &str, from: &[f64]) -> bool {
    let Ok(figure) = figure.parse::<f64>() else { return false };
    let close = |value: f64| (value - figure).abs() < 1e-6 * figure.abs().max(1.0);
    from.iter().enumerate().any(|(at, one)| {
        from[at + 1..]
            .iter()
            .any(|other| close(one + other) || close((one - other).abs()) || close(one * other))
    })
}

fn kind(ranked: &Ranked, units: &[usize], sources: &[Source], observed: f64, signalled: f64) -> EvidenceType {
    let wanted = ranked.wanted;
    let best = units.first().and_then(|unit| ranked.of(*unit));
    // What the observations speak of, they decide: the user may be wrong about it.
    let conflicts = best.is_some_and(|best| ranked.conflict(best) >= 0.5);
    if signalled >= MOST && observed < MOST && !conflicts {
        return EvidenceType::SignalMatch;
    }
    let denies = wanted.words.iter().any(|word| word.class == Class::Negation);
    if denies && !units.iter().any(|unit| ranked.index.units[*unit].denies) {
        return EvidenceType::NegEvidence;
    }
    let Some(best) = best.filter(|_| observed >= LITTLE) else { return EvidenceType::Unknown };

    let precise = wanted.of(Class::Number).or(wanted.of(Class::Name));
    let derives =
        !ranked.misses && precise.and(wanted.those(|key| ranked.index.with(key).is_empty())) != Bits::NONE;
    let held = |words: Bits| precise.without(words) == Bits::NONE;
    let causal = wanted.words.iter().any(|word| gives_cause(&word.key));
    if wanted.share(best.around) >= NEARLY_ALL && held(best.around) {
        return EvidenceType::ToolMatch;
    }
    let together =
        units.iter().filter_map(|unit| ranked.of(*unit)).fold(Bits::NONE, |all, alike| all.or(alike.around));
    let steps: HashSet<usize> =
        units.iter().map(|unit| sources[ranked.index.units[*unit].source].step).collect();
    let several = steps.len() > 1 && wanted.share(together) >= MOST && (held(together) || derives);
    if several && !causal {
        return EvidenceType::Synthesis;
    }
    if causal || (ranked.misses && !conflicts) {
        return EvidenceType::Inference;
    }
    let shares = best.own.and(precise) != Bits::NONE;
    if shares || conflicts { EvidenceType::SpecificData } else { EvidenceType::Inference }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str = r#"{"order_id": "NW-48213", "item": "Ridgeline trail running shoes, size 42", "purchased_on": "2026-11-03", "delivered_on": "2026-11-06", "price": 129.9, "currency": "EUR", "status": "delivered"}"#;
    const POLICY: &str = "Returns handbook v7, section 2.1 (footwear): Unworn footwear may be returned within 30 days of delivery for a full refund. Refunds go to the original payment method within 5 business days after the parcel is scanned. Section 2.4: return shipping costs EUR 4.95 and is deducted from the refund unless the item is defective.";
    const STOCK: [&str; 3] = [
        r#"{"sku": "TNT-2P-GRN", "warehouse": "Rotterdam", "on_hand": 42, "next_restock": "2026-12-01"}"#,
        r#"{"sku": "TNT-2P-GRN", "warehouse": "Lyon", "on_hand": 0, "next_restock": "2026-12-09"}"#,
        r#"{"sku": "TNT-2P-GRN", "warehouse": "Gdansk", "on_hand": 7, "next_restock": null}"#,
    ];

    fn matched(claim: &str, texts: &[&str], signal: &str) -> (EvidenceType, Vec<String>) {
        let sources: Vec<Source> = texts
            .iter()
            .enumerate()
            .map(|(step, text)| Source { step, text: text.chars().collect() })
            .collect();
        let index = Index::new(&sources);
        let signal = words(&signal.chars().collect::<Vec<_>>()).into_iter().map(|word| word.key).collect();
        let found = find(claim, &index, &sources, &signal, 4);
        let shown = found.units.iter().map(|unit| {
            let unit = &index.units[*unit];
            sources[unit.source].text[unit.range.clone()].iter().collect()
        });
        (found.kind, shown.collect())
    }

    #[test]
    fn a_wrong_figure_leads_to_the_right_one() {
        let (kind, found) = matched(
            "Unworn footwear can be returned within 90 days of delivery, so you have until 4 February 2027.",
            &[ORDER, POLICY],
            "",
        );
        assert!(found[0].contains("within 30 days"), "{found:?}");
        assert_eq!(kind, EvidenceType::SpecificData);
        let (_, found) = matched(
            "NOK 9,500.00 is still open on invoice INV-20391.",
            &[
                r#"{"invoice_id": "INV-20391", "total": 10500.0, "currency": "NOK", "paid": 4000.0, "open": 6500.0}"#,
            ],
            "",
        );
        assert!(found.iter().any(|piece| piece == r#""open": 6500.0"#), "{found:?}");
    }

    #[test]
    fn a_claim_finds_the_members_that_say_it() {
        let (kind, found) =
            matched("Your order NW-48213 was delivered on 6 November 2026.", &[ORDER, POLICY], "");
        assert_eq!(found[0], r#""delivered_on": "2026-11-06""#);
        assert!(found.contains(&r#""order_id": "NW-48213""#.to_owned()), "{found:?}");
        assert_eq!(kind, EvidenceType::ToolMatch);
    }

    #[test]
    fn a_row_is_told_from_its_like() {
        let (_, found) = matched("Gdansk has 7 units on hand.", &STOCK, "");
        assert_eq!(found[0], r#""on_hand": 7"#);
        assert_eq!(found[1], r#""warehouse": "Gdansk""#);
        let (kind, _) = matched("Rotterdam has 42 on hand and Gdansk has 7.", &STOCK, "");
        assert_eq!(kind, EvidenceType::Synthesis);
    }

    #[test]
    fn kinds_follow_from_the_match() {
        let kind = |claim, texts: &[&str], signal| matched(claim, texts, signal).0;
        assert_eq!(
            kind(
                "You bought running shoes for your sister.",
                &["Orders take a day."],
                "I bought running shoes for my sister"
            ),
            EvidenceType::SignalMatch
        );
        assert_eq!(kind("There is no record of a cancellation.", &[ORDER], ""), EvidenceType::NegEvidence);
        assert_eq!(kind("Penguins swim.", &[ORDER], ""), EvidenceType::Unknown);
        assert_eq!(
            kind(
                "Footwear is returned within 30 days because the handbook of EUR 129.90 changed.",
                &[ORDER, POLICY],
                ""
            ),
            EvidenceType::Inference
        );
        assert_eq!(kind("Anything at all", &[], ""), EvidenceType::Unknown);
        assert_eq!(kind("", &[ORDER], ""), EvidenceType::Unknown);
    }
}
