//! All settings. Every key has a default: no file at all is a working configuration.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::Period;

/// assayd's configuration. One YAML file; sections are rooms; unknown and duplicate keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What this process does: `all` (spans in, verdicts out), or, with Kafka between the two, `gateway` (OTLP in, spans to the
    /// topic of `relay`) or `worker` (spans from `receive.kafka`, verdicts out; OTLP only if `receive.grpc` or `receive.http`
    /// is written down).
    pub role: Role,
    /// How spans come in.
    pub receive: crate::receive::Config,
    /// Where a gateway sends spans.
    pub relay: crate::relay::Config,
    /// The local log of deliveries for `receive.acknowledge: stored`, in `data_dir`.
    pub spool: crate::spool::Config,
    /// When a trace is taken as complete.
    pub assemble: crate::assemble::Config,
    /// How an answer becomes claims and questions.
    pub ask: crate::ask::Config,
    /// What traces are evaluated for, beside the claims of their answers; docs/evaluators.md lists what there is.
    pub evaluate: crate::ask::EvaluateConfig,
    /// The decision model.
    pub decide: crate::decide::Config,
    /// The LLM judge for what the decision model is unsure of; none unless a provider is given.
    pub judge: crate::judge::Config,
    /// GSAR's weights and thresholds.
    pub score: crate::score::Config,
    /// What is masked before it leaves the house.
    pub redact: crate::redact::Config,
    /// Where verdicts go; to standard output as JSON lines if nothing is given.
    pub emit: crate::emit::Config,
    /// What people say of verdicts.
    pub feedback: crate::feedback::Config,
    /// GSAR's loop as a service, under `/v1/gsar/runs`.
    pub gsar: crate::gsar::Config,
    /// The HTTP listener for metrics, probes, checks, the verdict feed and the console.
    pub serve: crate::serve::Config,
    /// How many traces are worked on at once, and how the daemon stops.
    pub flow: Flow,
    /// What the daemon says about itself.
    pub log: crate::logging::Config,
    /// Where assayd keeps what must outlive it.
    pub data_dir: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            role: Role::All,
            receive: Default::default(),
            relay: Default::default(),
            spool: Default::default(),
            assemble: Default::default(),
            ask: Default::default(),
            evaluate: Default::default(),
            decide: Default::default(),
            judge: Default::default(),
            score: Default::default(),
            redact: Default::default(),
            emit: Default::default(),
            feedback: Default::default(),
            gsar: Default::default(),
            serve: Default::default(),
            flow: Default::default(),
            log: Default::default(),
            data_dir: PathBuf::from("./assayd-data"),
        }
    }
}

impl Config {
    /// What can be used as it is and will not do what somebody may expect.
    pub fn notes(&self) -> Vec<String> {
        let mut idle = Vec::new();
        for section in [self.evaluate.clone(), self.evaluate.of_sessions()] {
            let evaluators = crate::ask::Evaluators::new(&section);
            if self.judge.model().is_none() {
                idle.extend(evaluators.measured());
                if self.decide.model == crate::decide::ModelName::Embedded {
                    idle.extend(evaluators.general());
                }
            }
        }
        let note = |names: &[std::sync::Arc<str>]| {
            format!(
                "nobody can answer {}: give a decision model that answers any question (decide.model), or a judge",
                names.join(", ")
            )
        };
        let mut notes: Vec<String> = if idle.is_empty() { Vec::new() } else { vec![note(&idle)] };
        if self.judge.model().is_none() && !self.evaluate.prompts().is_empty() {
            notes.push(
                "the prompts of evaluators and metrics are for a judge, and none is configured".to_owned(),
            );
        }
        notes
    }

    /// All cross-field problems at once; none if the configuration can be used.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        self.receive.check(&mut problems);
        self.relay.check(&mut problems);
        self.check_role(&mut problems);
        self.spool.check(&mut problems);
        self.assemble.check(&mut problems);
        self.evaluate.check(&mut problems);
        if self.assemble.sessions.is_none() && self.evaluate.sessions != Default::default() {
            problems.push("evaluate.sessions names what conversations are evaluated for, but none are put together: set assemble.sessions, such as { idle: 30m }".to_owned());
        }
        self.decide.check(&mut problems);
        self.judge.check(&mut problems);
        self.score.check(&mut problems);
        self.redact.check(&mut problems);
        self.emit.check(&mut problems);
        self.feedback.check(&mut problems);
        self.gsar.check(&mut problems);
        self.serve.check(&mut problems);
        self.flow.check(&mut problems);
        self.log.check(&mut problems);
        problems
    }

    fn check_role(&self, problems: &mut Vec<String>) {
        let has_listener = self.receive.grpc.is_some() || self.receive.http.is_some();
        let complaint = match self.role {
            Role::Gateway if !has_listener => {
                "role gateway takes OTLP, but both receive.grpc and receive.http are off"
            }
            Role::Gateway if self.receive.kafka.is_some() => {
                "role gateway does not read Kafka: receive.kafka belongs to workers, relay says where a gateway writes"
            }
            Role::Worker if self.receive.kafka.is_none() => {
                "role worker reads Kafka, but receive.kafka is not set"
            }
            _ => return,
        };
        problems.push(complaint.to_owned());
    }
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Spans in, verdicts out.
    All,
    /// OTLP in, spans to Kafka.
    Gateway,
    /// Spans from Kafka, verdicts out.
    Worker,
}

/// How many traces are worked on at once, and how the daemon stops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// Complete traces that are evaluated at the same time. More wait in the assembler, which then takes no new spans.
    pub concurrency: NonZeroUsize,
    /// How long a stopping daemon waits for open traces to get their verdicts before it gives up (exit code 1). Sinks that are
    /// away are waited for until half of it is over; what they do not take is evaluated again after the next start, if its
    /// source keeps it (a spool, Kafka).
    pub drain: Period,
    /// How often a known true and a known false answer are evaluated, so that alerts see when evaluation has stopped or has
    /// lost its judgement. The decision model alone is asked. `null` means never.
    pub self_check: Option<Period>,
}

impl Flow {
    fn check(&self, problems: &mut Vec<String>) {
        if let Some(period) = self.self_check
            && period < Period::seconds(1)
        {
            problems.push(format!("flow.self_check ({period}) must be at least 1s; null means never"));
        }
    }
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            concurrency: NonZeroUsize::new(256).expect("256 is not zero"),
            drain: Period::seconds(30),
            self_check: Some(Period::seconds(60)),
        }
    }
}
