//! A verdict as OpenTelemetry log records: the event `gen_ai.evaluation.result` of the semantic conventions for generative AI
//! (in development, as of November 2026), what they have no name for under `assayd.*`. Pure.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::domain::{
    self, AssayedClaim, Grounding, Json, Label, Outcome, Questions, Standing, TaskAnswer, Verdict,
};

/// The event's name.
pub(super) const EVENT: &str = "gen_ai.evaluation.result";
/// The evaluation's name for what this house is about; other questions have their own ids.
pub(super) const GROUNDING: &str = "grounding";
/// Characters of a claim in an explanation.
const CLAIM_CHARS: usize = 200;

/// What is left out of records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Whether texts are sent.
    pub texts: bool,
}

/// The records of a verdict: grounding first, then the other questions and metrics by name.
pub(super) fn records(verdict: &Verdict, style: Style) -> Vec<LogRecord> {
    let mut all = vec![grounding(verdict, style)];
    // One event for each evaluator: the answers about single steps are summed up under its name.
    let whole = verdict.answers.iter().filter(|(id, _)| Questions::label(id) == id.as_str());
    all.extend(whole.map(|(id, answer)| question(verdict, id, answer, style)));
    for (id, metric) in &verdict.metrics {
        let mut record = bare(verdict, id);
        match &metric.value {
            Some(Json::String(word)) => push(&mut record, "gen_ai.evaluation.score.label", text(word)),
            Some(Json::Bool(yes)) => {
                push(&mut record, "gen_ai.evaluation.score.label", text(&yes.to_string()))
            }
            Some(Json::Number(number)) => {
                push(
                    &mut record,
                    "gen_ai.evaluation.score.value",
                    double(number.as_f64().unwrap_or_default()),
                );
            }
            Some(other) => push(&mut record, "assayd.value", text(&other.to_string())),
            None => fail(&mut record, "metric_failed"),
        }
        if let Some(error) = metric.error.as_ref().filter(|_| style.texts) {
            push(&mut record, "gen_ai.evaluation.explanation", text(error));
        }
        all.push(record);
    }
    all
}

/// One request with all these records, marked as assayd's own: no assayd evaluates it.
pub(super) fn request(records: Vec<LogRecord>) -> ExportLogsServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![
            pair("service.name", text("assayd")),
            pair("service.version", text(version)),
            pair(domain::Resource::OWN, Value::BoolValue(true)),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope { name: "assayd".into(), version: version.into(), ..Default::default() };
    let scope_logs = ScopeLogs { scope: Some(scope), log_records: records, ..ScopeLogs::default() };
    let logs =
        ResourceLogs { resource: Some(resource), scope_logs: vec![scope_logs], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}

fn grounding(verdict: &Verdict, style: Style) -> LogRecord {
    let mut record = bare(verdict, GROUNDING);
    if verdict.outcome == Outcome::Failed {
        fail(&mut record, verdict.reason.as_deref().unwrap_or("failed"));
    } else if verdict.label == Some(Label::Hallucination) {
        severe(&mut record, SeverityNumber::Warn);
    }
    if let Some(label) = verdict.label {
        push(&mut record, "gen_ai.evaluation.score.label", text(label.as_str()));
    }
    if let Some(probability) = verdict.hallucination_probability {
        push(&mut record, "assayd.hallucination_probability", double(probability));
    }
    let Some(grounding) = &verdict.grounding else { return record };
    push(&mut record, "gen_ai.evaluation.score.value", double(grounding.score));
    push(&mut record, "assayd.tier", text(grounding.tier.as_str()));
    let counts = &grounding.counts;
    let parts = [
        (Standing::Grounded, counts.grounded),
        (Standing::Ungrounded, counts.ungrounded),
        (Standing::Contradicted, counts.contradicted),
        (Standing::Complementary, counts.complementary),
    ];
    for (standing, count) in parts {
        push(&mut record, &format!("assayd.claims.{}", standing.as_str()), int(count.into()));
    }
    let claims = grounding.claims.iter().map(|claim| assayed(claim, style)).collect();
    push(&mut record, "assayd.claims", Value::ArrayValue(ArrayValue { values: claims }));
    if style.texts {
        push(&mut record, "gen_ai.evaluation.explanation", text(&explanation(grounding)));
    }
    record
}

fn question(verdict: &Verdict, id: &str, answer: &TaskAnswer, style: Style) -> LogRecord {
    let mut record = bare(verdict, id);
    match &answer.label {
        Some(label) => push(&mut record, "gen_ai.evaluation.score.label", text(label)),
        None => fail(&mut record, "not_answered"),
    }
    if let Some(score) = value(answer) {
        push(&mut record, "gen_ai.evaluation.score.value", double(score));
    }
    if let Some(confidence) = answer.confidence {
        push(&mut record, "assayd.confidence", double(confidence));
    }
    push(&mut record, "assayd.question.type", text(&answer.kind));
    push(&mut record, "assayd.by", text(&answer.by));
    push(&mut record, "assayd.escalated", Value::BoolValue(answer.escalated));
    if let Some(pass) = answer.pass {
        push(&mut record, "assayd.pass", Value::BoolValue(pass));
        if !pass {
            severe(&mut record, SeverityNumber::Warn);
        }
    }
    if let Some(reasoning) = answer.reasoning.as_ref().filter(|_| style.texts) {
        push(&mut record, "gen_ai.evaluation.explanation", text(reasoning));
    }
    record
}

/// A number for the answer: of noul the probability of yes, of score the expected level. A choice has none. What the judge
/// picked has no probabilities: then the pick itself.
fn value(answer: &TaskAnswer) -> Option<f64> {
    let picked_by_judge = answer.by == "judge";
    match answer.kind.as_str() {
        "noul" if picked_by_judge => answer.label.as_ref().map(|label| f64::from(u8::from(label == "true"))),
        "noul" => answer.probabilities.get("true").copied(),
        "score" if picked_by_judge || answer.probabilities.is_empty() => answer.label.as_ref()?.parse().ok(),
        "score" => {
            let levels = answer.probabilities.iter();
            Some(levels.filter_map(|(level, p)| Some(level.parse::<f64>().ok()? * p)).sum())
        }
        _ => None,
    }
}

/// What every record of a verdict says.
fn bare(verdict: &Verdict, name: &str) -> LogRecord {
    let mut record = LogRecord {
        time_unix_nano: verdict.times.emitted.0,
        observed_time_unix_nano: verdict.times.emitted.0,
        event_name: EVENT.to_owned(),
        trace_id: verdict.trace_id.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        span_id: verdict.evaluated_span_id.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        ..LogRecord::default()
    };
    severe(&mut record, SeverityNumber::Info);
    push(&mut record, "gen_ai.evaluation.name", text(name));
    let optional = [
        ("gen_ai.response.id", &verdict.response_id),
        ("gen_ai.conversation.id", &verdict.session_id),
        ("gen_ai.agent.name", &verdict.agent),
        ("gen_ai.response.model", &verdict.model),
        ("assayd.service", &verdict.service),
        ("assayd.service.version", &verdict.service_version),
        ("assayd.prompt.version", &verdict.prompt_version),
        ("assayd.reason", &verdict.reason),
        ("assayd.judge_error", &verdict.judge_error),
        ("assayd.judge", &verdict.provenance.judge),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            push(&mut record, key, text(value));
        }
    }
    push(&mut record, "assayd.verdict.id", text(&verdict.verdict_id));
    push(&mut record, "assayd.revision", int(verdict.revision.into()));
    push(&mut record, "assayd.outcome", text(verdict.outcome.as_str()));
    push(&mut record, "assayd.degraded", Value::BoolValue(verdict.degraded));
    push(&mut record, "assayd.decider", text(&verdict.provenance.decider));
    push(&mut record, "assayd.plan", text(&verdict.provenance.plan));
    record
}

fn assayed(claim: &AssayedClaim, style: Style) -> AnyValue {
    let mut values = Vec::new();
    if style.texts {
        values.push(pair("text", text(&claim.text)));
    }
    values.push(pair("from", int(claim.range[0] as i64)));
    values.push(pair("to", int(claim.range[1] as i64)));
    values.push(pair("standing", text(claim.standing.map_or("none", Standing::as_str))));
    values.push(pair("evidence_type", text(claim.evidence_type.as_str())));
    values.push(pair("by", text(&claim.by)));
    if let Some(confidence) = claim.confidence {
        values.push(pair("confidence", double(confidence)));
    }
    let spans = claim.evidence.iter().filter_map(|evidence| evidence.span_id);
    let spans: Vec<AnyValue> = spans.map(|id| any(text(&id.to_string()))).collect();
    values.push(pair("evidence_span_ids", Value::ArrayValue(ArrayValue { values: spans })));
    if style.texts && !claim.derived.is_empty() {
        let lines = claim.derived.iter().map(|line| any(text(line))).collect();
        values.push(pair("derived", Value::ArrayValue(ArrayValue { values: lines })));
    }
    if let Some(reasoning) = claim.reasoning.as_ref().filter(|_| style.texts) {
        values.push(pair("reasoning", text(reasoning)));
    }
    any(Value::KvlistValue(KeyValueList { values }))
}

/// What stands against the answer, in words.
fn explanation(grounding: &Grounding) -> String {
    let all = grounding.claims.len();
    let doubtful: Vec<String> = grounding
        .claims
        .iter()
        .filter(|claim| !matches!(claim.standing, Some(Standing::Grounded | Standing::Complementary)))
        .map(|claim| {
            let standing = claim.standing.map_or("unanswered", Standing::as_str);
            let words: String = claim.text.chars().take(CLAIM_CHARS).collect();
            let because = claim.reasoning.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("{standing}: \"{words}\"{because}")
        })
        .collect();
    match doubtful.len() {
        0 => format!("{all} of {all} claims stand"),
        count => format!("{count} of {all} claims do not stand. {}", doubtful.join("; ")),
    }
}

fn fail(record: &mut LogRecord, word: &str) {
    severe(record, SeverityNumber::Error);
    push(record, "error.type", text(word));
}

fn severe(record: &mut LogRecord, severity: SeverityNumber) {
    record.severity_number = severity.into();
    record.severity_text = match severity {
        SeverityNumber::Error => "ERROR",
        SeverityNumber::Warn => "WARN",
        _ => "INFO",
    }
    .to_owned();
}

fn push(record: &mut LogRecord, key: &str, value: Value) {
    record.attributes.push(pair(key, value));
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any(value)), ..KeyValue::default() }
}

fn any(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn text(text: &str) -> Value {
    Value::StringValue(text.to_owned())
}

fn int(number: i64) -> Value {
    Value::IntValue(number)
}

fn double(number: f64) -> Value {
    Value::DoubleValue(number)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::emit::sample;

    const WHOLE: Style = Style { texts: true };

    fn attributes(record: &LogRecord) -> BTreeMap<&str, &Value> {
        let pairs = record.attributes.iter();
        let all: Vec<(&str, &Value)> = pairs
            .map(|pair| (pair.key.as_str(), pair.value.as_ref().unwrap().value.as_ref().unwrap()))
            .collect();
        let map: BTreeMap<&str, &Value> = all.iter().copied().collect();
        assert_eq!(map.len(), all.len(), "no key twice");
        map
    }

    #[test]
    fn a_verdict_is_one_record_for_grounding_and_one_for_each_question_on_the_span_that_answered() {
        let verdict = sample::full();
        let all = records(&verdict, WHOLE);
        assert_eq!(all.len(), 1 + verdict.answers.len() + verdict.metrics.len());
        for record in &all {
            assert_eq!(record.event_name, "gen_ai.evaluation.result");
            assert_eq!(record.trace_id, verdict.trace_id.unwrap().as_bytes());
            assert_eq!(record.span_id, verdict.evaluated_span_id.unwrap().as_bytes());
            assert_eq!(record.time_unix_nano, verdict.times.emitted.0);
            let has = attributes(record);
            assert_eq!(has["assayd.verdict.id"], &text(&verdict.verdict_id));
            assert_eq!(has["gen_ai.response.id"], &text("chatcmpl-7"));
        }
        let grounding = attributes(&all[0]);
        assert_eq!(grounding["gen_ai.evaluation.name"], &text("grounding"));
        assert_eq!(grounding["gen_ai.evaluation.score.label"], &text("hallucination"));
        assert_eq!(grounding["gen_ai.evaluation.score.value"], &double(0.625));
        assert_eq!(grounding["assayd.tier"], &text("replan"));
        assert_eq!(grounding["assayd.claims.contradicted"], &int(1));
        assert!(!grounding.contains_key("error.type"));
        assert_eq!(all[0].severity_number, i32::from(SeverityNumber::Warn));
        let Value::StringValue(words) = grounding["gen_ai.evaluation.explanation"] else { panic!() };
        assert!(
            words.starts_with("2 of 3 claims do not stand. contradicted: \"It arrives tomorrow."),
            "{words}"
        );
        let toxicity =
            all.iter().map(attributes).find(|has| has["gen_ai.evaluation.name"] == &text("toxicity"));
        assert_eq!(toxicity.unwrap()["gen_ai.evaluation.score.label"], &text("non-toxic"));
    }

    #[test]
    fn a_failed_evaluation_has_an_error_and_no_score() {
        let verdict =
            Verdict { outcome: Outcome::Failed, reason: Some("decider_failed".into()), ..sample::skipped() };
        let all = records(&verdict, WHOLE);
        let has = attributes(&all[0]);
        assert_eq!(has["error.type"], &text("decider_failed"));
        assert!(
            !has.contains_key("gen_ai.evaluation.score.value")
                && !has.contains_key("gen_ai.evaluation.score.label")
        );
        let skipped = records(&sample::skipped(), WHOLE);
        assert!(!attributes(&skipped[0]).contains_key("error.type"), "a skip is no error");
    }

    #[test]
    fn numbers_are_the_probability_of_yes_and_the_expected_level() {
        let answer = |kind: &str, by: &str, label: &str, p: &[(&str, f64)]| TaskAnswer {
            kind: kind.into(),
            label: Some(label.into()),
            by: by.into(),
            probabilities: p.iter().map(|(label, p)| ((*label).to_owned(), *p)).collect(),
            ..sample::full().answers["toxicity"].clone()
        };
        assert_eq!(value(&answer("noul", "local", "true", &[("false", 0.25), ("true", 0.75)])), Some(0.75));
        assert_eq!(value(&answer("noul", "judge", "false", &[("false", 0.25), ("true", 0.75)])), Some(0.0));
        assert_eq!(
            value(&answer("score", "local", "2", &[("0", 0.25), ("1", 0.25), ("2", 0.5)])),
            Some(1.25)
        );
        assert_eq!(value(&answer("score", "judge", "1", &[("0", 0.25), ("2", 0.75)])), Some(1.0));
        assert_eq!(value(&answer("choice", "local", "a", &[("a", 1.0)])), None);
    }

    #[test]
    fn without_texts_no_word_of_the_answer_leaves() {
        let bytes = prost::Message::encode_to_vec(&request(records(&sample::full(), Style { texts: false })));
        let sent = String::from_utf8_lossy(&bytes);
        for words in ["It arrives", "Order 7", "the tool says so", "the judge timed out"] {
            assert!(!sent.contains(words), "{words}");
        }
        let whole = prost::Message::encode_to_vec(&request(records(&sample::full(), WHOLE)));
        assert!(String::from_utf8_lossy(&whole).contains("It arrives"));
    }
}
