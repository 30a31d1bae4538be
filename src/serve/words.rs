//! Why a trace was not evaluated, in words that say what to do.

use crate::domain::{Outcome, Verdict};

/// What became of a trace, in a sentence or two.
pub(super) fn of(verdict: &Verdict) -> String {
    match verdict.outcome {
        Outcome::Scored => scored(verdict),
        Outcome::Skipped | Outcome::Failed => {
            // What follows the first word is detail for people already.
            let reason = verdict.reason.as_deref().unwrap_or_default();
            let (word, detail) = reason.split_once(": ").unwrap_or((reason, ""));
            match known(word) {
                Some(words) if detail.is_empty() => words.to_owned(),
                Some(words) => format!("{words} ({detail})"),
                None => format!("The trace was {}: {reason}.", verdict.outcome.as_str()),
            }
        }
    }
}

fn scored(verdict: &Verdict) -> String {
    let claims = verdict.grounding.as_ref().map_or(0, |grounding| grounding.claims.len());
    let unanswered = verdict
        .grounding
        .iter()
        .flat_map(|grounding| &grounding.claims)
        .filter(|claim| claim.standing.is_none())
        .count();
    let mut words = match claims {
        0 => "The trace was evaluated; its answer holds no claim to check.".to_owned(),
        1 => "The trace was evaluated: 1 claim.".to_owned(),
        _ => format!("The trace was evaluated: {claims} claims."),
    };
    if unanswered > 0 {
        words.push_str(&format!(" Nobody could answer for {unanswered} of them."));
    }
    if let Some(error) = &verdict.judge_error {
        words.push_str(&format!(" The judge did not answer: {error}."));
    }
    words
}

fn known(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "no_agent" => {
            "No span of this trace is of a model, a tool or an agent: it is ordinary traffic, and there is nothing to evaluate."
        }
        "no_content" => {
            "The spans of the model are there, but their messages are not: the instrumentation did not record content. Switch it on \
             there, often with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, and send logs as well as traces."
        }
        "no_answer" => {
            "The trace ends without an answer: the run failed, was cut off, or ended in a tool call."
        }
        "no_claims" => {
            "The answer makes no factual claim (a greeting, a question, code), so there is nothing to hold against the evidence."
        }
        "not_matched" => {
            "Claims of this trace are not evaluated: `match` of evaluate.evaluators.grounding does not fit it. `assayd replay --explain` \
             says what does not fit."
        }
        "not_sampled" => "This trace is not in the sample that evaluate.evaluators.grounding sets.",
        "not_asked" => {
            "evaluate.grounding is false, and no other evaluator is for this trace. `assayd replay --explain` says why."
        }
        "unanswered" => {
            "The answer makes no claim that is evaluated, and nobody answered the other evaluators' questions; `answers` says why for each."
        }
        "own_telemetry" => "The trace is assayd's own telemetry; it does not evaluate itself.",
        "decider_failed" => {
            "The decision model failed on this trace. The log says how; assayd_decide_failures_total counts it."
        }
        "panic" => "Evaluating this trace hit a defect in assayd. The log has the details; please report it.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Skip;
    use crate::emit::sample;

    #[test]
    fn every_reason_for_a_skip_has_words() {
        for reason in ["not_matched", "not_sampled", "not_asked", "unanswered"] {
            let verdict = Verdict { reason: Some(reason.into()), ..sample::skipped() };
            assert!(!of(&verdict).starts_with("The trace was skipped"), "{}", of(&verdict));
        }
        for skip in [Skip::NoAgent, Skip::NoContent, Skip::NoAnswer, Skip::OwnTelemetry] {
            let verdict = Verdict { reason: Some(skip.reason().into()), ..sample::skipped() };
            assert!(!of(&verdict).starts_with("The trace was skipped"), "{}", of(&verdict));
        }
        let odd = Verdict { reason: Some("sampled_out: rule 7".into()), ..sample::skipped() };
        assert_eq!(of(&odd), "The trace was skipped: sampled_out: rule 7.");
        let detailed = Verdict { reason: Some("no_answer: tool failed".into()), ..sample::skipped() };
        assert!(of(&detailed).ends_with("tool call. (tool failed)"));
    }

    #[test]
    fn a_scored_trace_says_what_nobody_answered() {
        let words = of(&sample::full());
        assert!(words.contains("3 claims") && words.contains("for 1 of them"), "{words}");
        assert!(words.contains("The judge did not answer: timeout."), "{words}");
    }
}
