//! Makes a verdict small enough for a sink, and says in the verdict what was cut. Least needed first.

use crate::domain::{AssayedClaim, Verdict};

/// Characters that are left of a claim, once texts are cut.
const CLAIM_CHARS: usize = 160;
/// Claims that are left, once claims are cut: the doubtful ones first.
const CLAIMS: usize = 20;
/// Notes in `truncated` that are left.
const NOTES: usize = 20;
/// Characters that are left of a name, in what remains of a verdict that fits in no other way.
const NAME_CHARS: usize = 100;

/// An encoded verdict that fits.
pub(super) struct Fitted {
    pub(super) bytes: Vec<u8>,
    pub(super) trimmed: bool,
}

struct Cut {
    what: &'static str,
    /// Says whether it changed anything.
    apply: fn(&mut Verdict) -> bool,
}

const CUTS: [Cut; 11] = [
    Cut {
        what: "all evidence references but the first of each claim",
        apply: |v| each(v, |c| shorten(&mut c.evidence, 1)),
    },
    Cut {
        what: "both views of the claims",
        apply: |v| v.grounding.as_mut().is_some_and(|grounding| grounding.views.take().is_some()),
    },
    Cut {
        what: "the claims' probabilities",
        apply: |v| each(v, |c| !std::mem::take(&mut c.probabilities).is_empty()),
    },
    Cut { what: "what was computed for the claims", apply: |v| each(v, |c| shorten(&mut c.derived, 0)) },
    Cut { what: "the claims' reasoning", apply: |v| each(v, |c| c.reasoning.take().is_some()) },
    Cut { what: "all evidence references", apply: |v| each(v, |c| shorten(&mut c.evidence, 0)) },
    Cut { what: "span ids", apply: |v| shorten(&mut v.span_ids, 0) },
    Cut { what: "the ends of long claims", apply: |v| each(v, |c| shorten_text(&mut c.text)) },
    Cut { what: "all claims but the 20 most doubtful", apply: cut_claims },
    Cut { what: "the texts of the run's rounds", apply: cut_rounds },
    Cut {
        what: "claims, probabilities and reasoning of other answers, values of own metrics",
        apply: cut_to_the_bone,
    },
];

/// `verdict`, encoded in at most `limit` bytes; `None` if that cannot be done.
pub(super) fn fit(verdict: &Verdict, limit: usize, encode: impl Fn(&Verdict) -> Vec<u8>) -> Option<Fitted> {
    let bytes = encode(verdict);
    if bytes.len() <= limit {
        return Some(Fitted { bytes, trimmed: false });
    }
    let mut smaller = verdict.clone();
    for cut in &CUTS {
        if !(cut.apply)(&mut smaller) {
            continue;
        }
        smaller.truncated.push(format!("emit: {}, to fit {limit} bytes", cut.what));
        let bytes = encode(&smaller);
        if bytes.len() <= limit {
            return Some(Fitted { bytes, trimmed: true });
        }
    }
    None
}

/// What is left of a verdict that [`fit`] finds no form for: ids, outcome, label, score and counts, and the beginnings of the
/// sender's names. A verdict for all readers; `None` if not even that fits.
pub(super) fn remains(
    verdict: &Verdict,
    limit: usize,
    encode: impl Fn(&Verdict) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let whole = encode(verdict).len();
    [NAME_CHARS, NAME_CHARS / 10].into_iter().find_map(|chars| {
        let mut remains = verdict.clone();
        strip(&mut remains, chars);
        remains.truncated = vec![format!("emit: all but ids, outcome, score and counts of {whole} bytes")];
        Some(encode(&remains)).filter(|bytes| bytes.len() <= limit)
    })
}

fn each(verdict: &mut Verdict, mut change: impl FnMut(&mut AssayedClaim) -> bool) -> bool {
    let claims = verdict.grounding.iter_mut().flat_map(|grounding| &mut grounding.claims);
    // Not `any`: every claim must be changed.
    claims.fold(false, |changed, claim| change(claim) | changed)
}

fn shorten<T>(list: &mut Vec<T>, most: usize) -> bool {
    let longer = list.len() > most;
    list.truncate(most);
    longer
}

fn shorten_text(text: &mut String) -> bool {
    shorten_to(text, CLAIM_CHARS)
}

fn shorten_to(text: &mut String, chars: usize) -> bool {
    let Some((end, _)) = text.char_indices().nth(chars) else { return false };
    text.truncate(end);
    text.push('…');
    true
}

fn cut_claims(verdict: &mut Verdict) -> bool {
    let Some(grounding) = &mut verdict.grounding else { return false };
    // Stable: within a rank the order of the answer stays.
    grounding.claims.sort_by_key(doubt);
    let cut = shorten(&mut grounding.claims, CLAIMS);
    grounding.claims.sort_by_key(|claim| claim.range);
    cut
}

fn doubt(claim: &AssayedClaim) -> u8 {
    use crate::domain::Standing;
    match claim.standing {
        Some(Standing::Contradicted) => 0,
        Some(Standing::Ungrounded) => 1,
        None => 2,
        Some(Standing::Complementary) => 3,
        Some(Standing::Grounded) => 4,
    }
}

fn cut_rounds(verdict: &mut Verdict) -> bool {
    let rounds = verdict.run.iter_mut().flat_map(|run| &mut run.rounds);
    rounds.fold(false, |changed, round| {
        shorten_text(&mut round.synthesis) | shorten_text(&mut round.explanation) | changed
    })
}

fn cut_to_the_bone(verdict: &mut Verdict) -> bool {
    if let Some(grounding) = &mut verdict.grounding {
        grounding.claims.clear();
    }
    for answer in verdict.answers.values_mut() {
        answer.probabilities.clear();
        answer.reasoning = None;
    }
    for metric in verdict.metrics.values_mut() {
        if metric.value.take().is_some() {
            metric.error = Some("left out to fit the sink's limit".to_owned());
        }
    }
    shorten(&mut verdict.truncated, NOTES);
    true
}

fn strip(verdict: &mut Verdict, chars: usize) {
    verdict.span_ids.clear();
    verdict.answers.clear();
    verdict.metrics.clear();
    verdict.run = None;
    if let Some(grounding) = &mut verdict.grounding {
        grounding.claims.clear();
        grounding.views = None;
    }
    let provenance = &mut verdict.provenance;
    provenance.thresholds.clear();
    let ours = [&mut provenance.decider, &mut provenance.plan];
    let names = [
        &mut verdict.session_id,
        &mut verdict.response_id,
        &mut verdict.service,
        &mut verdict.agent,
        &mut verdict.model,
        &mut verdict.service_version,
        &mut verdict.prompt_version,
        &mut verdict.reason,
        &mut verdict.judge_error,
        &mut provenance.judge,
        &mut provenance.calibration,
        &mut provenance.prompts,
    ];
    for name in ours.into_iter().chain(names.into_iter().flatten()) {
        shorten_to(name, chars);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EvidenceRef, Standing};
    use crate::emit::sample;

    fn encode(verdict: &Verdict) -> Vec<u8> {
        serde_json::to_vec(verdict).unwrap()
    }

    fn decoded(fitted: &Fitted) -> Verdict {
        serde_json::from_slice(&fitted.bytes).unwrap()
    }

    /// 200 claims with 50 references each, the last claim contradicted.
    fn large() -> Verdict {
        let mut verdict = sample::full();
        let grounding = verdict.grounding.as_mut().unwrap();
        let mut claim = grounding.claims[0].clone();
        claim.evidence = vec![EvidenceRef { step: 1, span_id: None, range: [0, 9] }; 50];
        claim.text = "x".repeat(400);
        grounding.claims = vec![claim; 200];
        for (number, claim) in grounding.claims.iter_mut().enumerate() {
            claim.range = [number * 400, number * 400 + 400];
        }
        grounding.claims[199].standing = Some(Standing::Contradicted);
        verdict
    }

    #[test]
    fn a_verdict_that_fits_is_not_touched() {
        let verdict = sample::full();
        let fitted = fit(&verdict, 1_000_000, encode).unwrap();
        assert!(!fitted.trimmed);
        assert_eq!(decoded(&fitted), verdict);
    }

    #[test]
    fn references_go_first_and_the_verdict_says_so() {
        let verdict = large();
        let fitted = fit(&verdict, encode(&verdict).len() - 1, encode).unwrap();
        let smaller = decoded(&fitted);
        assert!(fitted.trimmed);
        let claims = &smaller.grounding.as_ref().unwrap().claims;
        assert!(claims.iter().all(|claim| claim.evidence.len() == 1 && !claim.probabilities.is_empty()));
        assert_eq!(claims.len(), 200);
        assert!(smaller.truncated.last().unwrap().starts_with("emit: all evidence references but the first"));
    }

    #[test]
    fn doubtful_claims_outlast_the_others() {
        let fitted = fit(&large(), 10_000, encode).unwrap();
        let claims = decoded(&fitted).grounding.unwrap().claims;
        assert_eq!(claims.len(), 20);
        assert_eq!(claims.last().unwrap().standing, Some(Standing::Contradicted));
        assert!(claims.is_sorted_by_key(|claim| claim.range));
    }

    #[test]
    fn score_label_and_counts_outlast_everything() {
        let verdict = large();
        for limit in [200_000, 20_000, 8_000, 3_000] {
            let fitted = fit(&verdict, limit, encode).unwrap();
            assert!(fitted.bytes.len() <= limit);
            let smaller = decoded(&fitted);
            assert_eq!(smaller.label, verdict.label);
            assert_eq!(
                smaller.grounding.as_ref().unwrap().counts,
                verdict.grounding.as_ref().unwrap().counts
            );
            assert_eq!(smaller.verdict_id, verdict.verdict_id);
        }
    }

    #[test]
    fn what_cannot_fit_is_given_back_as_nothing() {
        let verdict = Verdict { session_id: Some("s".repeat(10_000)), ..sample::full() };
        assert!(fit(&verdict, 5_000, encode).is_none());
    }

    #[test]
    fn what_remains_of_a_verdict_fits_whatever_its_sender_wrote() {
        let mut verdict = large();
        for name in ["s", "é", "\u{1}"] {
            verdict.session_id = Some(name.repeat(10_000));
            verdict.service = Some(name.repeat(10_000));
            verdict.reason = Some(name.repeat(10_000));
            verdict.truncated = vec![name.repeat(10_000)];
            assert!(fit(&verdict, 2_500, encode).is_none());
            let bytes = remains(&verdict, 2_500, encode).unwrap();
            let remains: Verdict = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(remains.verdict_id, verdict.verdict_id);
            assert_eq!((remains.label, remains.trace_id), (verdict.label, verdict.trace_id));
            assert_eq!(remains.grounding.unwrap().counts, verdict.grounding.as_ref().unwrap().counts);
            assert!(remains.truncated[0].starts_with("emit: all but ids"), "{:?}", remains.truncated);
        }
        assert!(remains(&verdict, 100, encode).is_none());
    }
}
