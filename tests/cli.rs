//! The program as its users meet it: arguments, exit codes, signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

fn assayd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_assayd")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces").join(name).display().to_string()
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        "demo",
        "serve",
        "replay",
        "convert",
        "ask",
        "check",
        "hook",
        "compare",
        "calibrate",
        "model",
        "config",
    ] {
        let output = assayd(&[command, "--help"]);
        assert!(output.status.success(), "{command}");
        assert!(stdout(&output).contains(&format!("assayd {command}")), "{command}: {}", stdout(&output));
    }
}

#[test]
fn a_wrong_configuration_ends_with_64_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "assayd.yaml", "assemble:\n  root_grace: 2s\n  idel: 30s\n");
    for arguments in [vec!["config", "check"], vec!["serve", "--config"]] {
        let mut arguments = arguments;
        arguments.push(path.to_str().unwrap());
        let output = assayd(&arguments);
        assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("idel") && stderr(&output).contains("assayd.yaml"),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(assayd(&["serve", "--no-such-flag"]).status.code(), Some(64));
    assert_eq!(assayd(&["config", "explain", "assemble.idel"]).status.code(), Some(64));
}

#[test]
fn a_configuration_that_can_be_used_is_called_fine() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    for name in ["assayd.yaml", "minimal.yaml", "kafka.yaml", "gateway.yaml", "evaluators.yaml"] {
        let output = assayd(&["config", "check", shipped.join(name).to_str().unwrap()]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
    }
}

#[test]
fn check_says_supported_unsupported_or_cannot_say_by_exit_code() {
    let context = "Unworn footwear may be returned within 30 days of delivery for a full refund.";
    let same = assayd(&["check", "--context", context, "--response", context]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&same)).unwrap();
    assert_eq!(report["faithful"].as_bool().map(|yes| i32::from(!yes)), same.status.code(), "{report}");
    assert_eq!(report["verdict"]["outcome"], "scored");
    assert_eq!(same.status.code(), Some(0), "{report}");
    let other = assayd(&[
        "check",
        "--context",
        context,
        "--response",
        "The moon is made of green cheese from Wisconsin.",
    ]);
    assert_eq!(other.status.code(), Some(1), "{}", stdout(&other));
    assert_eq!(assayd(&["check", "--context", context]).status.code(), Some(2), "no response");
    assert_eq!(assayd(&["check"]).status.code(), Some(2));
    assert_eq!(assayd(&["check", "--context", "@/no/such/file", "--response", "x"]).status.code(), Some(2));
}

#[test]
fn a_bad_file_is_named_and_the_others_are_still_converted() {
    let folder = tempfile::tempdir().unwrap();
    let bad = file(&folder, "bad.json", "{\"resourceSpans\": [");
    let output = assayd(&["convert", bad.to_str().unwrap(), &fixture("strands/s01.otlp.pb")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("bad.json"), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 1);
}

#[test]
fn replay_gives_a_verdict_for_each_trace() {
    let output = assayd(&["replay", &fixture("strands/s02.otlp.pb"), &fixture("strands/s11.otlp.pb")]);
    assert!(output.status.success(), "{}", stderr(&output));
    let verdicts: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(verdicts.len(), 2);
    assert!(verdicts.iter().any(|verdict| verdict["outcome"] == "scored"));
    assert!(verdicts.iter().any(|verdict| verdict["reason"] == "no_answer"));
    let table = assayd(&["replay", "--output", "table", &fixture("strands/s02.otlp.pb")]);
    assert_eq!(stdout(&table).lines().count(), 2, "{}", stdout(&table));
}

#[test]
fn replay_explains_which_evaluators_would_be_asked_and_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "evaluate: { use: [toxicity, tool_choice], evaluators: { toxicity: { match: { service: 'nobody-*' } } } }\n";
    let config = file(&folder, "assayd.yaml", yaml);
    let config = config.to_str().unwrap();
    let (told, untold) = (fixture("strands/s02.otlp.pb"), fixture("strands/s11.otlp.pb"));
    let output = assayd(&["replay", "--explain", "--config", config, &told, &untold]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let asked = lines.iter().find(|line| line["skipped"].is_null()).unwrap();
    assert_eq!(asked["evaluators"]["grounding"]["asked"], true);
    assert_eq!(asked["evaluators"]["toxicity"]["reason"], "not_matched");
    assert_eq!(asked["evaluators"]["tool_choice"]["asked"], true);
    assert!(lines.iter().any(|line| line["skipped"] == "no_answer"));
    let table = assayd(&["replay", "--explain", "--output", "table", "--config", config, &told]);
    assert!(stdout(&table).contains("and match wants \"nobody-*\""), "{}", stdout(&table));
}

#[test]
fn evaluators_that_nobody_can_answer_are_noted_by_a_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "idle.yaml", "evaluate: { use: [toxicity, loop, context_relevance] }\n");
    let output = assayd(&["config", "check", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("nobody can answer toxicity: give a decision model"),
        "{}",
        stderr(&output)
    );
    let catalogue = assayd(&["config", "evaluators"]);
    assert!(stdout(&catalogue).contains("#### `prompt_injection`"));
}

#[test]
fn a_wrong_evaluator_ends_with_64_and_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "wrong.yaml", "evaluate: { use: [toxcity, pormpt_injection] }\n");
    let output = assayd(&["config", "check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(64));
    let text = stderr(&output);
    assert!(
        text.contains("did you mean toxicity?") && text.contains("did you mean prompt_injection?"),
        "{text}"
    );
}

#[test]
fn a_wrong_template_is_found_by_the_check_and_ends_every_command_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let template = file(&folder, "tone.jinja", "{{ fence }} {{ evidence }}");
    let yaml = format!(
        "judge: {{ openai: {{ url: http://127.0.0.1:9/v1, model: m }} }}\nevaluate: {{ evaluators: {{ tone: {{ type: noul, instructions: x, prompt: {0} }}, \
         other: {{ type: noul, instructions: y, prompt: {0}.missing }} }} }}\n",
        template.display()
    );
    let path = file(&folder, "assayd.yaml", &yaml);
    let path = path.to_str().unwrap();
    let output = assayd(&["config", "check", path]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("evidence is undefined") && text.contains("tone.jinja.missing"), "{text}");
    let output = assayd(&["replay", "--config", path, &fixture("strands/s01.otlp.pb")]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    std::fs::write(&template, "{{ fence }} {{ states[0].text }}").unwrap();
    let path = file(&folder, "fine.yaml", &yaml.replace(".missing", ""));
    assert!(assayd(&["config", "check", path.to_str().unwrap()]).status.success());
}

/// The recorded arguments of a real run, broken in the export: the verdict says so by rule, without a model that could.
#[test]
fn a_call_that_breaks_its_declared_schema_is_ruled_invalid_in_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let trace = std::fs::read_to_string(fixture("pydantic-ai-v5/s01.otlp.json")).unwrap();
    // JSON in a string of JSON, once more in messages.
    let broken = trace.replace(r#"order_id\\\": \\\"NW-48213\\\"}"#, r#"order\\\": \\\"NW-48213\\\"}"#);
    let broken = broken.replace(r#"{\"order_id\":\"NW-48213\"}"#, r#"{\"order\":\"NW-48213\"}"#);
    assert_ne!(broken, trace);
    let path = file(&folder, "broken.otlp.json", &broken);
    let config = file(&folder, "assayd.yaml", "evaluate: { grounding: false, use: [tool_arguments] }\n");
    let output = assayd(&["replay", "--config", config.to_str().unwrap(), path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let verdict: serde_json::Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    let answer = &verdict["answers"]["tool_arguments"];
    assert_eq!((&answer["by"], &answer["pass"]), (&"rule".into(), &false.into()), "{verdict}");
    assert!(answer["reasoning"].as_str().unwrap().contains("order_id is required and missing"), "{answer}");
}

#[test]
fn a_taken_port_is_an_error_at_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "receive: {{ grpc: {{ listen: 127.0.0.1:{port} }}, http: null }}\nserve: {{ listen: 127.0.0.1:0 }}\ndata_dir: {}\n",
        folder.path().display()
    );
    let path = file(&folder, "taken.yaml", &text);
    let output = assayd(&["serve", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&port.to_string()), "{}", stderr(&output));
}

/// A daemon on free ports, and what it said until it was ready.
fn daemon(
    folder: &tempfile::TempDir,
    stdout: Stdio,
) -> (Child, std::io::Lines<BufReader<ChildStderr>>, String) {
    let text = format!(
        "receive: {{ grpc: {{ listen: 127.0.0.1:0 }}, http: {{ listen: 127.0.0.1:0 }} }}\nserve: {{ listen: 127.0.0.1:0 }}\n\
         assemble: {{ root_grace: 100ms, idle: 500ms }}\ndata_dir: {}\n",
        folder.path().display()
    );
    let path = file(folder, "assayd.yaml", &text);
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_assayd"))
        .args(["serve", "--config", path.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while !said.contains("INFO assayd::pipeline::app: ready") {
        let line = log.next().expect("the daemon ended before it was ready").unwrap();
        said.push_str(&line);
        said.push('\n');
    }
    (daemon, log, said)
}

/// What a daemon that said this says at `/metrics`.
fn metrics(said: &str) -> String {
    let address = said.split("admin=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_terminated_daemon_stops_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let (mut daemon, log, said) = daemon(&folder, Stdio::null());
    assert!(said.contains("console") && said.contains("http://127.0.0.1:"), "{said}");
    let metrics = metrics(&said);
    let version = env!("CARGO_PKG_VERSION");
    assert!(metrics.contains(&format!("assayd_build_info{{version=\"{version}\"")), "{metrics}");
    assert!(!metrics.contains("assayd_process_start_time_seconds 0\n"), "{metrics}");
    let killed = Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().unwrap();
    assert!(killed.success());
    // The rest of the log is read so that the daemon never waits for us.
    let rest: Vec<String> = log.map_while(Result::ok).collect();
    assert_eq!(daemon.wait().unwrap().code(), Some(0), "{rest:?}");
}

#[test]
fn a_daemon_whose_output_nobody_reads_any_more_ends_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (mut daemon, log, said) = daemon(&folder, Stdio::piped());
    drop(daemon.stdout.take());
    let address = said.split("http=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let body = std::fs::read(fixture("strands/s01.otlp.json")).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /v1/traces HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    stream.write_all(&body).unwrap();
    let rest: Vec<String> = log.map_while(Result::ok).collect();
    assert_eq!(daemon.wait().unwrap().code(), Some(1), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.starts_with("assayd: cannot write the verdict to stdout")),
        "{rest:?}"
    );
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_64() {
    let labels = fixture("../grounding/labels.jsonl");
    let lines: [&[&str]; 5] = [
        &["ask", "--model", "embedded", "--state", "x"],
        &["ask", "--model", "embedded", "--state", "x", "--choice", "Which?=one"],
        &["compare", &labels, "--model", "embedded", "--thresholds", "2"],
        &["compare", &labels, "--model", "embedded", "--judge", "embedded"],
        &["calibrate", &labels, "--split", "2"],
    ];
    for arguments in lines {
        let output = assayd(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_folder_without_traces_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["replay", "convert"] {
        let output = assayd(&[command, folder.path().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("holds no traces"), "{}", stderr(&output));
    }
}

#[test]
fn traces_that_tell_no_story_are_named_and_verdicts_are_summed_up() {
    let path = fixture("edge-cases/not-an-llm-trace.otlp.pb");
    let converted = assayd(&["convert", &path]);
    assert!(stderr(&converted).contains("no story: no_agent"), "{}", stderr(&converted));
    let replayed = assayd(&["replay", &path, &fixture("strands/s02.otlp.pb")]);
    let said = stderr(&replayed);
    assert!(said.contains("2 traces: ") && said.contains("1 skipped (no_agent)"), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for command in ["convert", "replay"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args([command, &fixture("strands")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        assert!(
            !stderr(&output).contains("Broken") && !stderr(&output).contains("WARN"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn what_cannot_be_written_is_known_before_the_work() {
    let labels = fixture("../grounding/labels.jsonl");
    let output = assayd(&["calibrate", &labels, "--out", "/no/such/folder/calibration.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("assayd: cannot write /no/such/folder"), "{}", stderr(&output));
}

#[test]
fn a_checkpoint_without_hashes_is_not_called_verified() {
    let folder = tempfile::tempdir().unwrap();
    file(&folder, "model.safetensors", "x");
    let output = assayd(&["model", "verify", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing was verified"), "{}", stderr(&output));
}
