//! The judge against scripted endpoints: in the wire format of `POST chat/completions`, and in `providers` in all of them.

mod docs;
mod exchange;
mod limits;
mod metrics;
mod partition;
mod providers;
mod whole;
mod window;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use assayd::domain::{Inquiry, Json, Kind, Question, Subject};
use assayd::judge::{Ask, Config, Judge, JudgeErrorKind, OpenAiConfig, build};
use serde_json::json;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

type Script = Box<dyn Fn(usize, &Json) -> ResponseTemplate + Send + Sync>;

/// A server that answers its n-th request as the script says, and keeps what it was sent.
struct Scripted {
    script: Script,
    count: AtomicUsize,
    sent: Arc<Mutex<Vec<Json>>>,
}

impl Respond for Scripted {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Json = request.body_json().unwrap();
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let response = (self.script)(count, &body);
        self.sent.lock().unwrap().push(body);
        response
    }
}

struct Endpoint {
    server: MockServer,
    sent: Arc<Mutex<Vec<Json>>>,
}

impl Endpoint {
    async fn start(script: impl Fn(usize, &Json) -> ResponseTemplate + Send + Sync + 'static) -> Self {
        let server = MockServer::start().await;
        let sent = Arc::new(Mutex::new(Vec::new()));
        let scripted =
            Scripted { script: Box::new(script), count: AtomicUsize::new(0), sent: Arc::clone(&sent) };
        Mock::given(method("POST"))
            .and(path("/v1/chat/completions"))
            .respond_with(scripted)
            .mount(&server)
            .await;
        Self { server, sent }
    }

    /// One that always answers with this text.
    async fn saying(text: &str) -> Self {
        let text = text.to_owned();
        Self::start(move |_, _| says(&text)).await
    }

    fn config(&self) -> Config {
        let url = format!("{}/v1", self.server.uri());
        let openai = OpenAiConfig { url, model: "judge-large".into(), ..OpenAiConfig::default() };
        Config { openai: Some(openai), ..Config::default() }
    }

    fn judge(&self) -> Arc<dyn Judge> {
        build(&self.config()).unwrap().unwrap()
    }

    fn sent(&self) -> Vec<Json> {
        self.sent.lock().unwrap().clone()
    }
}

fn choice(id: &str, options: &[&str]) -> Question {
    let options = options.iter().map(|name| ((*name).to_owned(), Json::Null)).collect();
    let instructions = Json::String(format!("Is {id} supported?"));
    Question { id: id.to_owned(), kind: Kind::Choice { options }, instructions, subject: Subject::General }
}

/// Two questions, each `yes` or `no`.
fn two() -> Ask {
    ask_about("The order was refunded on Monday.", &["first", "second"])
}

fn ask_about(state: &str, ids: &[&str]) -> Ask {
    let questions = ids.iter().map(|id| choice(id, &["yes", "no"])).collect();
    Ask { inquiries: vec![Inquiry::new(Arc::new(json!(state)), questions)] }
}

const BOTH: &str = r#"{"answers":{"q1":{"reasoning":"It says so.","answer":"yes"},"q2":{"reasoning":"It does not.","answer":"no"}}}"#;

fn completion(message: Json, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "judge-large",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100 },
    }))
}

fn says(text: &str) -> ResponseTemplate {
    completion(json!({ "role": "assistant", "content": text, "refusal": null }), "stop")
}

fn fails(status: u16, message: &str) -> ResponseTemplate {
    let error = json!({ "message": message, "type": "error", "code": null });
    ResponseTemplate::new(status).set_body_json(json!({ "error": error }))
}

fn labels(judgement: &assayd::judge::Judgement) -> Vec<(&str, &str)> {
    judgement.answers.iter().map(|answer| (answer.id.as_str(), answer.label.as_str())).collect()
}

async fn error_of(endpoint: &Endpoint) -> JudgeErrorKind {
    endpoint.judge().judge(&two()).await.unwrap_err().kind
}
