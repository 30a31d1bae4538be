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
//! | `synthesis` | pieces of several observations together do |
//! | `inference` | it gives a cause or a figure that no evidence holds |
//! | `specific_data` | the best piece shares a figure or a name with it, or says another figure of the same thing |
//! | `inference` | some of it is in the evidence |

use std::collections::{BTreeMap, HashMap, HashSet};

use super::units::{Index, Source, Unit};
use super::words::{Class, Word, words};
use crate::domain::EvidenceType;

/// What is known of a claim's evidence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Match {
    /// What kind of evidence it is.
    pub kind: EvidenceType,
    /// Units of the index, the most relevant first.
    pub units: Vec<usize>,
    /// The share of the claim, by weight, that is somewhere in the observations.
    pub observed: f64,
    /// The share of the claim, by weight, that is somewhere in what the user said.
    pub signalled: f64,
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

/// A claim's distinct words with their weights.
struct Wanted {
    words: Vec<Word>,
    weights: BTreeMap<String, f64>,
    total: f64,
}

impl Wanted {
    fn new(claim: &str, index: &Index) -> Self {
        let chars: Vec<char> = claim.chars().collect();
        let words = words(&chars);
        let units = index.units.len().max(1) as f64;
        let weights: BTreeMap<String, f64> = words
            .iter()
            .filter(|word| word.class != Class::Negation)
            .map(|word| {
                let base = match word.class {
                    Class::Number if word.key.chars().count() > 1 => 3.0,
                    Class::Number => 2.0,
                    Class::Name => 3.0,
                    Class::Word | Class::Negation => 1.0,
                };
                // In every unit: half of the weight. In one, or none: all of it.
                let common = index.with(&word.key).len().max(1) as f64;
                let rarity = 1.0 - 0.5 * common.ln() / (units + 1.0).ln();
                (word.key.clone(), base * rarity)
            })
            .collect();
        let total = weights.values().sum();
        Self { words, weights, total }
    }

    /// The claim's words in each unit that has any.
    fn hits(&self, index: &Index) -> BTreeMap<usize, Vec<&str>> {
        let mut hits: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for key in self.weights.keys() {
            for unit in index.with(key) {
                hits.entry(*unit).or_default().push(key);
            }
        }
        hits
    }

    fn of_class(&self, classes: &[Class]) -> impl Iterator<Item = &Word> {
        self.words.iter().filter(move |word| classes.contains(&word.class))
    }

    fn share(&self, keys: impl Iterator<Item = String>) -> f64 {
        if self.total <= 0.0 {
            return 0.0;
        }
        let distinct: HashSet<String> = keys.collect();
        // Summed in the map's order, so that equal claims get equal numbers.
        let sum: f64 =
            self.weights.iter().filter(|(key, _)| distinct.contains(*key)).map(|(_, weight)| weight).sum();
        sum / self.total
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
    let ranked = Ranked::new(&wanted, index, wanted.hits(index));
    let units = ranked.choose(most);
    let observed = wanted.share(wanted.weights.keys().filter(|key| !index.with(key).is_empty()).cloned());
    let signalled = wanted.share(wanted.weights.keys().filter(|key| signal.contains(*key)).cloned());
    let kind = kind(&wanted, &ranked, &units, sources, observed, signalled);
    let units = if kind == EvidenceType::SignalMatch && observed < LITTLE { Vec::new() } else { units };
    Match { kind, units, observed, signalled }
}

/// All units that share words with a claim, the most relevant first.
pub(super) fn near(claim: &str, index: &Index) -> Vec<usize> {
    let wanted = Wanted::new(claim, index);
    let ranked = Ranked::new(&wanted, index, wanted.hits(index));
    let none = HashSet::new();
    let mut units: Vec<(f64, usize)> =
        ranked.hits.keys().map(|unit| (ranked.relevance(*unit, &none), *unit)).collect();
    units.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    units.into_iter().map(|(_, unit)| unit).collect()
}

/// Units that share words with a claim.
struct Ranked<'a> {
    wanted: &'a Wanted,
    index: &'a Index,
    /// The claim's words in each unit.
    hits: BTreeMap<usize, Vec<&'a str>>,
    /// The claim's words in each group of units.
    groups: HashMap<usize, HashSet<&'a str>>,
    /// For each figure of the claim that no unit holds: the words around it.
    missing: Vec<Vec<&'a str>>,
}

impl<'a> Ranked<'a> {
    fn new(wanted: &'a Wanted, index: &'a Index, hits: BTreeMap<usize, Vec<&'a str>>) -> Self {
        let mut groups: HashMap<usize, HashSet<&str>> = HashMap::new();
        for (unit, keys) in &hits {
            groups.entry(index.units[*unit].group).or_default().extend(keys);
        }
        let missing = wanted
            .words
            .iter()
            .enumerate()
            .filter(|(_, word)| word.class == Class::Number && index.with(&word.key).is_empty())
            .map(|(at, _)| {
                let near =
                    &wanted.words[at.saturating_sub(AROUND)..(at + AROUND + 1).min(wanted.words.len())];
                near.iter()
                    .filter(|word| {
                        matches!(word.class, Class::Word | Class::Name) && !index.with(&word.key).is_empty()
                    })
                    .map(|word| word.key.as_str())
                    .collect()
            })
            .collect();
        Self { wanted, index, hits, groups, missing }
    }

    fn weight(&self, keys: impl IntoIterator<Item = &'a str>) -> f64 {
        keys.into_iter().filter_map(|key| self.wanted.weights.get(key)).sum()
    }

    fn unit(&self, unit: usize) -> &'a Unit {
        &self.index.units[unit]
    }

    fn group(&self, unit: usize) -> impl Iterator<Item = &'a str> {
        let mut keys: Vec<&str> =
            self.groups.get(&self.unit(unit).group).into_iter().flatten().copied().collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// How much of what a missing figure counts is said by the unit, if it says another figure: 0 to 1. The key of a
    /// record's member says only a part of that ("open"); the rest ("NOK") may stand in its row.
    fn conflict(&self, unit: usize) -> f64 {
        let keys = &self.hits[&unit];
        let own = keys.iter().filter(|key| key.starts_with(|c: char| c.is_ascii_digit())).count();
        if self.missing.is_empty() || self.unit(unit).numbers <= own {
            return 0.0;
        }
        let row: HashSet<&str> = if self.unit(unit).is_member {
            self.group(unit).collect()
        } else {
            keys.iter().copied().collect()
        };
        let touched = self.missing.iter().filter(|near| near.iter().any(|key| keys.contains(key)));
        let shares = touched.map(|near| {
            let shared = near.iter().copied().filter(|key| row.contains(key));
            self.weight(shared) / self.weight(near.iter().copied()).max(f64::MIN_POSITIVE)
        });
        shares.fold(0.0, f64::max)
    }

    fn relevance(&self, unit: usize, covered: &HashSet<&str>) -> f64 {
        let fresh = self.hits[&unit].iter().copied().filter(|key| !covered.contains(key));
        let own = self.weight(fresh);
        if own <= 0.0 {
            return 0.0;
        }
        let around = self.weight(self.group(unit).filter(|key| !covered.contains(key))) - own;
        let conflict = if covered.is_empty() { 3.0 * self.conflict(unit) } else { 0.0 };
        own + NEIGHBOURS * around.max(0.0) + conflict
    }

    /// The unit that matters most, then those that bring what is still missing.
    fn choose(&self, most: usize) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let mut covered: HashSet<&str> = HashSet::new();
        while chosen.len() < most {
            let candidates = self.hits.keys().copied().filter(|unit| !chosen.contains(unit));
            let best = candidates
                .map(|unit| (self.relevance(unit, &covered), unit))
                // Of equals the shorter, then the earlier.
                .reduce(|best, next| {
                    let better = next.0 > best.0 + 1e-9
                        || ((next.0 - best.0).abs() <= 1e-9
                            && self.unit(next.1).size < self.unit(best.1).size);
                    if better { next } else { best }
                });
            let Some((relevance, unit)) = best else { break };
            let fresh = self.weight(self.hits[&unit].iter().copied().filter(|key| !covered.contains(key)));
            if relevance <= 0.0 || (!chosen.is_empty() && fresh < WORTH_ADDING * self.wanted.total) {
                break;
            }
            covered.extend(&self.hits[&unit]);
            chosen.push(unit);
        }
        chosen
    }
}

fn kind(
    wanted: &Wanted,
    ranked: &Ranked,
    units: &[usize],
    sources: &[Source],
    observed: f64,
    signalled: f64,
) -> EvidenceType {
    // What the observations speak of, they decide: the user may be wrong about it.
    let conflicts = units.first().is_some_and(|best| ranked.conflict(*best) >= 0.5);
    if signalled >= MOST && observed < MOST && !conflicts {
        return EvidenceType::SignalMatch;
    }
    let denies = wanted.of_class(&[Class::Negation]).next().is_some();
    if denies && !units.iter().any(|unit| ranked.unit(*unit).denies) {
        return EvidenceType::NegEvidence;
    }
    let Some(best) = units.first().copied().filter(|_| observed >= LITTLE) else {
        return EvidenceType::Unknown;
    };

    let precise = || wanted.of_class(&[Class::Number, Class::Name]);
    let held = |keys: &HashSet<&str>| precise().all(|word| keys.contains(word.key.as_str()));
    let whole: HashSet<&str> = ranked.group(best).collect();
    let causal = wanted.of_class(&[Class::Word]).any(|word| CAUSES.contains(&word.key.as_str()));
    let in_one =
        ranked.weight(whole.iter().copied().collect::<std::collections::BTreeSet<_>>()) / wanted.total;
    if in_one >= NEARLY_ALL && held(&whole) {
        return EvidenceType::ToolMatch;
    }
    let together: HashSet<&str> = units.iter().flat_map(|unit| ranked.group(*unit)).collect();
    let steps: HashSet<usize> = units.iter().map(|unit| sources[ranked.unit(*unit).source].step).collect();
    let in_all =
        ranked.weight(together.iter().copied().collect::<std::collections::BTreeSet<_>>()) / wanted.total;
    if steps.len() > 1 && in_all >= MOST && held(&together) && !causal {
        return EvidenceType::Synthesis;
    }
    if causal || (!ranked.missing.is_empty() && !conflicts) {
        return EvidenceType::Inference;
    }
    let shares = ranked.hits[&best].iter().any(|key| precise().any(|word| word.key == *key));
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
