//! What `GET /v1/status` says: who answers, what each evaluator did, and the configuration in force.

use std::sync::Arc;

use serde_json::{Map, json};

use super::Addresses;
use super::tally::{JudgeRow, Row};
use crate::config::Config;
use crate::decide::{Calibration, Desk, Health};
use crate::domain::Json;
use crate::find;
use crate::judge::Judge;
use crate::score::Plan;

/// Decision model, judge, plan and evaluators.
pub(super) fn of(
    desk: &Desk,
    judge: Option<(&dyn Judge, JudgeRow)>,
    plan: &Plan,
    rows: &[(Arc<str>, Row)],
) -> Json {
    let info = desk.info();
    let calibration = match &info.calibration {
        Calibration::Labelled { data } => format!("on {data}"),
        Calibration::Uncalibrated => "uncalibrated".to_owned(),
    };
    let can = &info.capabilities;
    let evaluators: Map<String, Json> =
        rows.iter().map(|(name, row)| (name.to_string(), evaluator(row))).collect();
    json!({
        "plan": plan.hash,
        "decider": {
            "name": info.name,
            "revision": info.revision,
            "health": health(desk.health()),
            "calibration": calibration,
            "answers": { "grounding": can.grounding, "relevance": can.relevance, "general": can.general },
        },
        "judge": judge.map(|(judge, row)| json!({
            "model": judge.model(),
            "price": judge.pricing().map(|pricing| json!({
                "usd_per_million_input": pricing.price.usd_per_million_input,
                "usd_per_million_output": pricing.price.usd_per_million_output,
                "basis": pricing.basis.as_str(),
            })),
            // Pictures, sounds and files are placeholders to every judge.
            "reads": ["text"],
            "budget": judge.allowances().iter().map(|allowance| json!({
                "window": allowance.window.to_string(),
                "limit_usd": allowance.limit_usd,
                "spent_usd": allowance.spent_usd,
                "resets_in_seconds": allowance.resets_in.as_secs(),
            })).collect::<Vec<_>>(),
            "status": if row.trouble.is_some() { "failing" } else if row.asked > 0 { "healthy" } else { "never_ran" },
            "trouble": row.trouble,
            "asked": row.asked,
            "failed": row.failed,
        })),
        "evaluators": evaluators,
    })
}

/// The whole of it: `work` is what [`of`] says.
pub(super) fn whole(mut work: Json, config: &Config, addresses: Addresses) -> Json {
    work["receivers"] = json!({
        "grpc": addresses.grpc.map(|address| address.to_string()),
        "http": addresses.http.map(|address| address.to_string()),
        "acknowledge": config.receive.acknowledge,
    });
    work["config"] = withheld(serde_json::to_value(config).unwrap_or_default());
    work
}

fn evaluator(row: &Row) -> Json {
    json!({
        "status": row.status(),
        "trouble": row.trouble,
        "in_flight": row.in_flight,
        "seen": row.seen,
        "matched": row.matched(),
        "sampled": row.sampled(),
        "evaluated": row.evaluated,
        "unanswered": row.unanswered,
        "failed": row.failed,
        "skipped": row.skipped,
        "passed": row.passed,
        "flagged": row.flagged,
    })
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Starting => "starting",
        Health::Ready => "ready",
        Health::Failing => "failing",
        Health::Unreachable => "unreachable",
        Health::Stopped => "stopped",
    }
}

/// Secrets are named in a configuration and never written, but for those that somebody put into a URL or a free text.
fn withheld(config: Json) -> Json {
    match config {
        Json::String(text) => {
            let found = find::find(&text, &find::Kind::SECRETS);
            Json::String(find::masked(&text, &found))
        }
        Json::Array(items) => items.into_iter().map(withheld).collect(),
        Json::Object(members) => {
            members.into_iter().map(|(key, value)| (key, withheld(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        let config = json!({"judge": {"openai": {"url": "https://user:h7Kq2wzz@judge.internal/v1", "key": {"env": "JUDGE_KEY"}}}});
        let text = withheld(config).to_string();
        assert!(
            !text.contains("h7Kq2wzz")
                && text.contains("[PASSWORD]@judge.internal")
                && text.contains("JUDGE_KEY"),
            "{text}"
        );
    }

    #[test]
    fn the_effective_configuration_holds_every_section() {
        let addresses = Addresses { grpc: None, http: None, admin: ([127, 0, 0, 1], 1).into() };
        let status = whole(json!({}), &Config::default(), addresses);
        assert_eq!(status["config"]["evaluate"]["grounding"], true);
        assert_eq!(status["receivers"]["grpc"], Json::Null);
    }
}
