//! Readers as they were written for schema 1, frozen: what we write today must make sense to them. If a test here fails, programs
//! that read our verdicts break; change what is written, not this file.

use std::collections::{BTreeMap, HashMap};

use prost::Message;
use serde::Deserialize;

use crate::domain::{Standing, Verdict};
use crate::emit::{sample, to_protobuf};

#[derive(Clone, PartialEq, Message)]
struct OldVerdict {
    #[prost(uint32, tag = "1")]
    schema: u32,
    #[prost(string, tag = "2")]
    verdict_id: String,
    #[prost(uint32, tag = "3")]
    revision: u32,
    #[prost(bytes = "vec", optional, tag = "4")]
    trace_id: Option<Vec<u8>>,
    #[prost(string, optional, tag = "5")]
    session_id: Option<String>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    span_ids: Vec<Vec<u8>>,
    #[prost(string, optional, tag = "7")]
    service: Option<String>,
    #[prost(string, optional, tag = "8")]
    agent: Option<String>,
    #[prost(string, optional, tag = "9")]
    model: Option<String>,
    /// 1 scored, 2 skipped, 3 failed.
    #[prost(int32, tag = "10")]
    outcome: i32,
    #[prost(string, optional, tag = "11")]
    reason: Option<String>,
    /// 1 faithful, 2 hallucination, 3 unsure.
    #[prost(int32, tag = "12")]
    label: i32,
    #[prost(double, optional, tag = "13")]
    hallucination_probability: Option<f64>,
    #[prost(message, optional, tag = "14")]
    grounding: Option<OldGrounding>,
    #[prost(map = "string, message", tag = "15")]
    answers: HashMap<String, OldAnswer>,
    /// 1 root to 6 shutdown.
    #[prost(int32, tag = "16")]
    closed: i32,
    #[prost(string, repeated, tag = "17")]
    truncated: Vec<String>,
    #[prost(bool, tag = "18")]
    degraded: bool,
    #[prost(string, optional, tag = "19")]
    judge_error: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct OldGrounding {
    #[prost(double, tag = "1")]
    score: f64,
    /// 1 proceed, 2 regenerate, 3 replan, 4 abstain.
    #[prost(int32, tag = "2")]
    tier: i32,
    #[prost(message, repeated, tag = "5")]
    claims: Vec<OldClaim>,
}

#[derive(Clone, PartialEq, Message)]
struct OldClaim {
    #[prost(string, tag = "1")]
    text: String,
    /// 1 grounded, 2 ungrounded, 3 contradicted, 4 complementary.
    #[prost(int32, tag = "3")]
    standing: i32,
    #[prost(map = "string, double", tag = "6")]
    probabilities: HashMap<String, f64>,
    #[prost(string, tag = "8")]
    by: String,
}

#[derive(Clone, PartialEq, Message)]
struct OldAnswer {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, optional, tag = "2")]
    label: Option<String>,
    #[prost(double, optional, tag = "4")]
    confidence: Option<f64>,
}

/// What a program that was written for schema 1 takes from the JSON form.
#[derive(Debug, Deserialize)]
struct OldJson {
    schema: u32,
    verdict_id: String,
    revision: u32,
    trace_id: Option<String>,
    session_id: Option<String>,
    span_ids: Vec<String>,
    service: Option<String>,
    outcome: String,
    reason: Option<String>,
    label: Option<String>,
    hallucination_probability: Option<f64>,
    grounding: Option<OldJsonGrounding>,
    answers: BTreeMap<String, serde_json::Value>,
    closed: Option<String>,
    truncated: Vec<String>,
    degraded: bool,
    judge_error: Option<String>,
    provenance: OldJsonProvenance,
    times: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Deserialize)]
struct OldJsonGrounding {
    score: f64,
    tier: String,
    counts: BTreeMap<String, u32>,
    claims: Vec<OldJsonClaim>,
}

#[derive(Debug, Deserialize)]
struct OldJsonClaim {
    text: String,
    range: [usize; 2],
    standing: Option<String>,
    evidence_type: String,
    weight: f64,
    by: String,
}

#[derive(Debug, Deserialize)]
struct OldJsonProvenance {
    decider: String,
    plan: String,
    thresholds: BTreeMap<String, f64>,
    version: String,
}

fn samples() -> [Verdict; 4] {
    [sample::full(), sample::skipped(), sample::check(), sample::run()]
}

fn number_of(standing: Option<Standing>) -> i32 {
    match standing {
        None => 0,
        Some(Standing::Grounded) => 1,
        Some(Standing::Ungrounded) => 2,
        Some(Standing::Contradicted) => 3,
        Some(Standing::Complementary) => 4,
    }
}

#[test]
fn an_old_reader_of_protobuf_still_reads_what_is_written_today() {
    for verdict in samples() {
        let old = OldVerdict::decode(&to_protobuf(&verdict)[..]).unwrap();
        assert_eq!((old.schema, &old.verdict_id, old.revision), (1, &verdict.verdict_id, verdict.revision));
        let trace_id = old.trace_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(trace_id, verdict.trace_id.map(|id| id.to_string()));
        assert_eq!(old.span_ids.len(), verdict.span_ids.len());
        assert_eq!((&old.session_id, &old.service), (&verdict.session_id, &verdict.service));
        assert_eq!((&old.agent, &old.model, &old.reason), (&verdict.agent, &verdict.model, &verdict.reason));
        let outcome = ["", "scored", "skipped", "failed"][old.outcome as usize];
        assert_eq!(outcome, verdict.outcome.as_str());
        let label = ["", "faithful", "hallucination", "unsure"][old.label as usize];
        assert_eq!(label, verdict.label.map_or("", |label| label.as_str()));
        assert!((0..=6).contains(&old.closed));
        assert_eq!(old.hallucination_probability, verdict.hallucination_probability);
        assert_eq!((&old.truncated, old.degraded), (&verdict.truncated, verdict.degraded));
        assert_eq!(old.judge_error, verdict.judge_error);
        assert_eq!(old.grounding.is_some(), verdict.grounding.is_some());
        for (old, new) in old.grounding.iter().zip(&verdict.grounding) {
            assert_eq!(old.score, new.score);
            assert_eq!(
                ["", "proceed", "regenerate", "replan", "abstain"][old.tier as usize],
                new.tier.as_str()
            );
            for (old, new) in old.claims.iter().zip(&new.claims) {
                assert_eq!((&old.text, old.standing, &old.by), (&new.text, number_of(new.standing), &new.by));
                assert_eq!(old.probabilities.len(), new.probabilities.len());
            }
        }
        for (id, answer) in &verdict.answers {
            assert_eq!((&old.answers[id].label, &old.answers[id].kind), (&answer.label, &answer.kind));
            assert_eq!(old.answers[id].confidence, answer.confidence);
        }
    }
}

#[test]
fn an_old_reader_of_json_still_reads_what_is_written_today() {
    for verdict in samples() {
        let old: OldJson = serde_json::from_str(&serde_json::to_string(&verdict).unwrap()).unwrap();
        assert_eq!((old.schema, old.verdict_id, old.revision), (1, verdict.verdict_id, verdict.revision));
        assert_eq!(old.trace_id, verdict.trace_id.map(|id| id.to_string()));
        assert_eq!(old.span_ids.len(), verdict.span_ids.len());
        assert_eq!((old.session_id, old.service), (verdict.session_id, verdict.service));
        assert_eq!((old.outcome.as_str(), old.reason), (verdict.outcome.as_str(), verdict.reason));
        assert_eq!(old.label.as_deref(), verdict.label.map(|label| label.as_str()));
        assert_eq!(old.hallucination_probability, verdict.hallucination_probability);
        assert_eq!(old.closed.as_deref(), verdict.closed.map(|closed| closed.as_str()));
        assert_eq!((old.truncated, old.degraded), (verdict.truncated, verdict.degraded));
        assert_eq!(old.judge_error, verdict.judge_error);
        assert_eq!(old.answers.len(), verdict.answers.len());
        assert_eq!(old.provenance.decider, verdict.provenance.decider);
        assert_eq!(old.provenance.plan, verdict.provenance.plan);
        assert_eq!(old.provenance.thresholds, verdict.provenance.thresholds);
        assert_eq!(old.provenance.version, verdict.provenance.version);
        assert!(old.times["emitted"].is_some());
        for (old, new) in old.grounding.iter().zip(&verdict.grounding) {
            assert_eq!((old.score, old.tier.as_str()), (new.score, new.tier.as_str()));
            assert_eq!(old.counts["contradicted"], new.counts.contradicted);
            for (old, new) in old.claims.iter().zip(&new.claims) {
                assert_eq!((&old.text, old.range, &old.by), (&new.text, new.range, &new.by));
                assert_eq!(old.standing.as_deref(), new.standing.map(|standing| standing.as_str()));
                assert_eq!(old.weight, new.weight);
                assert!(!old.evidence_type.is_empty());
            }
        }
    }
}
