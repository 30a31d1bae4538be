//! A judge's four lists, held against our own list of claims: every claim ends in exactly one part, and what was wrong is said.

use std::collections::BTreeMap;

use crate::domain::{EvidenceType, Placed, Standing};

/// An entry of one of the judge's lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Position of the claim; none if it is none of ours.
    pub claim: Option<usize>,
    /// What the judge calls it.
    pub named: String,
    /// The list.
    pub standing: Standing,
    /// What kind of evidence it names; unknown if it names none.
    pub evidence_type: EvidenceType,
    /// Passages that it relies on.
    pub refs: Vec<String>,
    /// Why.
    pub reasoning: Option<String>,
}

/// Puts each of the claims `asked` into one part, if the judge listed it at all, and says what had to be put right:
/// a claim in two lists stays in the more cautious one, an entry that is no claim of ours is left out, and a claim in no list
/// is left to the decision model.
pub fn place(listed: Vec<Listed>, asked: &[usize]) -> (Vec<Placed>, Vec<String>) {
    let mut placed: BTreeMap<usize, Placed> = BTreeMap::new();
    let mut repairs = Vec::new();
    for entry in listed {
        let Some(claim) = entry.claim.filter(|claim| asked.contains(claim)) else {
            let standing = entry.standing.as_str();
            repairs.push(format!(
                "{:?} was listed as {standing} and is no claim of the answer: left out",
                entry.named
            ));
            continue;
        };
        let new = Placed {
            claim,
            standing: entry.standing,
            evidence_type: entry.evidence_type,
            refs: entry.refs,
            reasoning: entry.reasoning,
        };
        match placed.get_mut(&claim) {
            None => {
                placed.insert(claim, new);
            }
            Some(known) if known.standing == new.standing => {
                repairs.push(format!(
                    "claim {claim} was listed twice as {}: taken once",
                    known.standing.as_str()
                ));
            }
            Some(known) => {
                let (first, second) = (known.standing.as_str(), new.standing.as_str());
                if caution(new.standing) > caution(known.standing) {
                    *known = new;
                }
                let stays = known.standing.as_str();
                repairs
                    .push(format!("claim {claim} was listed as {first} and as {second}: taken as {stays}"));
            }
        }
    }
    for claim in asked.iter().filter(|claim| !placed.contains_key(claim)) {
        repairs.push(format!("claim {claim} was in no list: left to the decision model"));
    }
    (placed.into_values().collect(), repairs)
}

/// Of two lists the one that promises less wins.
fn caution(standing: Standing) -> u8 {
    match standing {
        Standing::Grounded => 0,
        Standing::Complementary => 1,
        Standing::Ungrounded => 2,
        Standing::Contradicted => 3,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(claim: Option<usize>, standing: Standing) -> Listed {
        Listed {
            claim,
            named: "c".to_owned(),
            standing,
            evidence_type: EvidenceType::ToolMatch,
            refs: Vec::new(),
            reasoning: None,
        }
    }

    #[test]
    fn missing_repeated_and_invented_claims_are_put_right_and_reported() {
        use Standing::*;
        let lists = vec![
            listed(Some(0), Grounded),
            listed(Some(2), Grounded),
            listed(Some(2), Contradicted),
            listed(Some(0), Grounded),
            listed(None, Ungrounded),
            listed(Some(9), Grounded),
        ];
        let (placed, repairs) = place(lists, &[0, 1, 2]);
        let parts: Vec<_> = placed.iter().map(|placed| (placed.claim, placed.standing)).collect();
        assert_eq!(parts, [(0, Grounded), (2, Contradicted)]);
        assert_eq!(repairs.len(), 5, "{repairs:#?}");
        assert!(
            repairs[0].contains("claim 2") && repairs[0].ends_with("taken as contradicted"),
            "{repairs:#?}"
        );
        assert!(repairs[4].contains("claim 1 was in no list"), "{repairs:#?}");
    }

    #[test]
    fn lists_that_are_right_need_no_repair() {
        let (placed, repairs) = place(vec![listed(Some(4), Standing::Complementary)], &[4]);
        assert_eq!((placed.len(), repairs.len()), (1, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn whatever_is_listed_each_claim_is_in_one_part_and_every_fault_is_said(
            lists in prop::collection::vec((prop::option::of(0..8usize), 0..4usize), 0..20),
            asked in prop::collection::btree_set(0..6usize, 0..6),
        ) {
            let asked: Vec<usize> = asked.into_iter().collect();
            let entries: Vec<Listed> =
                lists.iter().map(|(claim, standing)| listed(*claim, Standing::ALL[*standing])).collect();
            let (placed, repairs) = place(entries, &asked);
            let claims: Vec<usize> = placed.iter().map(|placed| placed.claim).collect();
            prop_assert!(claims.is_sorted_by(|left, right| left < right));
            prop_assert!(claims.iter().all(|claim| asked.contains(claim)));
            // Each entry is a part or a fault, and each claim that is missing is one.
            prop_assert_eq!(repairs.len(), (lists.len() - placed.len()) + (asked.len() - placed.len()));
        }
    }
}
