//! The guide's section "In ten lines", line by line as it stands there; only addresses are replaced by those of scripted servers.

use assayd::config::{self, Config};
use assayd::pipeline::{App, Assayer};
use tokio::sync::oneshot;

use super::*;

/// What each part prints, among other things.
const SAYS: [(&str, &[&str]); 9] = [
    (
        "On a local, a hosted and an LLM backend",
        &[r#""model":"assayd-starter""#, r#""model":"jev-latest""#, r#""model":"judge-large""#],
    ),
    ("A decision model's typed answers", &["urgent", "sales", "calm"]),
    ("Two stages: the model first, an LLM for what it is unsure of", &[r#""by":"judge""#]),
    (
        "Guardrail questions",
        &[r#""jailbreak":{"#, r#""prompt_injection":{"#, r#""by":"rule""#, r#""toxicity":{"#],
    ),
    ("A metric of your own", &[r#""tone":{"value":{"compliant":false,"words":[]}}"#]),
    ("Prompts of your own", &[r#""prompts":""#, r#""by":"judge""#]),
    ("Recorded traces", &["worst claim", "grounding"]),
    ("In a shell, in CI, in a coding agent", &["\nnot supported\n"]),
    ("GSAR: score, decision, loop", &[r#""decision":"#, r#""partition":"#, r#""round":2"#]),
];

/// The first value that a JSON Schema allows.
fn value(schema: &Value) -> Value {
    if let Some(options) = schema["enum"].as_array() {
        return options[0].clone();
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => {
            let members = schema["properties"].as_object().unwrap();
            members
                .iter()
                .map(|(name, schema)| (name.clone(), value(schema)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        "array" => json!([]),
        "boolean" => json!(false),
        _ => json!("because"),
    }
}

fn judge(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let text = value(&body["response_format"]["json_schema"]["schema"]).to_string();
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 10 },
    }))
}

/// A decision model: true with 0.9, the last of the options, the first of the levels.
fn decider(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let spread = |names: Vec<String>, first: bool| {
        let rest = 0.1 / (names.len() - 1) as f64;
        let top = if first { 0 } else { names.len() - 1 };
        let p = names
            .iter()
            .enumerate()
            .map(|(at, name)| (name.clone(), json!(if at == top { 0.9 } else { rest })));
        p.collect::<serde_json::Map<_, _>>()
    };
    let answer = |question: &Value| match question["type"].as_str().unwrap() {
        "noul" => json!({ "type": "noul", "noul": 0.9 }),
        "choice" => {
            let names: Vec<String> = question["criteria"].as_object().unwrap().keys().cloned().collect();
            let last = names.last().unwrap().clone();
            json!({ "type": "choice", "choice": last, "probabilities": spread(names, false), "confidence": 0.8 })
        }
        _ => {
            let levels = question["criteria"].as_array().unwrap();
            let names: Vec<String> = (0..levels.len()).map(|at| at.to_string()).collect();
            let legend: serde_json::Map<_, _> = names.iter().cloned().zip(levels.clone()).collect();
            json!({ "type": "score", "score": 0.15, "legend": legend, "probabilities": spread(names, true), "confidence": 0.8 })
        }
    };
    let questions = body["questions"].as_object().unwrap();
    let answers: serde_json::Map<_, _> =
        questions.iter().map(|(id, question)| (id.clone(), answer(question))).collect();
    ResponseTemplate::new(200).set_body_json(json!({
        "model": "jev-1", "answers": answers, "usage": { "input_tokens": 10, "output_tokens": 0 },
    }))
}

/// A daemon on the embedded model: its address, and what stops it.
async fn daemon(folder: &Path) -> (String, oneshot::Sender<()>) {
    let yaml = format!(
        "receive: {{ grpc: null, http: null }}\nserve: {{ listen: 127.0.0.1:0 }}\ndata_dir: {}\nemit: {{ jsonl: {{ path: {} }} }}",
        folder.join("data").display(),
        folder.join("daemon.jsonl").display()
    );
    let config: Config = config::parse(&yaml, "test").unwrap();
    let assayer = Assayer::start(&config).unwrap();
    assayer.ready().await.unwrap();
    let app = App::bind_with(config, assayer).await.unwrap();
    let address = app.addresses().admin.to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(app.run(async move {
        let _ = stopped.await;
    }));
    while !reqwest::get(format!("http://{address}/readyz")).await.unwrap().status().is_success() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    (address, stop)
}

/// The parts of the section: heading and shell lines.
fn parts() -> Vec<(String, String)> {
    let guide = include_str!("../../docs/guide.md");
    let section = guide.split("\n## ").find(|section| section.starts_with("In ten lines\n")).unwrap();
    let parts = section.split("\n### ").skip(1).map(|part| {
        let (heading, body) = part.split_once('\n').unwrap();
        let code = body.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
        (heading.to_owned(), code.to_owned())
    });
    parts.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_of_the_guides_section_in_ten_lines_does_what_it_says() {
    let server = MockServer::start().await;
    let of = |path: &str| Mock::given(method("POST")).and(wiremock::matchers::path(path.to_owned()));
    of("/v1/chat/completions").respond_with(judge).mount(&server).await;
    of("/v1/systemone").respond_with(decider).mount(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    for story in ["s01", "s02"] {
        let name = format!("{story}.otlp.json");
        std::fs::copy(fixture("traces/openinference-langchain").join(&name), traces.join(&name)).unwrap();
    }
    let (address, stop) = daemon(folder.path()).await;
    let programs = Path::new(env!("CARGO_BIN_EXE_assayd")).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let has_curl = Command::new("curl").arg("--version").output().is_ok();

    let parts = parts();
    let headings: Vec<&str> = parts.iter().map(|(heading, _)| heading.as_str()).collect();
    assert_eq!(headings, SAYS.map(|(heading, _)| heading));
    for ((heading, code), (_, says)) in parts.iter().zip(SAYS) {
        assert!(code.lines().count() <= 10, "{heading}: ten lines are promised");
        if code.contains("curl") && !has_curl {
            continue;
        }
        let uri = server.uri();
        let code = code.replace("https://judge.internal", &uri).replace("https://decider.internal", &uri);
        let code = code.replace("localhost:8321", &address);
        let (at, path) = (folder.path().to_owned(), path.clone());
        let run = move || {
            Command::new("sh")
                .args(["-c", &code])
                .current_dir(at)
                .env("PATH", path)
                .stdin(Stdio::null())
                .output()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
        let (told, complaints) = (stdout(&output), stderr(&output));
        for needle in says {
            assert!(told.contains(needle), "{heading}: no {needle} in\n{told}\n{complaints}");
        }
        let tally = |line: &str| line.starts_with("assayd: 2 traces: ");
        let wrong = complaints.lines().find(|line| line.contains("assayd: ") && !tally(line));
        assert_eq!(wrong, None, "{heading}: {complaints}");
    }
    let _ = stop.send(());
}
