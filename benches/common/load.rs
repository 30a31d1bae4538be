//! What the benches of the whole flow have in common: traces, a scripted decision model, and what a process has spent.

use assayd::decide::Reply;
use assayd::domain::{Decision, Inquiry};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

/// Spans of a trace.
pub const SPANS_PER_TRACE: u64 = 10;

fn text(key: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: key.into(), value, ..Default::default() }
}

/// A run of an agent: root, two model calls, one tool, six spans of HTTP clients and databases. Each span carries `padding` bytes that
/// say nothing.
pub fn trace(number: u64, padding: usize) -> Vec<Span> {
    let request =
        format!(r#"{{"role":"user","parts":[{{"type":"text","content":"Was order {number} paid?"}}]}}"#);
    let call = format!(
        r#"{{"role":"assistant","parts":[{{"type":"tool_call","id":"c{number}","name":"lookup","arguments":{{"id":{number}}}}}]}}"#
    );
    let result = format!(
        r#"{{"role":"tool","parts":[{{"type":"tool_call_response","id":"c{number}","response":"order {number}: paid on 3 May"}}]}}"#
    );
    let answer = format!(
        r#"{{"role":"assistant","parts":[{{"type":"text","content":"Order {number} was paid on 3 May."}}]}}"#
    );
    let chat = |input: String, output: &str| {
        vec![
            text("gen_ai.operation.name", "chat".into()),
            text("gen_ai.request.model", "gpt-4o".into()),
            text("gen_ai.input.messages", format!("[{input}]")),
            text("gen_ai.output.messages", format!("[{output}]")),
        ]
    };
    let noise =
        || vec![text("http.request.method", "GET".into()), text("url.full", "http://db/orders".into())];
    let attributes = [
        vec![
            text("gen_ai.operation.name", "invoke_agent".into()),
            text("gen_ai.agent.name", "refunds".into()),
        ],
        chat(request.clone(), &call),
        vec![
            text("gen_ai.operation.name", "execute_tool".into()),
            text("gen_ai.tool.name", "lookup".into()),
            text("gen_ai.tool.call.id", format!("c{number}")),
            text("gen_ai.tool.call.result", format!("order {number}: paid on 3 May")),
        ],
        chat(format!("{request},{call},{result}"), &answer),
        noise(),
        noise(),
        noise(),
        noise(),
        noise(),
        noise(),
    ];
    let span_id = |position: u64| (number * SPANS_PER_TRACE + position + 1).to_be_bytes().to_vec();
    let padded = attributes.into_iter().map(|mut attributes| {
        if padding > 0 {
            attributes.push(text("padding", "x".repeat(padding)));
        }
        attributes
    });
    let spans = padded.zip(0..).map(|(attributes, position)| Span {
        trace_id: u128::from(number + 1).to_be_bytes().to_vec(),
        span_id: span_id(position),
        parent_span_id: if position == 0 { Vec::new() } else { span_id(0) },
        name: "span".into(),
        start_time_unix_nano: 1_796_025_600_000_000_000 + position,
        end_time_unix_nano: 1_796_025_600_001_000_000 + position,
        attributes,
        ..Default::default()
    });
    spans.collect()
}

/// One request of these spans.
pub fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let resource = Resource { attributes: vec![text("service.name", "bench".into())], ..Default::default() };
    let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans, ..Default::default() }],
    }
}

/// Finds everything grounded, with confidence.
pub fn grounded(inquiry: &Inquiry) -> Reply {
    let decisions = inquiry.questions.iter().map(|question| {
        let labels = question.kind.labels();
        let rest = 0.02 / (labels.len() - 1) as f64;
        let probabilities =
            labels.iter().map(|label| if label == "grounded" { 0.98 } else { rest }).collect();
        Ok(Decision { probabilities, tokens: 1 })
    });
    Reply { decisions: decisions.collect(), input_tokens: 1, truncated: false }
}

/// CPU seconds of a process (`self` or its number), and its resident memory in MB.
pub fn spent(process: &str) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let resident =
        pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or_default();
    ((ticks(11) + ticks(12)) / 100.0, resident * 4096.0 / 1e6)
}
