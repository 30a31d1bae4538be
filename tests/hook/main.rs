//! `assayd hook` as Claude Code and Codex run it: their own recorded input on standard input, their own transcripts.

mod variants;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn hook(input: &str, arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_assayd"))
        .arg("hook")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The reason, if the answer was sent back.
fn reason(output: &Output) -> Option<String> {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    if text.trim().is_empty() {
        return None;
    }
    let decision: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(decision["decision"], "block", "{decision}");
    Some(decision["reason"].as_str().unwrap().to_owned())
}

fn warning(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/transcripts")
}

/// Every recorded case: its name, what is expected, and the hook's input with the transcript's real path in it.
fn cases() -> Vec<(String, Value, Value)> {
    let manifest = fs::read_to_string(folder().join("MANIFEST.jsonl")).unwrap();
    let cases = manifest.lines().map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        let file = |kind: &str| folder().join(case["files"][kind].as_str().unwrap());
        let mut input: Value =
            serde_json::from_str(&fs::read_to_string(file("stop_hook_stdin")).unwrap()).unwrap();
        input["transcript_path"] = json!(file("transcript"));
        (case["case"].as_str().unwrap().to_owned(), case["expected"].clone(), input)
    });
    cases.collect()
}

fn case(name: &str) -> Value {
    cases().into_iter().find(|(case, ..)| case == name).unwrap().2
}

#[test]
fn every_recorded_case_ends_as_expected() {
    let mut wrong = Vec::new();
    for (name, expected, input) in cases() {
        let output = hook(&input.to_string(), &[]);
        let reason = reason(&output);
        let has_output = !expected["tool_outputs"].as_array().unwrap().is_empty();
        let wanted = expected["faithful"] == false && has_output && input["stop_hook_active"] == false;
        if reason.is_some() != wanted {
            wrong.push((name, reason));
            continue;
        }
        let Some(reason) = reason else { continue };
        // The claim is named, and not the whole answer with it.
        let named = expected["wrong_sentences"].as_array().unwrap().iter().any(|sentence| {
            let sentence: String = sentence.as_str().unwrap().chars().take(150).collect();
            reason.contains(sentence.as_str())
        });
        assert!(named && reason.chars().count() < 900, "{name}: {reason}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_reason_names_the_claim_and_what_the_tool_says() {
    let reason = reason(&hook(&case("claude-wrong-number").to_string(), &[])).unwrap();
    assert!(
        reason.contains("90 days") && reason.contains("30 days") && reason.contains("search_policy"),
        "{reason}"
    );
    assert!(reason.contains("no 90"), "{reason}");
    assert!(!reason.contains("was delivered on"), "the claim that stands is not named: {reason}");
}

#[test]
fn an_answer_is_never_sent_back_twice() {
    let mut input = case("codex-wrong-number");
    assert!(reason(&hook(&input.to_string(), &[])).is_some());
    input["stop_hook_active"] = json!(true);
    assert_eq!(reason(&hook(&input.to_string(), &[])), None);
    // The transcript tells it too, and the second answer may still be wrong.
    for (case_name, wrong) in
        [("codex-blocked.2", "codex-blocked.1"), ("claude-blocked.2", "claude-blocked.1")]
    {
        let mut second = case(case_name);
        second["stop_hook_active"] = json!(false);
        second["last_assistant_message"] = case(wrong)["last_assistant_message"].clone();
        assert_eq!(reason(&hook(&second.to_string(), &[])), None, "{case_name}");
    }
}

#[test]
fn the_answer_is_read_from_the_transcript_where_the_input_has_none() {
    for name in ["claude-wrong-number", "codex-wrong-number"] {
        let mut input = case(name);
        input["last_assistant_message"] = Value::Null;
        assert!(reason(&hook(&input.to_string(), &[])).is_some(), "{name}");
    }
}

#[test]
fn a_transcript_that_is_still_written_or_large_is_read_from_its_end() {
    let scratch = tempfile::tempdir().unwrap();
    for name in ["claude-wrong-number", "codex-wrong-number"] {
        let mut input = case(name);
        let whole = fs::read_to_string(input["transcript_path"].as_str().unwrap()).unwrap();
        let path = scratch.path().join(name);
        let filler = json!({"type": "api-request-blob", "x": "é".repeat(50_000)}).to_string();
        let mut file = fs::File::create(&path).unwrap();
        for _ in 0..100 {
            writeln!(file, "{filler}").unwrap();
        }
        write!(file, "not json\n{{}}\n[1]\n\n{whole}{{\"type\":\"assistant\",\"mess").unwrap();
        input["transcript_path"] = json!(path);
        assert!(reason(&hook(&input.to_string(), &[])).is_some(), "{name}");
    }
}

#[test]
fn what_goes_wrong_lets_the_answer_out_with_a_warning() {
    let mut gone = case("claude-wrong-number");
    gone["transcript_path"] = json!("/no/such/transcript.jsonl");
    assert!(warning(&hook(&gone.to_string(), &[])).contains("/no/such/transcript.jsonl"));
    gone["transcript_path"] = Value::Null;
    assert!(warning(&hook(&gone.to_string(), &[])).contains("transcript"));
    for input in ["", "prose", "[]", "{\"hook_event_name\":\"PreToolUse\"}"] {
        assert!(warning(&hook(input, &[])).contains("not checked"), "{input}");
    }
    let good = case("claude-wrong-number").to_string();
    for arguments in [
        ["--judge", "embedded"],
        ["--model", "/no/such/model"],
        ["--config", "/no/such/file"],
        ["--timeout", "0s"],
        ["--bogus", "x"],
    ] {
        assert!(warning(&hook(&good, &arguments)).contains("not checked"), "{arguments:?}");
    }
    // An endpoint that is not there: every claim stays unanswered, which is no reason to send the answer back.
    assert!(
        !warning(&hook(&good, &["--model", "openai:x@http://127.0.0.1:9/v1", "--timeout", "20s"])).is_empty()
    );
}

#[test]
fn the_most_recent_tool_output_is_kept() {
    let mut input = case("claude-wrong-number");
    // The last 400 characters hold the policy's 30 days; the order, which came before, is not needed to see the error.
    assert!(reason(&hook(&input.to_string(), &["--max-context-chars", "400"])).unwrap().contains("30 days"));
    assert_eq!(reason(&hook(&input.to_string(), &["--max-context-chars", "0"])), None, "nothing is known");
    input["last_assistant_message"] = json!("Your order NW-48213 was delivered on 6 November 2026.");
    assert_eq!(
        reason(&hook(&input.to_string(), &["--max-context-chars", "400"])),
        None,
        "what was cut may hold it"
    );
}
