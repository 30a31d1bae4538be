//! `assayd calibrate`, and what a calibration file changes.

use super::*;

/// Every third record of the fixture: enough to fit to, soon done in an unoptimised build.
fn labels(change: impl Fn(&mut Value)) -> String {
    let all = std::fs::read_to_string(fixture("grounding/labels.jsonl")).unwrap();
    let lines = all.lines().step_by(3).map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        change(&mut record);
        record.to_string()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn calibrate(labels: &str, more: &[&str]) -> (Output, Option<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "labels.jsonl", labels);
    let out = folder.path().join("calibration.json");
    let mut arguments = vec!["calibrate", &path, "--out", out.to_str().unwrap()];
    arguments.extend(more);
    let output = assayd(&arguments);
    let written = std::fs::read_to_string(&out).ok().map(|text| serde_json::from_str(&text).unwrap());
    (output, written)
}

fn check(config: &str) -> Output {
    let context = "Unworn footwear may be returned within 30 days of delivery.";
    assayd(&[
        "check",
        "--config",
        config,
        "--context",
        context,
        "--response",
        "Footwear may be returned within 30 days.",
    ])
}

#[test]
fn human_labels_are_fitted_on_one_split_and_reported_on_the_other_and_verdicts_name_it() {
    let (output, written) = calibrate(&labels(|_| ()), &["--target-accuracy", "0.7", "--weights"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let written = written.unwrap();
    assert_eq!(written["calibrated"], true, "{written}");
    assert_eq!(written["model"], "assayd-starter");
    assert_eq!(written["labeled_by"], json!({"human": 54}));
    assert!(written["temperatures"]["grounding"].as_f64().unwrap() > 0.0);
    let about = &written["report"];
    assert_eq!(about["fitted_on"].as_u64().unwrap() + about["reported_on"].as_u64().unwrap(), 54);
    let answers = &about["report"]["answers"];
    for measure in ["accuracy", "ece", "ece_before", "brier", "brier_before", "kappa", "auroc"] {
        assert!(answers[measure].is_number(), "{measure}: {answers}");
    }
    assert!(answers["auroc"].as_f64().unwrap() > 0.5, "{answers}");
    let told = stdout(&output);
    for wanted in [
        "calibrated: assayd-starter",
        "temperature grounding",
        "kappa",
        "coverage",
        "label.hallucination",
        "false alarms",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    assert!(stderr(&output).contains("100 to 200 tell more"), "{}", stderr(&output));

    let folder = tempfile::tempdir().unwrap();
    let calibration = file(&folder, "calibration.json", &written.to_string());
    let plain = file(&folder, "plain.yaml", "{}");
    let config = file(&folder, "assayd.yaml", &format!("decide: {{ calibration: {calibration} }}\n"));
    let (before, after) = (json_of(&check(&plain)), json_of(&check(&config)));
    let (before, after) = (&before["verdict"], &after["verdict"]);
    let name = after["provenance"]["calibration"].as_str().unwrap();
    assert!(name.starts_with("calibrated:"), "{name}");
    assert_eq!(before["provenance"]["calibration"], Value::Null);
    assert_ne!(before["provenance"]["plan"], after["provenance"]["plan"]);
    if let Some(threshold) = written["thresholds"]["faithful"].as_f64() {
        assert_eq!(after["provenance"]["thresholds"]["label.faithful"], threshold);
    }
    assert_ne!(before["hallucination_probability"], after["hallucination_probability"]);

    let other = file(&folder, "other.json", &written.to_string().replace("assayd-starter", "another"));
    let config = file(&folder, "other.yaml", &format!("decide: {{ calibration: {other} }}\n"));
    let refused = check(&config);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("fitted for another"), "{}", stderr(&refused));
}

#[test]
fn without_human_labels_nothing_is_called_calibrated() {
    let (output, written) =
        calibrate(&labels(|record| record["labeled_by"] = json!("model")), &["--output", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let written = written.unwrap();
    assert_eq!((&written["calibrated"], &written["labeled_by"]), (&json!(false), &json!({"model": 54})));
    assert_eq!(json_of(&output), written);
    assert!(stderr(&output).contains("uncalibrated"), "{}", stderr(&output));
    let folder = tempfile::tempdir().unwrap();
    let calibration = file(&folder, "calibration.json", &written.to_string());
    let config = file(&folder, "assayd.yaml", &format!("decide: {{ calibration: {calibration} }}\n"));
    let verdict = json_of(&check(&config));
    let name = verdict["verdict"]["provenance"]["calibration"].as_str().unwrap();
    assert!(name.starts_with("uncalibrated:"), "{name}");
    // Whoever writes "calibrated" into the file by hand is not believed.
    let forged = file(
        &folder,
        "forged.json",
        &written.to_string().replace("\"calibrated\":false", "\"calibrated\":true"),
    );
    let config = file(&folder, "forged.yaml", &format!("decide: {{ calibration: {forged} }}\n"));
    assert!(stderr(&check(&config)).contains("54 by model"));
}

/// The console's export: a verdict's probability, and what a person said.
fn feedback(count: usize) -> String {
    let line = |n: usize| {
        let (p, label, predicted) = if n.is_multiple_of(2) {
            (0.9, "hallucination", "hallucination")
        } else {
            (0.1, "faithful", "faithful")
        };
        json!({"verdict_id": format!("v{n}"), "trace_id": format!("{n:032x}"), "claim": null, "label": label, "predicted": predicted,
               "hallucination_probability": p, "confidence": 0.8, "labeled_by": "human", "by": "ana", "time": "2026-11-30T08:00:00Z"})
        .to_string()
    };
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn feedback_on_past_verdicts_brings_thresholds_without_a_run_of_the_model() {
    let (output, written) = calibrate(&feedback(60), &["--target-accuracy", "0.9"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let written = written.unwrap();
    assert_eq!((&written["calibrated"], &written["temperatures"]), (&json!(true), &json!({})));
    assert_eq!(written["thresholds"], json!({"hallucination": 0.9, "faithful": 0.9}));
    assert_eq!(written["report"]["report"]["answers"]["kappa"], 1.0);
    // The same seed is the same split, another seed another.
    let part = |seed: &str| {
        calibrate(&feedback(60), &["--seed", seed, "--split", "0.3"]).1.unwrap()["report"]["fitted_on"]
            .clone()
    };
    assert_eq!(part("7"), part("7"));
}

#[test]
fn what_cannot_be_fitted_is_told() {
    let few = calibrate(&feedback(8), &[]);
    assert_eq!((few.0.status.code(), few.1), (Some(1), None));
    assert!(stderr(&few.0).contains("8 graded records are too few"), "{}", stderr(&few.0));
    let wrong = format!("{}\n{}", feedback(30), r#"{"context": "c", "response": "", "label": "fine"}"#);
    let (output, written) = calibrate(&wrong, &[]);
    assert_eq!((output.status.code(), written), (Some(1), None));
    assert!(
        stderr(&output).contains("line 31: label is \"fine\"")
            && stderr(&output).contains("line 31: response"),
        "{}",
        stderr(&output)
    );
    let (output, _) = calibrate(&feedback(30), &["--model", "openai:large"]);
    assert!(stderr(&output).contains("gives no probabilities"), "{}", stderr(&output));
    assert_eq!(calibrate(&feedback(30), &["--split", "1"]).0.status.code(), Some(64));
    assert_eq!(calibrate(&feedback(30), &["--seed", "x"]).0.status.code(), Some(64));
}
