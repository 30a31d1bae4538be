//! The decision model fails. In this process, so that a script can play the model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use assayd::config::Config;
use assayd::decide::{self, DecideError, Reply, Scripted};
use assayd::domain::{Decision, Inquiry, Period};
use assayd::emit::JsonlConfig;
use assayd::pipeline::Ended;
use assayd::receive::Grpc;

use super::running::Running;
use super::traffic::{Sender, all_have_verdicts, repeats_agree, trace};

fn decided(inquiry: &Inquiry, probability: f64) -> Reply {
    let decisions = inquiry.questions.iter().map(|question| {
        let labels = question.kind.labels();
        let rest = (1.0 - probability) / (labels.len() - 1) as f64;
        let probabilities =
            labels.iter().map(|label| if label == "grounded" { probability } else { rest }).collect();
        Ok(Decision { probabilities, tokens: 1 })
    });
    Reply { decisions: decisions.collect(), input_tokens: 1, truncated: false }
}

/// Fails in every way that a model can, then works, again and again.
fn moody(calls: &AtomicU32, inquiry: &Inquiry) -> Result<Reply, DecideError> {
    match calls.fetch_add(1, Ordering::Relaxed) % 6 {
        0 => Err(DecideError::NotFinite),
        1 => panic!("a panic that this test wants"),
        2 => Ok(Reply { decisions: Vec::new(), input_tokens: 1, truncated: false }),
        3 => Ok(decided(inquiry, f64::NAN)),
        4 => {
            std::thread::sleep(Duration::from_millis(300));
            Ok(decided(inquiry, 0.98))
        }
        _ => Ok(decided(inquiry, 0.98)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_model_that_fails_in_any_way_makes_no_score_and_loses_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    let free = "127.0.0.1:0".parse().unwrap();
    config.receive.grpc = Some(Grpc { listen: free });
    config.receive.http = None;
    config.serve.listen = free;
    config.assemble.root_grace = Period::millis(50);
    config.data_dir = folder.path().join("data");
    config.emit.jsonl =
        Some(JsonlConfig { path: folder.path().join("verdicts.jsonl"), ..JsonlConfig::default() });
    let calls = Arc::new(AtomicU32::new(0));
    let desk =
        decide::start_with(Scripted::new(move |inquiry: &Inquiry| moody(&calls, inquiry)), &config.decide)
            .unwrap();
    let daemon = Running::start(config, desk).await;
    let endpoint = format!("http://{}", daemon.at.grpc.unwrap());

    let mut sender = Sender::new(endpoint);
    let mut acknowledged = std::collections::BTreeSet::new();
    for number in 0..60 {
        let (id, request) = trace(number);
        sender.deliver(&request).await;
        acknowledged.insert(id);
    }
    let verdicts = all_have_verdicts(folder.path(), &acknowledged).await;
    assert_eq!(daemon.stop().await, Ended::Drained);
    assert_eq!(verdicts.len(), 60, "one verdict each");
    repeats_agree(&verdicts);
    let mut outcomes: BTreeMap<&str, u32> = BTreeMap::new();
    for verdict in &verdicts {
        let outcome = verdict["outcome"].as_str().unwrap();
        *outcomes.entry(outcome).or_default() += 1;
        match outcome {
            "scored" => assert!(verdict["hallucination_probability"].is_number(), "{verdict}"),
            "failed" => {
                assert!(verdict["grounding"].is_null() && verdict["label"].is_null(), "no score: {verdict}");
                assert_eq!(verdict["reason"], "decider_failed");
            }
            other => panic!("{other}: {verdict}"),
        }
    }
    assert!(outcomes.len() == 2 && outcomes["scored"] >= 10, "some of both: {outcomes:?}");
}
