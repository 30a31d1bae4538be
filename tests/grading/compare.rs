//! `assayd compare`.

use super::*;

/// Three states with a grounding question, which the embedded model answers, and another, which it does not.
fn items() -> String {
    let of = |state: &str, claim: &str| {
        json!({
            "state": state,
            "questions": {
                "stands": {
                    "type": "choice",
                    "instructions": format!("How does the state stand to the claim?\nClaim: {claim}"),
                    "criteria": {"grounded": "It says so.", "ungrounded": "It does not say.", "contradicted": "It says otherwise."},
                },
                "angry": {"type": "noul", "instructions": "Is it angry?"},
            },
            "labels": {"stands": "grounded", "angry": false},
        })
        .to_string()
    };
    [
        of(
            "Unworn footwear may be returned within 30 days of delivery.",
            "Footwear may be returned within 30 days.",
        ),
        of("The order was delivered on 6 November 2026.", "The order was delivered on 6 November 2026."),
        of("The parcel is in Oslo.", "The parcel is in customs in Oslo since Tuesday, the driver says."),
    ]
    .join("\n")
}

fn row(report: &Value, threshold: f64) -> Value {
    let rows = report["models"][0]["thresholds"].as_array().unwrap();
    rows.iter().find(|row| row["threshold"] == threshold).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_thresholds_and_the_judge_are_compared_and_what_is_saved_is_not_asked_again() {
    let judge = First::start().await;
    let folder = tempfile::tempdir().unwrap();
    let items = file(&folder, "items.jsonl", &items());
    let config = file(
        &folder,
        "assayd.yaml",
        "judge: { prices: { judge-large: { usd_per_million_input: 2.0, usd_per_million_output: 10.0 } } }\n",
    );
    let saved = folder.path().join("runs.jsonl").display().to_string();
    let backend = judge.backend();
    let mut arguments = words(&[
        "compare",
        &items,
        "--model",
        "embedded",
        "--judge",
        &backend,
        "--thresholds",
        "0,0.5,1",
        "--output",
        "json",
        "--config",
        &config,
    ]);
    let once = beside([&arguments[..], &words(&["--save", &saved])].concat()).await;
    assert!(once.status.success(), "{}", stderr(&once));
    let report = json_of(&once);
    assert_eq!((&report["items"], &report["questions"]), (&json!(3), &json!(6)));
    let model = &report["models"][0];
    assert_eq!((&model["model"], &model["answered"]), (&json!("assayd-starter"), &json!(0.5)));
    assert!(model["ece"].is_number() && model["brier"].is_number(), "{model}");
    assert_eq!(report["judge"]["accuracy"], 1.0);
    assert_eq!(report["judge"]["ece"], Value::Null, "a pick has no probabilities");
    // At 0 all that the model answers is settled; at 1 the judge, which is always right, answers nearly all.
    assert_eq!(
        (&row(&report, 0.0)["settled"], &row(&report, 0.0)["judge_share"]),
        (&json!(0.5), &json!(0.5))
    );
    assert_eq!(row(&report, 1.0)["cascade_accuracy"], 1.0);
    assert!(row(&report, 1.0)["judge_share"].as_f64() >= row(&report, 0.5)["judge_share"].as_f64());
    // 1000 tokens in and 100 out, for each item: an item has a question for the judge at every threshold.
    let cost = row(&report, 0.0)["usd_per_check"].as_f64().unwrap();
    assert!((cost - 0.003).abs() < 1e-9, "{cost}");
    assert_eq!(judge.calls(), 3, "one call for each item, with all its questions");
    assert!(stderr(&once).contains("left 3 of 6 questions open: unsupported"), "{}", stderr(&once));

    assert_eq!(std::fs::read_to_string(&saved).unwrap().lines().count(), 6);
    arguments.extend(words(&["--merge", &saved]));
    let again = beside(arguments).await;
    assert_eq!(json_of(&again), report);
    assert_eq!(judge.calls(), 3, "nothing was asked again");
    let table =
        beside(words(&["compare", &items, "--model", "embedded", "--model", &backend, "--merge", &saved]))
            .await;
    assert!(
        stdout(&table).contains("threshold") && stdout(&table).contains("openai:judge-large"),
        "{}",
        stdout(&table)
    );
    assert_eq!(judge.calls(), 3);
}

#[test]
fn a_run_that_was_broken_off_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let items = file(&folder, "items.jsonl", &items());
    let saved = folder.path().join("runs.jsonl");
    let arguments =
        ["compare", &items, "--model", "embedded", "--save", saved.to_str().unwrap(), "--output", "json"];
    let whole = json_of(&assayd(&arguments));
    let text = std::fs::read_to_string(&saved).unwrap();
    std::fs::write(&saved, &text[..text.len() - 40]).unwrap();
    let mended = json_of(&assayd(&arguments));
    assert_eq!(mended["models"][0]["accuracy"], whole["models"][0]["accuracy"]);
    assert_eq!(
        std::fs::read_to_string(&saved).unwrap().lines().count(),
        4,
        "the broken line and the new one"
    );
    let other = file(&folder, "other.jsonl", "{\"not\": \"a record\"}\n");
    let refused = assayd(&["compare", &items, "--model", "embedded", "--merge", &other]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("other.jsonl: line 1"), "{}", stderr(&refused));
}

#[test]
fn every_wrong_line_is_told_and_nothing_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let good = items();
    let wrong = [
        good.lines().next().unwrap(),
        "{not json",
        r#"{"state": "s", "questions": {"q": {"type": "noul", "instructions": "?"}}, "labels": {"q": "maybe", "r": true}}"#,
        r#"{"state": "s", "questions": {"q": {"type": "choice", "instructions": "?", "criteria": ["a", "b"]}}, "labels": {"q": "a"}}"#,
        r#"{"context": "c", "response": "r", "label": "faithful"}"#,
    ]
    .join("\n");
    let path = file(&folder, "items.jsonl", &wrong);
    let refused = assayd(&["compare", &path, "--model", "embedded"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
    let told = stderr(&refused);
    for wanted in [
        "line 2: it is not JSON",
        "line 3: labels.q: \"maybe\" is neither true nor false",
        "line 3: labels.r",
        "line 4: questions.q.criteria",
        "line 5: ",
        "5 mistakes",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    let rest = assayd(&["compare", &path, "--model", "embedded", "--skip-bad", "--output", "json"]);
    assert_eq!(json_of(&rest)["items"], 1);
    for arguments in [
        vec!["compare", &path],
        vec!["compare", &path, "--model", ""],
        vec!["compare", &path, "--model", "systemone:nowhere"],
    ] {
        assert_eq!(assayd(&arguments).status.code(), Some(64), "{arguments:?}");
    }
    let judge = assayd(&["compare", &path, "--skip-bad", "--model", "embedded", "--judge", "embedded"]);
    assert!(stderr(&judge).contains("a judge is openai:MODEL"), "{}", stderr(&judge));
    assert_eq!(
        assayd(&["compare", &path, "--skip-bad", "--model", "embedded", "--thresholds", "7"]).status.code(),
        Some(64)
    );
}
