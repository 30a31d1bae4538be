//! Reads a judge's partition of the claims, in the shapes that models give it. Pure, and safe on any text.

use serde_json::Map;

use super::BadReply;
use super::reply::{member, pieces, plain, shorten, without_thoughts};
use super::schema::list;
use super::sheet::Sheet;
use crate::domain::{DecisionStatus, EvidenceType, Json, JudgedPartition, Standing};
use crate::score::{Listed, place};

/// Bytes of a text that are kept, and how many texts of a list.
const MAX_TEXT: usize = 2000;
const MAX_TEXTS: usize = 50;
/// Entries of one list that are read; more than claims can be is a model that repeats itself.
const MAX_ENTRIES: usize = 1000;

/// Names under which models say which claim an entry is about.
const CLAIM: [&str; 5] = ["claim", "key", "id", "claim_id", "text"];

/// Reads `text` as the partition of the sheet's claims; `cut` says that the endpoint stopped it at the token limit.
///
/// Lists are held against our own claims ([`place`]). What is no partition at all, or one that is cut off, is an error.
pub(super) fn read(text: &str, cut: bool, sheet: &Sheet) -> Result<JudgedPartition, BadReply> {
    let text = without_thoughts(text).trim();
    if text.is_empty() {
        return Err(if cut { BadReply::Truncated } else { BadReply::Empty });
    }
    let (pieces, ends_early) = pieces(text);
    if cut || ends_early {
        return Err(BadReply::Truncated);
    }
    let mut found = pieces.iter().filter_map(partition);
    let Some(map) = found.next_back() else {
        return Err(match pieces.is_empty() {
            true => BadReply::NotJson { excerpt: shorten(text, 120) },
            false => bad("none of its four lists is there"),
        });
    };
    if found.next().is_some_and(|other| other != map) {
        return Err(bad("there are two different ones"));
    }
    decided(map, sheet)
}

fn bad(message: &str) -> BadReply {
    BadReply::NoPartition { message: message.to_owned() }
}

/// The partition in a piece of JSON: under its name, or the piece itself.
fn partition(piece: &Json) -> Option<&Map<String, Json>> {
    let map = piece.as_object()?;
    if let Some(inner) = member(map, "partition").and_then(Json::as_object) {
        return Some(inner);
    }
    Standing::ALL.iter().any(|standing| listed(map, *standing).is_some()).then_some(map)
}

/// A standing's list, by its name or the standing's own.
fn listed(map: &Map<String, Json>, standing: Standing) -> Option<&Vec<Json>> {
    member(map, list(standing)).or_else(|| member(map, standing.as_str()))?.as_array()
}

fn decided(map: &Map<String, Json>, sheet: &Sheet) -> Result<JudgedPartition, BadReply> {
    let word = member(map, "decision_status").and_then(Json::as_str).map(plain).unwrap_or_default();
    let status = DecisionStatus::parse(&word).ok_or_else(|| {
        bad(&format!("its decision_status is {:?}, not resolved or abstain", shorten(&word, 40)))
    })?;
    let mut entries = Vec::new();
    let mut unread = Vec::new();
    let materials: Vec<String> = sheet.states.iter().map(|state| squeezed(state)).collect();
    for standing in Standing::ALL {
        let list = listed(map, standing).into_iter().flatten().take(MAX_ENTRIES);
        entries.extend(list.map(|entry| read_entry(entry, standing, sheet, &materials, &mut unread)));
    }
    let asked: Vec<usize> = sheet.claims.iter().map(|claim| claim.claim).collect();
    let (placed, mut repairs) = place(entries, &asked);
    if placed.is_empty() && status == DecisionStatus::Resolved {
        return Err(bad("no claim is in any of its lists"));
    }
    repairs.extend(unread);
    let reported_score = member(map, "grounding_score").filter(|score| !score.is_null()).and_then(|score| {
        let number = score.as_f64().filter(|score| (0.0..=1.0).contains(score));
        if number.is_none() {
            repairs.push(format!(
                "grounding_score is {}, not from 0 to 1: left out",
                shorten(&score.to_string(), 40)
            ));
        }
        number
    });
    repairs.truncate(MAX_TEXTS);
    Ok(JudgedPartition {
        asked,
        placed,
        status,
        reason: string(map, "decision_reason"),
        reported_score,
        is_grounded: member(map, "is_grounded").and_then(Json::as_bool),
        gaps: strings(member(map, "gaps")),
        contradictions: strings(member(map, "contradictions")),
        verification_needed: member(map, "verification_needed").and_then(Json::as_bool).unwrap_or(false),
        verification_reason: string(map, "verification_reason"),
        explanation: string(map, "explanation"),
        repairs,
    })
}

/// One entry: an object with the claim's key (or its text), or the bare key. `materials` are the sheet's states, squeezed.
fn read_entry(
    entry: &Json,
    standing: Standing,
    sheet: &Sheet,
    materials: &[String],
    unread: &mut Vec<String>,
) -> Listed {
    let empty = Map::new();
    let map = entry.as_object().unwrap_or(&empty);
    let named = entry.as_str().or_else(|| CLAIM.iter().find_map(|name| member(map, name)?.as_str()));
    let named = named.unwrap_or_default();
    let bare = plain(named);
    let item = sheet.claims.iter().find(|claim| claim.key == bare).or_else(|| {
        let mut alike = sheet.claims.iter().filter(|claim| plain(claim.text) == bare);
        alike.next().filter(|_| alike.next().is_none())
    });
    let word = member(map, "evidence_type").and_then(Json::as_str).map(plain).unwrap_or_default();
    let kind = EvidenceType::ALL.into_iter().find(|kind| kind.as_str() == word);
    if kind.is_none() && !word.is_empty() {
        let word = shorten(&word, 40);
        unread.push(format!("{}: evidence_type {word:?} is none: taken as unknown", shorten(named, 40)));
    }
    let mut refs = strings(member(map, "refs"));
    if let Some(item) = item {
        let all = refs.len();
        let material = &materials[item.state];
        refs.retain(|passage| material.contains(&squeezed(passage)));
        if refs.len() < all {
            let lost = all - refs.len();
            unread.push(format!(
                "claim {}: {lost} of {all} refs are not in the evidence: left out",
                item.claim
            ));
        }
    }
    Listed {
        claim: item.map(|item| item.claim),
        named: shorten(named, 120),
        standing,
        evidence_type: kind.unwrap_or(EvidenceType::Unknown),
        refs,
        reasoning: string(map, "reasoning"),
    }
}

/// A text without its spaces and in lower case: what a model copies differs in those.
fn squeezed(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace()).flat_map(char::to_lowercase).collect()
}

fn string(map: &Map<String, Json>, name: &str) -> Option<String> {
    let text = member(map, name)?.as_str()?.trim();
    (!text.is_empty()).then(|| shorten(text, MAX_TEXT))
}

/// The texts of a list; other values as JSON, a single text as a list of one.
fn strings(list: Option<&Json>) -> Vec<String> {
    let shown = |value: &Json| match value {
        Json::String(text) => shorten(text, MAX_TEXT),
        other => shorten(&other.to_string(), MAX_TEXT),
    };
    match list {
        Some(Json::Array(values)) => {
            values.iter().take(MAX_TEXTS).map(shown).filter(|text| !text.is_empty()).collect()
        }
        Some(Json::String(text)) if !text.trim().is_empty() => vec![shorten(text, MAX_TEXT)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::sheet::tests::{about, ask};
    use super::*;
    use crate::domain::Placed;

    fn read_for(text: &str, cut: bool) -> Result<JudgedPartition, BadReply> {
        let claims = vec![about(0, "Order 7 was refunded."), about(2, "It arrives on Monday.")];
        let ask = ask("order 7: refunded\narrival: Tuesday", claims);
        read(text, cut, &Sheet::new(&ask.inquiries, true).unwrap())
    }

    fn right() -> Json {
        json!({ "partition": {
            "grounded_claims": [{ "claim": "c1", "reasoning": "r", "evidence_type": "tool_match", "refs": ["Order 7:  refunded"] }],
            "ungrounded_claims": [], "complementary_claims": [],
            "contradicted_claims": [{ "claim": "c2", "evidence_type": "specific_data", "refs": ["arrival: Tuesday", "Monday"] }],
            "gaps": ["the year"], "contradictions": ["Monday, Tuesday"], "verification_needed": true,
            "verification_reason": "a date", "explanation": "half", "is_grounded": false, "grounding_score": 0.5,
            "decision_status": "resolved", "decision_reason": "both are spoken of",
        } })
    }

    #[test]
    fn a_whole_partition_is_read_and_its_refs_are_looked_up() {
        let read = read_for(&format!("Here:\n{}", right()), false).unwrap();
        let parts: Vec<_> = read.placed.iter().map(|placed| (placed.claim, placed.standing)).collect();
        assert_eq!(parts, [(0, Standing::Grounded), (2, Standing::Contradicted)]);
        let Placed { refs, evidence_type, .. } = &read.placed[1];
        assert_eq!(
            (refs.as_slice(), *evidence_type),
            (["arrival: Tuesday".to_owned()].as_slice(), EvidenceType::SpecificData)
        );
        assert_eq!(read.repairs, ["claim 2: 1 of 2 refs are not in the evidence: left out"]);
        assert_eq!(
            (read.reported_score, read.is_grounded, read.verification_needed),
            (Some(0.5), Some(false), true)
        );
        assert_eq!(read.gaps, ["the year"]);
    }

    #[test]
    fn claims_are_known_by_key_or_text_and_what_is_odd_is_reported() {
        let odd = json!({ "grounded": ["C1", "It is sunny."], "contradicted": [{ "text": "it arrives on Monday", "evidence_type": "rumour" }],
                          "grounding_score": 5, "decision_status": "Resolved" });
        let read = read_for(&odd.to_string(), false).unwrap();
        assert_eq!(read.placed.len(), 2);
        assert_eq!((read.reported_score, read.repairs.len()), (None, 3), "{:#?}", read.repairs);
    }

    #[test]
    fn what_is_no_partition_is_an_error() {
        let no = |text: &str| read_for(text, false).unwrap_err();
        assert_eq!(no(""), BadReply::Empty);
        assert!(matches!(no("Score: 5"), BadReply::NotJson { .. }));
        assert!(matches!(no("[0.5, 0.5]"), BadReply::NoPartition { .. }));
        assert!(matches!(no(r#"{"grounding_score": 0.75}"#), BadReply::NoPartition { .. }));
        for status in [json!("perhaps"), json!(null), json!(1)] {
            let mut wrong = right();
            wrong["partition"]["decision_status"] = status;
            assert!(no(&wrong.to_string()).to_string().contains("decision_status"));
        }
        let empty = json!({ "grounded_claims": [], "decision_status": "resolved" });
        assert!(no(&empty.to_string()).to_string().contains("no claim"));
        let whole = right().to_string();
        assert_eq!(read_for(&whole[..whole.len() / 2], true), Err(BadReply::Truncated));
        let mut other = right();
        other["partition"]["is_grounded"] = json!(true);
        assert!(no(&format!("{whole}\n{other}")).to_string().contains("two different"));
    }

    #[test]
    fn an_abstention_needs_no_lists() {
        let abstains =
            json!({ "grounded_claims": [], "decision_status": "abstain", "decision_reason": "garbled" });
        let read = read_for(&abstains.to_string(), false).unwrap();
        assert_eq!((read.status, read.reason.as_deref()), (DecisionStatus::Abstain, Some("garbled")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_text_panics_and_each_claim_is_in_one_part_at_most(
            text in r#"(?s)([\[\]{}:,"c12 \\]|grounded_claims|contradicted|"decision_status":"resolved"|"claim":|é|.){0,60}"#, cut: bool,
        ) {
            if let Ok(read) = read_for(&text, cut) {
                let claims: Vec<usize> = read.placed.iter().map(|placed| placed.claim).collect();
                prop_assert!(claims.is_sorted_by(|left, right| left < right));
                prop_assert!(claims.iter().all(|claim| [0, 2].contains(claim)));
            }
        }

        #[test]
        fn a_right_partition_cut_anywhere_is_never_half_a_partition(at in 0..700usize) {
            let whole = right().to_string();
            let at = at.min(whole.len() - 1);
            prop_assert!(read_for(&whole[..at], true).is_err());
        }
    }
}
