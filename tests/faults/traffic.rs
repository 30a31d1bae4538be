//! What the tests send, what they hear, and how they check the verdicts against it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic_types::StatusExt;

use super::daemon::PATIENCE;

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The daemon says that it is safe.
    Acknowledged,
    /// The daemon says no, and whether it says when to come back.
    Refused {
        /// gRPC's code.
        code: tonic::Code,
        /// Whether there is a RetryInfo.
        come_back: bool,
    },
    /// No answer.
    Nothing,
}

/// A client that connects when it has to, and waits so long for an answer.
pub struct Sender {
    endpoint: String,
    patience: Duration,
    client: Option<TraceServiceClient<Channel>>,
}

impl Sender {
    /// A client that waits long.
    pub fn new(endpoint: String) -> Self {
        Self::hasty(endpoint, PATIENCE)
    }

    /// A client that waits no longer than `patience`.
    pub fn hasty(endpoint: String, patience: Duration) -> Self {
        Self { endpoint, patience, client: None }
    }

    /// Sends one request.
    pub async fn send(&mut self, request: ExportTraceServiceRequest) -> Heard {
        let heard = tokio::time::timeout(self.patience, self.try_send(request)).await;
        let heard = heard.unwrap_or(Heard::Nothing);
        if heard == Heard::Nothing {
            self.client = None;
        }
        heard
    }

    async fn try_send(&mut self, request: ExportTraceServiceRequest) -> Heard {
        let client = match &mut self.client {
            Some(client) => client,
            None => match TraceServiceClient::connect(self.endpoint.clone()).await {
                Ok(client) => self.client.insert(client),
                Err(_) => return Heard::Nothing,
            },
        };
        let status = match client.export(request).await {
            Ok(_) => return Heard::Acknowledged,
            Err(status) => status,
        };
        let come_back = status.get_details_retry_info().is_some();
        // A broken connection is UNAVAILABLE too, but says nothing about coming back: it is tonic's word, not the daemon's.
        let is_ours = come_back || !matches!(status.code(), tonic::Code::Unavailable | tonic::Code::Unknown);
        if is_ours { Heard::Refused { code: status.code(), come_back } } else { Heard::Nothing }
    }

    /// Sends until it is acknowledged, as a good exporter does.
    pub async fn deliver(&mut self, request: &ExportTraceServiceRequest) {
        let deadline = Instant::now() + PATIENCE;
        while self.send(request.clone()).await != Heard::Acknowledged {
            assert!(Instant::now() < deadline, "nothing is acknowledged any more");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..Default::default() }
}

fn message(role: &str, part: Value) -> Value {
    json!({ "role": role, "parts": [part] })
}

fn chat(input: &[&Value], output: &Value) -> Vec<KeyValue> {
    vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.input.messages", json!(input).to_string()),
        text("gen_ai.output.messages", json!([output]).to_string()),
    ]
}

/// A short run of an agent that looks an order up and tells of it: its id and its request. Small, since the model that reads
/// it is not compiled to be fast in tests.
pub fn trace(number: u32) -> (String, ExportTraceServiceRequest) {
    let asked = message("user", json!({ "type": "text", "content": format!("Was order {number} paid?") }));
    let arguments = json!({ "id": number });
    let call = json!({ "type": "tool_call", "id": "c1", "name": "lookup", "arguments": arguments });
    let call = message("assistant", call);
    let found = format!("order {number}: paid on 3 May");
    let result = json!({ "type": "tool_call_response", "id": "c1", "response": found });
    let result = message("tool", result);
    let answer = json!({ "type": "text", "content": format!("Order {number} was paid on 3 May.") });
    let answer = message("assistant", answer);
    let attributes = [
        vec![text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", "orders")],
        chat(&[&asked], &call),
        vec![
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", "lookup"),
            text("gen_ai.tool.call.id", "c1"),
            text("gen_ai.tool.call.result", found),
        ],
        chat(&[&asked, &call, &result], &answer),
    ];
    let mut id = [0xa5u8; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let spans = attributes.into_iter().zip(1_u64..).map(|(attributes, position)| Span {
        trace_id: id.to_vec(),
        span_id: position.to_be_bytes().to_vec(),
        parent_span_id: if position == 1 { Vec::new() } else { 1_u64.to_be_bytes().to_vec() },
        name: format!("span {position}"),
        start_time_unix_nano: 1_796_025_600_000_000_000 + position,
        end_time_unix_nano: 1_796_025_600_001_000_000 + position,
        attributes,
        ..Default::default()
    });
    let scope_spans = vec![ScopeSpans { spans: spans.collect(), ..Default::default() }];
    let resource = Resource { attributes: vec![text("service.name", "faults")], ..Default::default() };
    let resource_spans = vec![ResourceSpans { resource: Some(resource), scope_spans, ..Default::default() }];
    (id.iter().map(|byte| format!("{byte:02x}")).collect(), ExportTraceServiceRequest { resource_spans })
}

/// The same trace in two requests, the root and the tool's span in the second: each half alone makes another verdict.
pub fn halves(number: u32) -> (String, [ExportTraceServiceRequest; 2]) {
    let (id, whole) = trace(number);
    let half = |is_second: bool| {
        let mut request = whole.clone();
        for scope in request.resource_spans.iter_mut().flat_map(|resource| &mut resource.scope_spans) {
            let of_second = |span: &Span| span.parent_span_id.is_empty() || span.span_id[7] == 3;
            scope.spans.retain(|span| of_second(span) == is_second);
        }
        request
    };
    (id, [half(false), half(true)])
}

/// The same trace with `bytes` more in an attribute that says nothing.
pub fn heavy(number: u32, bytes: usize) -> (String, ExportTraceServiceRequest) {
    let (id, mut request) = trace(number);
    request.resource_spans[0].scope_spans[0].spans[0].attributes.push(text("padding", "x".repeat(bytes)));
    (id, request)
}

/// Verdicts in all files of JSON lines under `folder`; a line that a kill has cut off is none.
pub fn written(folder: &Path) -> Vec<Value> {
    let mut verdicts = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            verdicts.extend(written(&path));
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
            verdicts.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
        }
    }
    verdicts
}

/// The traces that have a verdict.
pub fn traces_of(verdicts: &[Value]) -> BTreeSet<String> {
    verdicts.iter().map(|verdict| verdict["trace_id"].as_str().unwrap().to_owned()).collect()
}

/// Waits until every one of `acknowledged` has a verdict under `folder`; gives all verdicts.
pub async fn all_have_verdicts(folder: &Path, acknowledged: &BTreeSet<String>) -> Vec<Value> {
    let mut deadline = Instant::now() + PATIENCE;
    let mut fewest = usize::MAX;
    loop {
        let verdicts = written(folder);
        let found = traces_of(&verdicts);
        let missing: Vec<_> = acknowledged.difference(&found).collect();
        if missing.is_empty() {
            return verdicts;
        }
        // Patience is for progress: a long queue may take its time.
        if missing.len() < fewest {
            fewest = missing.len();
            deadline = Instant::now() + PATIENCE;
        }
        let (count, of) = (missing.len(), acknowledged.len());
        assert!(
            Instant::now() < deadline,
            "{count} of {of} acknowledged traces have no verdict: {missing:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A verdict without what may differ between two evaluations of the same trace: the times, what closed it, and how often this
/// process has evaluated it.
fn content(verdict: &Value) -> Value {
    let mut content = verdict.clone();
    let fields = content.as_object_mut().unwrap();
    for field in ["times", "closed", "revision"] {
        fields.remove(field);
    }
    content
}

/// Whether two values are the same; numbers may differ as far as the company in a batch changes a float.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= 1e-3
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same =
                |(key, value): (&String, &Value)| other.get(key).is_some_and(|other| alike(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

/// Verdicts of one id must be of one trace, know the same spans and say the same.
pub fn repeats_agree(verdicts: &[Value]) {
    let mut contents: BTreeMap<String, Value> = BTreeMap::new();
    for verdict in verdicts {
        let this = content(verdict);
        let before = contents.entry(verdict["verdict_id"].to_string()).or_insert_with(|| this.clone());
        let trace = &verdict["trace_id"];
        assert!(
            alike(before, &this),
            "trace {trace}: a repeated verdict says something else:\n{before}\n{this}"
        );
    }
}

/// Verdicts that came after one of the same trace that knew more spans.
pub fn thinner(verdicts: &[Value]) -> Vec<&Value> {
    let mut known: BTreeMap<&str, Vec<BTreeSet<&str>>> = BTreeMap::new();
    let mut thin = Vec::new();
    for verdict in verdicts {
        let spans = verdict["span_ids"].as_array().into_iter().flatten();
        let spans: BTreeSet<&str> = spans.map(|span| span.as_str().unwrap()).collect();
        let before = known.entry(verdict["trace_id"].as_str().unwrap()).or_default();
        if before.iter().any(|more| *more != spans && more.is_superset(&spans)) {
            thin.push(verdict);
        }
        before.push(spans);
    }
    thin
}

/// For traces whose spans all come within `assemble.idle`: however often a verdict was repeated, it was the same one each time.
pub fn each_has_one_verdict(verdicts: &[Value]) {
    repeats_agree(verdicts);
    let thin = thinner(verdicts);
    assert!(thin.is_empty(), "{} verdicts know less than one before: {}", thin.len(), thin[0]);
    let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
    for verdict in verdicts {
        let (trace, id) = (verdict["trace_id"].as_str().unwrap(), verdict["verdict_id"].as_str().unwrap());
        let first = ids.entry(trace).or_insert(id);
        assert_eq!(*first, id, "trace {trace} has two verdicts");
    }
}
