//! What stands against an answer, in words that an agent or a person can act on.

use crate::domain::{AssayedClaim, Outcome, Standing, Verdict};

/// Claims that are named; more are only counted.
const NAMED: usize = 5;
/// Characters of a claim, and of the judge's reasoning, that are quoted.
const QUOTED: usize = 200;

/// What the verdict says of the answer, in a few sentences: which claims the evidence does not bear out, and why.
pub fn explanation(verdict: &Verdict) -> String {
    let Some(grounding) = &verdict.grounding else {
        let reason = verdict.reason.as_deref().unwrap_or("unknown");
        return match verdict.outcome {
            Outcome::Failed => format!("The answer could not be evaluated: {reason}."),
            _ => "The answer makes no claim that evidence could bear out.".to_owned(),
        };
    };
    let claims = grounding.claims.len();
    let doubtful: Vec<&AssayedClaim> = [Some(Standing::Contradicted), Some(Standing::Ungrounded), None]
        .iter()
        .fold(Vec::new(), |mut found, standing| {
            found.extend(grounding.claims.iter().filter(|claim| claim.standing == *standing));
            found
        });
    if doubtful.is_empty() {
        return format!("The evidence bears out all {claims} claims.");
    }
    let mut told = format!("{} of {claims} claims are not borne out by the evidence.", doubtful.len());
    for claim in doubtful.iter().take(NAMED) {
        let how = match claim.standing {
            Some(Standing::Contradicted) => "Contradicted",
            Some(Standing::Ungrounded) => "Not in the evidence",
            _ => "Not decided",
        };
        told.push_str(&format!(" {how}: \u{201c}{}\u{201d}", quoted(&claim.text)));
        if let Some(why) = claim.reasoning.as_deref().filter(|why| !why.trim().is_empty()) {
            told.push_str(&format!(" ({})", quoted(why)));
        }
        told.push('.');
    }
    if doubtful.len() > NAMED {
        told.push_str(&format!(" And {} more.", doubtful.len() - NAMED));
    }
    told
}

fn quoted(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Verdict {
        serde_json::from_str(include_str!("../../tests/fixtures/verdicts/schema1.json")).unwrap()
    }

    #[test]
    fn doubtful_claims_are_named_the_contradicted_first() {
        let told = explanation(&full());
        assert!(told.starts_with(
            "2 of 3 claims are not borne out by the evidence. Contradicted: “It arrives tomorrow."
        ));
        assert!(told.contains("Not decided: “You will like it”"), "{told}");
    }

    #[test]
    fn an_answer_without_doubt_and_one_without_claims_are_told_apart() {
        let mut verdict = full();
        let grounding = verdict.grounding.as_mut().unwrap();
        grounding.claims.retain(|claim| claim.standing == Some(Standing::Grounded));
        assert_eq!(explanation(&verdict), "The evidence bears out all 1 claims.");
        let skipped = Verdict { outcome: Outcome::Skipped, grounding: None, ..full() };
        assert!(explanation(&skipped).contains("no claim"));
        let failed = Verdict { outcome: Outcome::Failed, reason: Some("panic".into()), ..skipped };
        assert_eq!(explanation(&failed), "The answer could not be evaluated: panic.");
    }

    #[test]
    fn a_long_claim_is_quoted_in_part_and_many_are_counted() {
        let mut verdict = full();
        let grounding = verdict.grounding.as_mut().unwrap();
        let mut claim = grounding.claims[1].clone();
        claim.text = "ü".repeat(1000);
        grounding.claims = vec![claim; 9];
        let told = explanation(&verdict);
        assert!(told.ends_with("And 4 more."), "{told}");
        assert!(told.chars().count() < 9 * 300);
    }
}
