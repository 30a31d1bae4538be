//! Masking the house's own words: inquiries on their way to a model, verdicts and stories on their way out.

use std::sync::Arc;

use super::Redactor;
use crate::domain::{Inquiry, JudgeView, Kind, Question, Story, Subject, Verdict};

use super::Mask;

impl Redactor {
    /// Inquiries with markers in states, instructions and options. Ids and the options' names stay: answers come back by them.
    ///
    /// With the number of pieces that were masked, as all of these.
    pub fn inquiries(&self, inquiries: &[Inquiry]) -> (Vec<Inquiry>, usize) {
        let mut mask = self.mask();
        let masked: Vec<Inquiry> = inquiries
            .iter()
            .map(|inquiry| Inquiry {
                state: Arc::new(mask.json(&inquiry.state)),
                questions: inquiry.questions.iter().map(|asked| question(&mut mask, asked)).collect(),
                prompt: inquiry.prompt.clone(),
            })
            .collect();
        (masked, mask.masked())
    }

    /// A verdict with markers in what it cites of the trace and in what a judge said of it. Ranges stay those of the raw texts.
    pub fn verdict(&self, verdict: &Verdict) -> (Verdict, usize) {
        let mut mask = self.mask();
        let mut verdict = verdict.clone();
        for claim in verdict.grounding.iter_mut().flat_map(|found| &mut found.claims) {
            claim.text = mask.text(&claim.text);
            text(&mut mask, &mut claim.reasoning);
            claim.derived.iter_mut().for_each(|line| *line = mask.text(line));
        }
        for views in verdict.grounding.iter_mut().filter_map(|found| found.views.as_mut()) {
            judge_view(&mut mask, &mut views.judge);
        }
        for answer in verdict.answers.values_mut() {
            text(&mut mask, &mut answer.reasoning);
        }
        for metric in verdict.metrics.values_mut() {
            metric.value = metric.value.as_ref().map(|value| mask.json(value));
            text(&mut mask, &mut metric.error);
        }
        text(&mut mask, &mut verdict.judge_error);
        text(&mut mask, &mut verdict.session_id);
        for round in verdict.run.iter_mut().flat_map(|run| &mut run.rounds) {
            round.synthesis = mask.text(&round.synthesis);
            round.explanation = mask.text(&round.explanation);
        }
        (verdict, mask.masked())
    }

    /// A story with markers.
    pub fn story(&self, story: &Story) -> (Story, usize) {
        let mut mask = self.mask();
        let mut story = story.clone();
        text(&mut mask, &mut story.request);
        text(&mut mask, &mut story.answer);
        text(&mut mask, &mut story.session_id);
        for told in &mut story.instructions {
            told.text = mask.text(&told.text);
        }
        for tool in &mut story.tools {
            text(&mut mask, &mut tool.description);
            tool.parameters = tool.parameters.as_ref().map(|schema| mask.json(schema));
        }
        for step in &mut story.steps {
            text(&mut mask, &mut step.text);
            step.arguments = step.arguments.as_ref().map(|arguments| mask.json(arguments));
        }
        (story, mask.masked())
    }
}

/// All that a judge wrote or cited.
fn judge_view(mask: &mut Mask, view: &mut JudgeView) {
    for placed in &mut view.claims {
        text(mask, &mut placed.reasoning);
        texts(mask, &mut placed.refs);
    }
    for list in [&mut view.gaps, &mut view.contradictions, &mut view.repairs] {
        texts(mask, list);
    }
    text(mask, &mut view.decision_reason);
    text(mask, &mut view.verification_reason);
    text(mask, &mut view.explanation);
}

fn texts(mask: &mut Mask, list: &mut [String]) {
    list.iter_mut().for_each(|entry| *entry = mask.text(entry));
}

fn question(mask: &mut Mask, question: &Question) -> Question {
    let subject = match &question.subject {
        Subject::General => Subject::General,
        Subject::Grounding { claim } => Subject::Grounding { claim: mask.text(claim) },
        Subject::Relevance { query } => Subject::Relevance { query: mask.text(query) },
    };
    let kind = match &question.kind {
        Kind::Noul { if_true, if_false } => Kind::Noul {
            if_true: if_true.as_ref().map(|described| mask.json(described)),
            if_false: if_false.as_ref().map(|described| mask.json(described)),
        },
        Kind::Choice { options } => Kind::Choice {
            options: options.iter().map(|(name, described)| (name.clone(), mask.json(described))).collect(),
        },
        Kind::Score { levels } => {
            Kind::Score { levels: levels.iter().map(|level| mask.json(level)).collect() }
        }
    };
    Question { kind, subject, instructions: mask.json(&question.instructions), ..question.clone() }
}

fn text(mask: &mut Mask, text: &mut Option<String>) {
    if let Some(raw) = text {
        *raw = mask.text(raw);
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::{Instructions, Json, OfferedTool, StepKind};
    use crate::redact::Config;

    use super::*;

    fn redactor() -> Redactor {
        let config = Config::default();
        Redactor::new(&config, config.judge.as_deref()).unwrap().unwrap()
    }

    #[test]
    fn a_claim_and_its_evidence_get_the_same_marker_for_the_same_value() {
        let grounding = Question {
            id: "claim:0".into(),
            kind: Kind::Choice {
                options: vec![("grounded".into(), Json::Null), ("other".into(), Json::Null)],
            },
            instructions: Json::String("Claim: write to max.moritz@posteo.de".into()),
            subject: Subject::Grounding { claim: "write to max.moritz@posteo.de".into() },
        };
        let inquiry = Inquiry {
            state: Arc::new(Json::String("jane.roe@posteo.de, max.moritz@posteo.de".into())),
            questions: vec![grounding],
            prompt: None,
        };
        let masked = &redactor().inquiries(&[inquiry]).0[0];
        assert_eq!(*masked.state, Json::String("[EMAIL], [EMAIL 2]".into()));
        assert_eq!(masked.questions[0].instructions, Json::String("Claim: write to [EMAIL 2]".into()));
        assert_eq!(masked.questions[0].subject, Subject::Grounding { claim: "write to [EMAIL 2]".into() });
        assert_eq!(masked.questions[0].id, "claim:0");
    }

    #[test]
    fn a_verdict_is_masked_wherever_it_cites() {
        let mut verdict: Verdict =
            serde_json::from_str(include_str!("../../tests/fixtures/verdicts/schema1.json")).unwrap();
        let secret = "jane.roe@posteo.de";
        let grounding = verdict.grounding.as_mut().unwrap();
        grounding.claims[0].text = format!("Write to {secret}.");
        grounding.claims[1].reasoning = Some(format!("{secret} is another"));
        grounding.claims[1].derived = vec![format!("2 of 3 rows: owner {secret}.")];
        verdict.judge_error = Some(format!("no answer for {secret}"));
        let counts = serde_json::to_value(crate::domain::Counts::default()).unwrap();
        let view = serde_json::json!({
            "local": { "score": 0.5, "tier": "replan", "counts": counts, "standings": [] },
            "judge": {
                "score": 0.5, "tier": "replan", "counts": counts, "decision_status": "resolved", "decision_reason": secret,
                "reported_score": null, "is_grounded": null, "gaps": [secret], "contradictions": [secret],
                "claims": [{ "claim": 0, "standing": "grounded", "evidence_type": "domain", "refs": [secret], "reasoning": secret }],
                "verification_needed": true, "verification_reason": secret, "explanation": secret, "repairs": [secret],
            },
        });
        verdict.grounding.as_mut().unwrap().views = Some(serde_json::from_value(view).unwrap());
        let (masked, pieces) = redactor().verdict(&verdict);
        assert_eq!(pieces, 12);
        let told = serde_json::to_string(&masked).unwrap();
        assert!(!told.contains(secret) && told.matches("[EMAIL]").count() == 12, "{told}");
        assert_eq!(masked.verdict_id, verdict.verdict_id);
    }

    #[test]
    fn a_story_is_masked_in_texts_and_arguments() {
        let step = crate::domain::Step {
            text: Some("to jane.roe@posteo.de".into()),
            arguments: Some(serde_json::json!({ "password": "s3cr3t-horse" })),
            ..crate::domain::Step::new(StepKind::ToolCall)
        };
        let story = Story {
            instructions: vec![Instructions { agents: Vec::new(), text: "Ask jane.roe@posteo.de.".into() }],
            tools: vec![OfferedTool {
                name: "mail".into(),
                description: Some("Writes to jane.roe@posteo.de".into()),
                parameters: Some(serde_json::json!({ "default": "jane.roe@posteo.de" })),
                agents: Vec::new(),
                unlisted: false,
            }],
            request: Some("jane.roe@posteo.de?".into()),
            steps: vec![step],
            ..Story::default()
        };
        let told = serde_json::to_string(&redactor().story(&story).0).unwrap();
        assert!(!told.contains("jane.roe") && !told.contains("s3cr3t"), "{told}");
    }
}
