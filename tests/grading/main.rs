//! `assayd compare` and `assayd calibrate` as their users meet them, and evaluation as a program calls it.

mod calibrate;
mod compare;
mod guide;
mod library;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

fn assayd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_assayd")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&stdout(output))
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", stdout(output), stderr(output)))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path.display().to_string()
}

/// A judge over `chat/completions` that picks the first label of every question.
struct First {
    server: MockServer,
    calls: Arc<AtomicUsize>,
}

impl First {
    async fn start() -> Self {
        let server = MockServer::start().await;
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let respond = move |request: &Request| {
            counted.fetch_add(1, Ordering::Relaxed);
            let body: Value = request.body_json().unwrap();
            let keys =
                &body["response_format"]["json_schema"]["schema"]["properties"]["answers"]["properties"];
            let answers: serde_json::Map<String, Value> = keys
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, schema)| {
                    let first = &schema["properties"]["answer"]["enum"][0];
                    (key.clone(), json!({"reasoning": "It is the first.", "answer": first}))
                })
                .collect();
            let text = json!({ "answers": answers }).to_string();
            ResponseTemplate::new(200).set_body_json(json!({
                "id": "c", "object": "chat.completion", "model": "judge-large",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text, "refusal": null}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
            }))
        };
        Mock::given(method("POST")).respond_with(respond).mount(&server).await;
        Self { server, calls }
    }

    /// Its name on the command line.
    fn backend(&self) -> String {
        format!("openai:judge-large@{}/v1", self.server.uri())
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Runs the program while this runtime serves it.
async fn beside(arguments: Vec<String>) -> Output {
    let run = move || assayd(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}
