//! Transcripts that nobody recorded: other kinds of records, languages, sizes, orders, and what is broken.

use super::*;

const POLICY: &str = "Returns handbook: Unworn footwear may be returned within 30 days of delivery for a full refund. \
                      Return shipping costs EUR 4.95.";
const WRONG: &str = "Unworn footwear can be returned within 90 days of delivery.";
const RIGHT: &str = "Unworn footwear can be returned within 30 days of delivery.";

fn user(content: Value) -> Value {
    json!({ "type": "user", "promptId": "p1", "message": { "role": "user", "content": content } })
}

fn result(id: &str, content: Value) -> Value {
    user(json!([{ "type": "tool_result", "tool_use_id": id, "content": content }]))
}

fn failed(id: &str, text: &str) -> Value {
    user(json!([{ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true }]))
}

fn assistant(id: &str, block: Value) -> Value {
    json!({ "type": "assistant", "message": { "id": id, "role": "assistant", "content": [block] } })
}

fn call(id: &str, tool: &str) -> Value {
    assistant(
        "m1",
        json!({ "type": "tool_use", "id": id, "name": tool, "input": { "command": "cat policy" } }),
    )
}

fn said(text: &str) -> Value {
    assistant("m9", json!({ "type": "text", "text": text }))
}

fn item(payload: Value) -> Value {
    json!({ "timestamp": "2026-11-30T09:49:39Z", "type": "response_item", "payload": payload })
}

fn message(role: &str, text: &str) -> Value {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    item(json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] }))
}

fn output(id: &str, output: Value) -> [Value; 2] {
    [
        item(
            json!({ "type": "function_call", "name": "shell", "arguments": "{\"command\": [\"cat\"]}", "call_id": id }),
        ),
        item(json!({ "type": "function_call_output", "call_id": id, "output": output })),
    ]
}

/// Claude Code's: a question, a tool's output, and an answer.
fn claude(evidence: Value, answer: &str) -> Vec<Value> {
    vec![user(json!("How long?")), call("t1", "Bash"), result("t1", evidence), said(answer)]
}

/// Codex': the same.
fn codex(evidence: Value, answer: &str) -> Vec<Value> {
    let [called, told] = output("c1", evidence);
    vec![message("user", "How long?"), called, told, message("assistant", answer)]
}

/// Whether an answer at the end of these lines is sent back.
fn is_blocked(lines: &[String], answer: Option<&str>) -> bool {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    lines.iter().for_each(|line| writeln!(file, "{line}").unwrap());
    let input = json!({
        "session_id": "s", "transcript_path": file.path(), "cwd": "/", "hook_event_name": "Stop",
        "stop_hook_active": false, "last_assistant_message": answer,
    });
    reason(&hook(&input.to_string(), &[])).is_some()
}

fn lines(records: &[Value]) -> Vec<String> {
    records.iter().map(Value::to_string).collect()
}

fn check(cases: &[(&str, Vec<Value>, &str, bool)]) {
    let wrong: Vec<&str> = cases
        .iter()
        .filter(|(_, records, answer, wanted)| is_blocked(&lines(records), Some(answer)) != *wanted)
        .map(|(name, ..)| *name)
        .collect();
    assert!(wrong.is_empty(), "these ended otherwise: {wrong:#?}");
}

#[test]
fn plain_answers_are_told_apart_whatever_form_the_tools_output_has() {
    let blocks = json!([{ "type": "text", "text": POLICY }]);
    let inner = json!(json!({ "output": POLICY, "metadata": { "exit_code": 0 } }).to_string());
    let headed = json!(format!("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n{POLICY}"));
    let texts = json!([{ "type": "input_text", "text": POLICY }]);
    let custom = |answer: &str| {
        vec![
            message("user", "How long?"),
            item(
                json!({ "type": "custom_tool_call", "name": "exec", "input": "cat policy", "call_id": "c1" }),
            ),
            item(json!({ "type": "custom_tool_call_output", "call_id": "c1", "output": POLICY })),
            message("assistant", answer),
        ]
    };
    let bare =
        |answer: &str| codex(json!(POLICY), answer).iter().map(|record| record["payload"].clone()).collect();
    check(&[
        ("a text, wrong", claude(json!(POLICY), WRONG), WRONG, true),
        ("a text, right", claude(json!(POLICY), RIGHT), RIGHT, false),
        ("blocks, wrong", claude(blocks.clone(), WRONG), WRONG, true),
        ("blocks, right", claude(blocks, RIGHT), RIGHT, false),
        ("JSON around it, wrong", codex(inner.clone(), WRONG), WRONG, true),
        ("JSON around it, right", codex(inner, RIGHT), RIGHT, false),
        ("a header before it, wrong", codex(headed.clone(), WRONG), WRONG, true),
        ("a header before it, right", codex(headed, RIGHT), RIGHT, false),
        ("content items, wrong", codex(texts, WRONG), WRONG, true),
        ("a custom tool, wrong", custom(WRONG), WRONG, true),
        ("a custom tool, right", custom(RIGHT), RIGHT, false),
        ("items without records around them", bare(WRONG), WRONG, true),
    ]);
}

#[test]
fn other_languages_have_figures_too() {
    let german = "Ungetragene Schuhe können innerhalb von 30 Tagen nach Lieferung zurückgegeben werden.";
    let japanese = "未使用の靴は配達から30日以内に返品できます。";
    check(&[
        ("German, wrong", claude(json!(german), "x"), &german.replace("30", "90"), true),
        ("German, right", claude(json!(german), "x"), german, false),
        ("Japanese, wrong", claude(json!(japanese), "x"), &japanese.replace("30", "90"), true),
        ("Japanese, right", claude(json!(japanese), "x"), japanese, false),
    ]);
}

#[test]
fn figures_that_follow_from_the_output_are_no_reason() {
    let files = "src/a.rs\nsrc/b.rs\nsrc/c.rs\nsrc/d.rs\n";
    let orders = r#"{"orders": [{"id": 1, "eur": 10.5}, {"id": 2, "eur": 20.0}, {"id": 3, "eur": 4.5}]}"#;
    let tests = "running 12 tests\ntest result: ok. 12 passed; 0 failed; 0 ignored";
    check(&[
        ("a count", claude(json!(files), "x"), "There are 4 files in src.", false),
        ("a wrong count", claude(json!(files), "x"), "There are 6 files in src.", true),
        ("a sum", claude(json!(orders), "x"), "The 3 orders add up to 35 euros.", false),
        ("a wrong sum", claude(json!(orders), "x"), "The 3 orders add up to 45 euros.", true),
        ("a share", claude(json!("errors: 5\nrequests: 200"), "x"), "The error rate is 2.5%.", false),
        ("a wrong share", claude(json!("errors: 5\nrequests: 200"), "x"), "The error rate is 7.5%.", true),
        ("a tool's own figures", claude(json!(tests), "x"), "All 12 tests pass.", false),
        ("others", claude(json!(tests), "x"), "All 14 tests pass.", true),
    ]);
}

#[test]
fn turns_sub_agents_and_what_cannot_be_read_count_as_what_they_are() {
    let side = |mut record: Value| {
        record["isSidechain"] = json!(true);
        record
    };
    let [second, told] = output("c2", json!("Shipping: EUR 4.95"));
    let mut turns = codex(json!(POLICY), RIGHT);
    turns.extend([message("user", "And shipping?"), second, told, message("assistant", "x")]);
    let mut search = codex(json!(POLICY), WRONG);
    search.splice(1..3, [item(json!({ "type": "web_search_call", "action": { "query": "returns" } }))]);
    let only_side =
        vec![user(json!("q")), side(call("t1", "Bash")), side(result("t1", json!(POLICY))), said(WRONG)];
    let image = claude(json!([{ "type": "image", "source": { "data": "…" } }]), WRONG);
    let lists = vec![
        user(json!("q")),
        call("t1", "TodoWrite"),
        result("t1", json!("Todos have been modified")),
        said(WRONG),
    ];
    let missing = vec![
        user(json!("q")),
        call("t1", "Bash"),
        failed("t1", "cat: policy: No such file or directory"),
        said("x"),
    ];
    check(&[
        ("the second turn, wrong", turns.clone(), "Return shipping costs EUR 9.95.", true),
        (
            "the second turn, with what the first brought",
            turns,
            "Shipping costs EUR 4.95, within 30 days.",
            false,
        ),
        ("a search whose result is not recorded", search, WRONG, false),
        ("only a sub-agent had tools", only_side, WRONG, false),
        ("an image", image, WRONG, false),
        ("bookkeeping alone", lists, WRONG, false),
        (
            "a failure that is told",
            missing.clone(),
            "The file policy does not exist, so I cannot say how long.",
            false,
        ),
        ("a figure in spite of a failure", missing, WRONG, true),
        ("nothing to check", claude(json!(POLICY), "x"), "Done.", false),
        ("a question back", claude(json!(POLICY), "x"), "Do you want me to go on?", false),
    ]);
}

#[test]
fn huge_output_before_the_evidence_and_after_it_is_cut_where_it_should_be() {
    let noise = |count: usize| {
        (0..count).flat_map(|at| {
            let id = format!("n{at}");
            [call(&id, "Bash"), result(&id, json!(format!("file {at} lorem ipsum\n").repeat(2000)))]
        })
    };
    let mut before = vec![user(json!("How long?"))];
    before.extend(noise(20));
    before.extend([call("t1", "Bash"), result("t1", json!(POLICY)), said(WRONG)]);
    let mut after = claude(json!(POLICY), RIGHT);
    after.splice(3..3, noise(20));
    check(&[
        ("noise before it, wrong", before, WRONG, true),
        ("the evidence is cut off, right", after, RIGHT, false),
    ]);
}

#[test]
fn broken_lines_and_unknown_kinds_are_passed_over() {
    let mut broken: Vec<String> =
        ["{\"type\":\"user\",\"mess", "\u{0}\u{1}", "null", "[]", "\"x\"", "{\"type\":12}"]
            .map(str::to_owned)
            .into();
    broken.extend(lines(&claude(json!(POLICY), WRONG)));
    broken.insert(8, "{\"type\":\"brand-new\",\"message\":7}".to_owned());
    broken.push("{{{".to_owned());
    assert!(is_blocked(&broken, Some(WRONG)));
    assert!(is_blocked(&broken, None), "the answer is read from the transcript");
    let mut other = codex(json!(POLICY), WRONG);
    other.insert(0, json!({ "type": "compacted", "payload": { "message": "summary" } }));
    other.insert(2, item(json!({ "type": "brand_new_call", "call_id": "x" })));
    other.insert(3, json!({ "type": "brand_new", "payload": {} }));
    assert!(is_blocked(&lines(&other), Some(WRONG)));
}
