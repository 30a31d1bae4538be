//! Claims: one core takes in at least 100,000 small spans per second, and at least 200 MB of LLM-sized spans per second, from
//! OTLP/protobuf to stories: decode, assemble, convert.
//!
//! `cargo bench --bench otlp`. The elements per second of `small spans/protobuf to stories` and the bytes per second of
//! `LLM-sized spans/protobuf to stories` are the figures; the way to traces alone and JSON are there for comparison.

use std::hint::black_box;
use std::time::Duration;

use assayd::assemble::{Assembler, ClosedTrace, Config};
use assayd::convert;
use assayd::domain::Time;
use assayd::otlp::{Encoding, Signal, decode};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

#[path = "common/allocator.rs"]
mod allocator;

const NOW: Time = Time(1_796_025_600_000_000_000);
const SPANS_PER_TRACE: u64 = 10;
/// What the batch processors of the SDKs send at most by default.
const SPANS_PER_REQUEST: u64 = 512;

fn pair(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    pair(key, any_value::Value::StringValue(value.into()))
}

/// Span `index` of a request: traces of ten spans, root first.
fn span(index: u64, attributes: Vec<KeyValue>) -> Span {
    let (trace, position) = (index / SPANS_PER_TRACE, index % SPANS_PER_TRACE);
    let span_id = |position: u64| (trace * SPANS_PER_TRACE + position + 1).to_be_bytes().to_vec();
    Span {
        trace_id: u128::from(trace + 1).to_be_bytes().to_vec(),
        span_id: span_id(position),
        parent_span_id: if position == 0 { Vec::new() } else { span_id(0) },
        name: "chat gpt-4o".into(),
        kind: 3,
        start_time_unix_nano: NOW.0 + index,
        end_time_unix_nano: NOW.0 + index + 1_000_000,
        attributes,
        ..Default::default()
    }
}

/// A span of an agent's run: it is the root, a model call that asks for a tool, or that tool.
fn small(index: u64) -> Span {
    // A model call and the tool span after it.
    let call = format!("call_{}", index.div_ceil(2));
    let attributes = match index % SPANS_PER_TRACE {
        0 => vec![
            text("gen_ai.operation.name", "invoke_agent"),
            text("gen_ai.agent.name", "refunds"),
            text("gen_ai.conversation.id", format!("conversation-{index}")),
        ],
        position if position % 2 == 1 => {
            let asked = r#"[{"role":"user","parts":[{"type":"text","content":"Was my order paid?"}]}]"#;
            let said = format!(r#"{{"type":"text","content":"Order {index} was paid on 3 May."}}"#);
            let asks = format!(
                r#"{{"type":"tool_call","id":"{call}","name":"lookup","arguments":{{"id":{index}}}}}"#
            );
            let parts = if position == SPANS_PER_TRACE - 1 { said } else { format!("{said},{asks}") };
            vec![
                text("gen_ai.operation.name", "chat"),
                text("gen_ai.provider.name", "openai"),
                text("gen_ai.request.model", "gpt-4o"),
                text("gen_ai.response.id", format!("chatcmpl-{index}")),
                pair("gen_ai.usage.input_tokens", any_value::Value::IntValue(211)),
                text("gen_ai.input.messages", asked),
                text("gen_ai.output.messages", format!(r#"[{{"role":"assistant","parts":[{parts}]}}]"#)),
            ]
        }
        _ => vec![
            text("gen_ai.operation.name", "execute_tool"),
            text("gen_ai.tool.name", "lookup"),
            text("gen_ai.tool.call.id", call),
            text("gen_ai.tool.call.arguments", format!(r#"{{"id":{index}}}"#)),
            text("gen_ai.tool.call.result", r#"{"status":"paid","date":"2026-05-03"}"#),
        ],
    };
    span(index, attributes)
}

/// A model call with twenty messages of 5 kB, each an attribute.
fn llm_sized(index: u64) -> Span {
    let content =
        "The invoice says that the order was paid on 3 May, and the policy allows thirty days. ".repeat(60);
    let message = |direction: &str, n: usize, role: &str| {
        let key = |field: &str| format!("llm.{direction}_messages.{n}.message.{field}");
        [text(&key("role"), role), text(&key("content"), &content[..5000])]
    };
    let history = (0..19).flat_map(|n| message("input", n, if n % 2 == 0 { "user" } else { "assistant" }));
    let kind = text("openinference.span.kind", "LLM");
    span(index, history.chain(message("output", 0, "assistant")).chain([kind]).collect())
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let resource = Resource { attributes: vec![text("service.name", "shop")], ..Default::default() };
    let scope = InstrumentationScope { name: "bench".into(), ..Default::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..Default::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans, ..Default::default() }],
    }
}

/// The way of a request from its bytes to complete traces.
fn to_traces(encoding: Encoding, body: &[u8]) -> Vec<ClosedTrace<usize>> {
    let decoded = decode(Signal::Traces, encoding, body).expect("the bench's own request");
    let mut assembler: Assembler<usize> = Assembler::new(Config::default());
    assembler.push(NOW, decoded.spans, decoded.logs, |_, bytes| bytes);
    let later = NOW + Duration::from_secs(2);
    std::iter::from_fn(|| assembler.pop(later)).collect()
}

/// The whole way. Gives the number of traces that have a story.
fn to_stories(body: &[u8]) -> usize {
    let traces = to_traces(Encoding::Protobuf, body);
    traces.iter().filter(|closed| black_box(convert::story(&closed.trace)).is_ok()).count()
}

fn intake(criterion: &mut Criterion) {
    let small = request((0..SPANS_PER_REQUEST).map(small).collect());
    let llm_sized = request((0..SPANS_PER_TRACE).map(llm_sized).collect());
    for (name, request, spans) in
        [("small spans", small, SPANS_PER_REQUEST), ("LLM-sized spans", llm_sized, 0)]
    {
        let protobuf = request.encode_to_vec();
        let json = serde_json::to_vec(&request).expect("a request is JSON");
        let amount = |body: &[u8]| match spans {
            0 => Throughput::Bytes(body.len() as u64),
            spans => Throughput::Elements(spans),
        };
        assert!(to_stories(&protobuf) > 0, "the traces of {name} have stories");
        let mut group = criterion.benchmark_group(name);
        group.throughput(amount(&protobuf));
        group.bench_function("protobuf to stories", |bencher| bencher.iter(|| to_stories(&protobuf)));
        group.bench_function("protobuf to traces", |bencher| {
            bencher.iter(|| to_traces(Encoding::Protobuf, &protobuf));
        });
        group.throughput(amount(&json));
        group.bench_function("json to traces", |bencher| bencher.iter(|| to_traces(Encoding::Json, &json)));
        group.finish();
    }
}

criterion_group!(benches, intake);
criterion_main!(benches);
