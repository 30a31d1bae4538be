//! What the agent is told when its answer comes back: the claims, and the evidence against them.

use super::super::table::{clipped, conflicting};
use crate::ask::{Figures, figures};
use crate::domain::{AssayedClaim, Outcome, Standing, StepKind, Verdict};
use crate::transcript::Told;

/// Claims that are named; of more, only the number is said.
const MOST: usize = 5;

/// The reason to send the answer back; none if it stands, or if too little is known.
pub fn why(verdict: &Verdict, told: &Told, min_probability: f64) -> Option<String> {
    if verdict.outcome != Outcome::Scored {
        return None;
    }
    let claims = &verdict.grounding.as_ref()?.claims;
    let known =
        told.story.steps.iter().filter(|step| matches!(step.kind, StepKind::Observation | StepKind::Request));
    let evidence: Vec<&str> = known.filter_map(|step| step.text.as_deref()).collect();
    let bad: Vec<(&AssayedClaim, Figures)> = claims
        .iter()
        .map(|claim| (claim, figures(&claim.text, &evidence)))
        .filter(|(claim, figures)| is_bad(claim, figures, told, min_probability))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let mut text = format!(
        "{} of {} claims in your answer {} not supported by the tool output of this session. Correct the answer, or look \
         it up again; say plainly what you could not verify.",
        bad.len(),
        claims.len(),
        if bad.len() == 1 { "is" } else { "are" }
    );
    for (claim, figures) in bad.iter().take(MOST) {
        text.push_str("\n- ");
        text.push_str(&line(claim, figures, told));
    }
    if bad.len() > MOST {
        text.push_str(&format!("\n- and {} more", bad.len() - MOST));
    }
    Some(text)
}

/// Whether a claim speaks against the answer. Where a part of what the agent saw is not known here, that a claim is not found
/// says nothing; only a contradiction counts. How sure the model must be depends on the figures: one that neither stands in the
/// evidence nor follows from it speaks against a claim already, also where the model is more for it than against it; where all
/// are there, and nothing else is claimed, the model is alone. What the agent proposes, supposes or says that it did is nothing
/// that a tool has said; it counts by its figures only. Where tools only failed there is nothing to be found in, so
/// only what no failure can have brought counts: figures.
fn is_bad(claim: &AssayedClaim, figures: &Figures, told: &Told, min_probability: f64) -> bool {
    let is_judged = claim.by == "judge";
    let has_stranger = !figures.missing.is_empty();
    let stands_against = match claim.standing {
        // What contradicts it must be among what was read.
        Some(Standing::Contradicted) => !told.is_partial || !claim.evidence.is_empty(),
        Some(Standing::Ungrounded) => {
            !told.is_partial && (has_stranger || is_judged || !told.has_failures_only)
        }
        Some(Standing::Grounded | Standing::Complementary) => has_stranger && !told.is_partial && !is_judged,
        None => false,
    };
    let p = |standing: Standing| claim.probabilities.get(standing.as_str()).copied().unwrap_or_default();
    let doubt = 1.0 - p(Standing::Grounded) - p(Standing::Complementary);
    let wanted = if has_stranger {
        0.7 * min_probability
    } else if figures.are_held() {
        min_probability + 0.9 * (1.0 - min_probability)
    } else {
        min_probability + 0.55 * (1.0 - min_probability)
    };
    let is_told = has_stranger || !is_own(&claim.text);
    stands_against && (is_judged || (is_told && doubt >= wanted))
}

/// Whether a sentence is of the agent's own: what it did, would do, or takes for probable.
fn is_own(text: &str) -> bool {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|letter: char| !letter.is_alphanumeric() && letter != '\'').collect();
    let first = words.iter().find(|word| !word.is_empty()).copied().unwrap_or_default();
    matches!(first, "i" | "i've" | "i'll" | "i'd" | "let's" | "we")
        || words.iter().any(|word| OWN.contains(word))
}

/// Words of proposals and suppositions.
const OWN: [&str; 12] = [
    "would",
    "could",
    "should",
    "might",
    "probably",
    "perhaps",
    "maybe",
    "likely",
    "presumably",
    "recommend",
    "suggest",
    "seems",
];

fn line(claim: &AssayedClaim, figures: &Figures, told: &Told) -> String {
    let said = clipped(&clean(&claim.text), 200);
    let mut line = match claim.standing {
        Some(Standing::Contradicted) => format!("contradicted: \"{said}\""),
        _ => format!("not found: \"{said}\""),
    };
    if !figures.missing.is_empty() {
        line.push_str(&format!(" - no {} in the tool output", clean(&figures.missing.join(", "))));
    }
    if let Some((tool, piece)) = conflicting(claim, &told.story, 160) {
        line.push_str(&format!(" - {} says: \"{}\"", clean(&tool), clean(&piece)));
    }
    if let Some(why) = claim.reasoning.as_deref().filter(|_| claim.by == "judge") {
        line.push_str(&format!(" ({})", clipped(&clean(why), 200)));
    }
    line
}

/// Text of a transcript is untrusted: it must not steer a terminal.
fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EvidenceRef, EvidenceType};
    use crate::transcript::Session;

    fn claim(standing: Standing, grounded: f64, by: &str) -> AssayedClaim {
        AssayedClaim {
            text: "x".to_owned(),
            range: [0, 1],
            standing: Some(standing),
            evidence_type: EvidenceType::Unknown,
            weight: 1.0,
            probabilities: [("grounded".to_owned(), grounded)].into(),
            confidence: None,
            by: by.to_owned(),
            evidence: vec![EvidenceRef { step: 0, span_id: None, range: [0, 1] }],
            derived: vec![],
            reasoning: None,
        }
    }

    fn told(is_partial: bool, has_failures_only: bool) -> Told {
        Told { is_partial, has_failures_only, ..Session::default().told("x", 100) }
    }

    fn whole() -> Told {
        told(false, false)
    }

    fn partial() -> Told {
        told(true, false)
    }

    fn missing() -> Figures {
        Figures { said: 1, missing: vec!["90".to_owned()], ..Figures::default() }
    }

    #[test]
    fn a_claim_counts_if_it_is_improbable_or_the_judge_said_so() {
        assert!(is_bad(&claim(Standing::Contradicted, 0.2, "local"), &missing(), &whole(), 0.6));
        assert!(!is_bad(&claim(Standing::Contradicted, 0.6, "local"), &missing(), &whole(), 0.6));
        assert!(is_bad(&claim(Standing::Ungrounded, 0.5, "judge"), &missing(), &whole(), 0.6));
        assert!(!is_bad(&claim(Standing::Grounded, 0.1, "judge"), &missing(), &whole(), 0.6));
    }

    #[test]
    fn a_figure_that_nothing_holds_counts_also_where_the_model_is_rather_for_the_claim() {
        assert!(is_bad(&claim(Standing::Grounded, 0.55, "local"), &missing(), &whole(), 0.6));
        assert!(!is_bad(&claim(Standing::Grounded, 0.7, "local"), &missing(), &whole(), 0.6));
        assert!(!is_bad(&claim(Standing::Grounded, 0.55, "local"), &missing(), &partial(), 0.6));
        assert!(!is_bad(&claim(Standing::Grounded, 0.55, "local"), &Figures::default(), &whole(), 0.6));
    }

    #[test]
    fn what_the_agent_did_or_proposes_counts_by_its_figures_only() {
        for text in ["I removed the check.", "The database is probably down.", "You could use clap for it."] {
            let own = AssayedClaim { text: text.to_owned(), ..claim(Standing::Ungrounded, 0.05, "local") };
            assert!(!is_bad(&own, &Figures::default(), &whole(), 0.6), "{text}");
            assert!(is_bad(&own, &missing(), &whole(), 0.6), "{text}");
        }
        let own =
            AssayedClaim { text: "I think so.".to_owned(), ..claim(Standing::Ungrounded, 0.05, "judge") };
        assert!(is_bad(&own, &Figures::default(), &whole(), 0.6), "a judge decides by itself");
    }

    #[test]
    fn where_tools_only_failed_a_claim_without_a_figure_of_its_own_is_not_missed() {
        let failed = told(false, true);
        assert!(!is_bad(&claim(Standing::Ungrounded, 0.1, "local"), &Figures::default(), &failed, 0.6));
        assert!(is_bad(&claim(Standing::Ungrounded, 0.1, "local"), &missing(), &failed, 0.6));
        assert!(is_bad(&claim(Standing::Contradicted, 0.1, "local"), &Figures::default(), &failed, 0.6));
        assert!(is_bad(&claim(Standing::Ungrounded, 0.1, "judge"), &Figures::default(), &failed, 0.6));
    }

    #[test]
    fn the_model_must_be_surer_where_the_figures_are_there() {
        let held = Figures { said: 1, ..Figures::default() };
        let doubted = claim(Standing::Contradicted, 0.2, "local");
        let open = claim(Standing::Contradicted, 0.15, "local");
        assert!(is_bad(&open, &Figures::default(), &whole(), 0.6), "nothing to hold it by");
        assert!(!is_bad(&doubted, &Figures::default(), &whole(), 0.6));
        assert!(!is_bad(&doubted, &held, &whole(), 0.6));
        assert!(is_bad(&claim(Standing::Contradicted, 0.01, "local"), &held, &whole(), 0.6));
        assert!(!is_bad(&claim(Standing::Contradicted, 0.3, "local"), &Figures::default(), &whole(), 0.6));
    }

    #[test]
    fn what_is_not_found_says_nothing_where_not_all_was_read() {
        assert!(is_bad(&claim(Standing::Ungrounded, 0.1, "local"), &missing(), &whole(), 0.6));
        assert!(!is_bad(&claim(Standing::Ungrounded, 0.1, "local"), &missing(), &partial(), 0.6));
        assert!(is_bad(&claim(Standing::Contradicted, 0.1, "local"), &missing(), &partial(), 0.6));
        let nowhere = AssayedClaim { evidence: vec![], ..claim(Standing::Contradicted, 0.1, "local") };
        assert!(!is_bad(&nowhere, &missing(), &partial(), 0.6));
    }
}
