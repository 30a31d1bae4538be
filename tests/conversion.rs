//! Laws of conversion: the order of arrival and foreign spans change nothing, and no input panics or takes for ever.

use std::path::Path;
use std::sync::Arc;

use assayd::convert::{read, story};
use assayd::domain::{
    Attributes, Event, LogRecord, Resource, Skip, Span, SpanId, SpanKind, Status, StepKind, Time, Trace,
    TraceId, Value,
};
use assayd::receive::read_files;
use proptest::prelude::*;

const RUNS: [&str; 12] = [
    "openinference-langchain/s05",
    "openinference-smolagents/s06",
    "openinference-crewai/s06",
    "openinference-dspy/s03",
    "openinference-haystack/s04",
    "pydantic-ai-v1/s06",
    "strands-latest/s06",
    "traceloop-langchain/s05",
    "traceloop-openai-workflow/s05",
    "vercel-ai-sdk/s06",
    "mlflow/s08",
    "edge-cases/two-dialects",
];

fn traces(run: &str) -> Vec<Trace> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
    let found = read_files(&[folder.join(format!("{run}.otlp.pb"))]);
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    found.traces
}

fn trace_id() -> TraceId {
    TraceId::try_from(&[7u8; 16][..]).unwrap()
}

fn span_id(number: u64) -> SpanId {
    SpanId::try_from(&(number + 1).to_be_bytes()[..]).unwrap()
}

fn span(number: u64, parent: Option<u64>, name: &str, pairs: &[(&str, &str)]) -> Span {
    let attributes = pairs.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    Span {
        parent_id: parent.map(span_id),
        name: name.to_owned(),
        kind: SpanKind::Internal,
        start: Time(1_000_000 + number * 1_000),
        end: Time(1_000_000 + number * 1_000 + 500),
        attributes,
        ..Span::new(trace_id(), span_id(number))
    }
}

fn trace(spans: Vec<Span>) -> Trace {
    Trace { spans, ..Trace::new(trace_id()) }
}

/// A model call of the GenAI conventions.
fn chat(number: u64, input: &str, output: &str) -> Span {
    let pairs = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.input.messages", input),
        ("gen_ai.output.messages", output),
    ];
    span(number, None, "chat", &pairs)
}

fn said(role: &str, text: &str) -> String {
    serde_json::json!({"role": role, "parts": [{"type": "text", "content": text}]}).to_string()
}

#[test]
fn a_user_who_says_the_same_thing_twice_is_heard_twice() {
    let (u, a) = (said("user", "again please"), said("assistant", "here you are"));
    let spans = vec![
        chat(1, &format!("[{u}]"), &format!("[{a}]")),
        chat(2, &format!("[{u},{a},{u}]"), &format!("[{a}]")),
    ];
    let story = story(&trace(spans)).unwrap();
    let kinds: Vec<StepKind> = story.steps.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Request, StepKind::Answer, StepKind::Request, StepKind::Answer]);
    assert_eq!(story.steps.last().unwrap().turn, 2);
}

#[test]
fn parents_in_a_circle_and_spans_that_share_an_id_are_told_once() {
    let (u, a) = (said("user", "question"), said("assistant", "answer"));
    let mut first = chat(1, &format!("[{u}]"), &format!("[{a}]"));
    first.parent_id = Some(span_id(2));
    let second = span(2, Some(1), "invoke_agent x", &[("gen_ai.operation.name", "invoke_agent")]);
    let itself =
        span(3, Some(3), "step", &[("openinference.span.kind", "CHAIN"), ("input.value", "question")]);
    let story = story(&trace(vec![first.clone(), second, first.clone(), itself, first])).unwrap();
    assert_eq!(story.steps.len(), 2);
    assert_eq!(story.answer.as_deref(), Some("answer"));
}

#[test]
fn ones_own_telemetry_is_refused() {
    let (u, a) = (said("user", "question"), said("assistant", "answer"));
    let mut own = chat(1, &format!("[{u}]"), &format!("[{a}]"));
    let mut resource = Resource::default();
    resource.attributes.push("service.name", "assayd");
    own.resource = Arc::new(resource);
    assert_eq!(read(&trace(vec![own])).unwrap_err(), Skip::OwnTelemetry);
}

#[test]
fn a_run_that_ends_in_a_tool_call_has_a_story_and_no_answer() {
    let call =
        r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"look","arguments":{"q":1}}]}]"#;
    let spans = vec![chat(1, &format!("[{}]", said("user", "question")), call)];
    assert_eq!(read(&trace(spans.clone())).unwrap().steps.len(), 2);
    assert_eq!(story(&trace(spans)).unwrap_err(), Skip::NoAnswer);
}

#[test]
fn deep_nesting_is_survived() {
    let deep = "[".repeat(200_000);
    let objects = "{\"messages\":".repeat(100_000);
    let python = "[{'a': (".repeat(50_000);
    let nested = (0..120).fold(Value::from("x"), |inner, _| Value::List(vec![inner]));
    let mut spans: Vec<Span> =
        [deep, objects, python].iter().enumerate().map(|(n, text)| chat(n as u64, text, text)).collect();
    let mut tool = span(
        9,
        None,
        "execute_tool x",
        &[("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "x")],
    );
    tool.attributes.push("gen_ai.tool.call.arguments", nested);
    spans.push(tool);
    let _ = read(&trace(spans));
}

#[test]
fn ten_thousand_spans_of_one_trace_are_told_in_reasonable_time() {
    let mut spans = Vec::new();
    for n in 0..5_000u64 {
        let call = |n: u64| {
            format!(
                r#"{{"role":"assistant","parts":[{{"type":"tool_call","id":"c{n}","name":"look","arguments":{{"q":{n}}}}}]}}"#
            )
        };
        let result = |n: u64| {
            format!(
                r#"{{"role":"tool","parts":[{{"type":"tool_call_response","id":"c{n}","response":"result {n}"}}]}}"#
            )
        };
        let history = match n {
            0 => said("user", "question"),
            _ => format!("{},{},{}", said("user", "question"), call(n - 1), result(n - 1)),
        };
        spans.push(chat(2 * n, &format!("[{history}]"), &format!("[{}]", call(n))));
        let id = format!("c{n}");
        let pairs = [
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "look"),
            ("gen_ai.tool.call.id", id.as_str()),
        ];
        spans.push(span(2 * n + 1, None, "execute_tool look", &pairs));
    }
    let story = read(&trace(spans)).unwrap();
    let calls = story.steps.iter().filter(|step| step.kind == StepKind::ToolCall).count();
    assert_eq!(calls, 5_000);
}

#[test]
fn ten_thousand_conversations_in_one_trace_are_told_in_reasonable_time() {
    let spans = (0..10_000u64)
        .map(|n| {
            chat(
                n,
                &format!("[{}]", said("user", &format!("question number {n}"))),
                &format!("[{}]", said("assistant", &format!("answer {n}"))),
            )
        })
        .collect();
    assert_eq!(read(&trace(spans)).unwrap().steps.len(), 20_000);
}

#[test]
fn big_values_and_deep_trees_are_told_in_reasonable_time() {
    let text = "ümlaut and \"quotes\" ".repeat(5_000);
    let mut spans: Vec<Span> =
        (0..10_000u64).map(|n| span(n, n.checked_sub(1), "step", &[("input.value", "x")])).collect();
    spans.push(chat(
        10_001,
        &format!("[{}]", said("user", &text)),
        &format!("[{}]", said("assistant", &text)),
    ));
    let story = story(&trace(spans)).unwrap();
    assert_eq!(story.answer.unwrap().len(), text.trim().len());
}

/// Keys that some dialect reads.
const KEYS: [&str; 44] = [
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.prompt.0.role",
    "gen_ai.prompt.0.content",
    "gen_ai.completion.0.content",
    "gen_ai.completion.0.tool_calls.0.name",
    "gen_ai.completion.0.tool_calls.0.arguments",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "openinference.span.kind",
    "llm.input_messages.0.message.role",
    "llm.input_messages.0.message.content",
    "llm.output_messages.0.message.contents.0.message_content.text",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name",
    "input.value",
    "output.value",
    "tool.name",
    "tool.parameters",
    "retrieval.documents.0.document.content",
    "traceloop.span.kind",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "ai.operationId",
    "ai.prompt",
    "ai.prompt.messages",
    "ai.response.text",
    "ai.response.toolCalls",
    "ai.toolCall.args",
    "ai.toolCall.result",
    "gcp.vertex.agent.llm_request",
    "gcp.vertex.agent.tool_response",
    "mlflow.spanType",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
    "haystack.agent.step.llm.output",
    "langsmith.span.kind",
    "message",
    "events",
    "pydantic_ai.all_messages",
];

/// Values that dialects expect, halves of them, and rubbish.
fn texts() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "chat",
        "execute_tool",
        "invoke_agent",
        "LLM",
        "TOOL",
        "AGENT",
        "CHAIN",
        "RETRIEVER",
        "tool",
        "llm",
        "\"TOOL\"",
        "\"CHAT_MODEL\"",
        "ai.toolCall",
        "ai.generateText.doGenerate",
        "user",
        "assistant",
        "tool-call",
        "thinking",
        r#"[{"role":"user","parts":[{"type":"text","content":"hi"}]}]"#,
        r#"[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":1}"}}]}]"#,
        r#"{"messages":[[{"lc":1,"id":["HumanMessage"],"kwargs":{"content":"hi"}}]]}"#,
        r#"{"args":["x"],"kwargs":{}}"#,
        "{'a': [1, None, (2,)]}",
        "ChatMessage(role=<R.USER: 'user'>, blocks=[T(text='hi')])",
        "[[ ## question ## ]]\nhi\n[[ ## trajectory ## ]]",
        "Thought: x\n<code>\nfinal_answer('é",
        "__REDACTED__",
        r#"{"choices":[{"message":{"content":"a"}}]}"#,
        r#"[{"toolResult":{"toolUseId":"c","content":[{"text":"r"}]}}]"#,
        "Calling tools:\n[{'id': 'c', 'function': {'name': 'f', 'arguments': {}}}]",
        r#"{"message":{"source":"user","type":"TextMessage","content":"hi","id":"1"}}"#,
        "Observation:\nExecution logs:\n1",
        "{\"\\ud800\": \"\\u",
        "[]",
        "{}",
        "\"",
        "'",
        "<",
        "(",
        "b'",
        "final_answer(",
    ]);
    let cut = (known.clone(), any::<prop::sample::Index>()).prop_map(|(text, index)| {
        let end = index.index(text.len() + 1);
        text.char_indices().take_while(|(at, _)| *at < end).map(|(_, c)| c).collect::<String>()
    });
    prop_oneof![3 => known.prop_map(str::to_owned), 2 => cut, 2 => any::<String>(), 1 => r#"[\[\]{}()<>"'\\:,=a-zA-Z0-9 #\n]{0,60}"#]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => texts().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::Int),
        1 => any::<f64>().prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Null),
        1 => prop::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Value::Bytes(bytes.into())),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let keys = prop::sample::select(vec![
            "role",
            "content",
            "parts",
            "type",
            "text",
            "tool_calls",
            "function",
            "name",
            "arguments",
            "id",
            "message",
            "kwargs",
            "lc",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::vec((keys, inner), 0..5).prop_map(|pairs| {
                Value::Map(
                    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Attributes>(),
                )
            }),
        ]
    })
}

fn pairs() -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::collection::vec((prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned), values()), 0..8)
}

fn any_span() -> impl Strategy<Value = Span> {
    let events = prop::collection::vec(
        (
            prop::sample::select(vec![
                "gen_ai.user.message",
                "gen_ai.choice",
                "gen_ai.tool.message",
                "exception",
                "gen_ai.client.inference.operation.details",
            ]),
            prop::collection::vec(
                (
                    prop::sample::select(vec![
                        "content",
                        "message",
                        "exception.message",
                        "gen_ai.input.messages",
                        "gen_ai.event.content",
                    ])
                    .prop_map(str::to_owned),
                    values(),
                ),
                0..3,
            ),
        ),
        0..3,
    );
    (0..6u64, prop::option::of(0..6u64), any::<u64>(), any::<u64>(), pairs(), events, any::<bool>()).prop_map(
        |(number, parent, start, end, pairs, events, failed)| {
            let mut made = span(number, parent, "agent_run [x]", &[]);
            made.start = Time(start);
            made.end = Time(end);
            made.attributes = pairs.into_iter().collect();
            made.events = events
                .into_iter()
                .map(|(name, pairs)| Event {
                    name: name.to_owned(),
                    time: Time(start),
                    attributes: pairs.into_iter().collect(),
                    dropped_attributes: 1,
                })
                .collect();
            if failed {
                made.status = Status::Error("failed".to_owned());
            }
            made
        },
    )
}

fn any_log() -> impl Strategy<Value = LogRecord> {
    (
        prop::option::of(0..8u64),
        any::<u64>(),
        prop::sample::select(vec![
            "gen_ai.user.message",
            "gen_ai.choice",
            "gen_ai.client.inference.operation.details",
            "",
        ]),
        values(),
        pairs(),
    )
        .prop_map(|(span, time, name, body, pairs)| LogRecord {
            span_id: span.map(span_id),
            time: Time(time),
            event_name: name.to_owned(),
            body,
            attributes: pairs.into_iter().collect(),
            ..LogRecord::new(trace_id())
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_spans_and_records_panic(spans in prop::collection::vec(any_span(), 0..6), logs in prop::collection::vec(any_log(), 0..4)) {
        let mut whole = trace(spans);
        whole.logs = logs;
        if let Ok(story) = read(&whole) {
            prop_assert!(!story.steps.is_empty());
            for (index, step) in story.steps.iter().enumerate() {
                prop_assert_eq!(step.index, index);
            }
        }
    }
}

/// How senders write bytes as text.
fn spelled(bytes: &[u8], spelling: u8) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
    match spelling {
        0 => STANDARD.encode(bytes),
        1 => URL_SAFE.encode(bytes),
        2 => STANDARD_NO_PAD.encode(bytes),
        3 => {
            let text = STANDARD.encode(bytes);
            text.as_bytes()
                .chunks(76)
                .map(|line| std::str::from_utf8(line).unwrap())
                .collect::<Vec<_>>()
                .join("\n")
        }
        _ => format!("data:image/png;base64,{}", STANDARD.encode(bytes)),
    }
}

/// A picture in the words of one library, as a content block.
fn picture(data: &str, block: u8) -> serde_json::Value {
    use serde_json::json;
    match block {
        0 => json!({"type": "image_url", "image_url": {"url": data}}),
        1 => json!({"type": "input_image", "image_url": data}),
        2 => json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
        3 => json!({"inline_data": {"mime_type": "image/png", "data": data}}),
        4 => json!({"type": "image", "image": data, "mediaType": "image/png"}),
        5 => json!({"type": "file", "data": data, "mediaType": "application/pdf", "filename": "a.pdf"}),
        6 => json!({"type": "blob", "modality": "image", "mime_type": "image/png", "content": data}),
        7 => json!({"image": {"format": "png", "source": {"bytes": data}}}),
        8 => json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}),
        9 => json!({"type": "file", "file": {"filename": "a.pdf", "file_data": data}}),
        _ => json!({"type": "text", "text": format!("look: {data}")}),
    }
}

/// A trace whose user or tool shows something, in the words of one dialect.
fn showing(block: &serde_json::Value, data: &str, carrier: u8) -> Trace {
    use serde_json::json;
    let content = json!([{"type": "text", "text": "What is this?"}, block]);
    let list = json!([{"role": "user", "content": content}]).to_string();
    let parts =
        json!([{"role": "user", "parts": [{"type": "text", "content": "What is this?"}, block]}]).to_string();
    let output = json!([{"role": "assistant", "content": "A cat."}]).to_string();
    let answer = said("assistant", "A cat.");
    let call = |pairs: &[(&str, &str)]| trace(vec![span(1, None, "call", pairs)]);
    match carrier {
        0 => call(&[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.input.messages", &parts),
            ("gen_ai.output.messages", &answer),
        ]),
        1 => call(&[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.prompt", &list),
            ("gen_ai.completion", &output),
        ]),
        2 => call(&[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.prompt.0.role", "user"),
            ("gen_ai.prompt.0.content", &content.to_string()),
            ("gen_ai.completion.0.role", "assistant"),
            ("gen_ai.completion.0.content", "A cat."),
        ]),
        3 => call(&[
            ("openinference.span.kind", "LLM"),
            ("llm.input_messages.0.message.role", "user"),
            ("llm.input_messages.0.message.contents.0.message_content.type", "text"),
            ("llm.input_messages.0.message.contents.0.message_content.text", "What is this?"),
            ("llm.input_messages.0.message.contents.1.message_content.type", "image"),
            ("llm.input_messages.0.message.contents.1.message_content.image.image.url", data),
            ("llm.output_messages.0.message.role", "assistant"),
            ("llm.output_messages.0.message.content", "A cat."),
        ]),
        4 => call(&[
            ("openinference.span.kind", "LLM"),
            ("input.value", &json!({"messages": [{"role": "user", "content": content}]}).to_string()),
            ("output.value", &json!({"role": "assistant", "content": "A cat."}).to_string()),
        ]),
        5 => call(&[
            ("operation.name", "ai.generateText.doGenerate"),
            ("ai.operationId", "ai.generateText.doGenerate"),
            ("ai.prompt.messages", &list),
            ("ai.response.text", "A cat."),
        ]),
        6 => {
            let asked = said("user", "What is on the screen?");
            let chat = [
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.input.messages", &asked),
                ("gen_ai.output.messages", &answer),
            ];
            let result = json!({"width": 640, "shot": data, "ok": true}).to_string();
            let tool = [
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "screenshot"),
                ("gen_ai.tool.call.result", &result),
            ];
            trace(vec![span(1, None, "execute_tool", &tool), span(2, None, "chat", &chat)])
        }
        _ => {
            let asked = said("user", "What is on the screen?");
            let chat = [
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.input.messages", &asked),
                ("gen_ai.output.messages", &answer),
            ];
            let result =
                json!({"content": [{"type": "text", "text": "Here."}, block], "isError": false}).to_string();
            let tool = [
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "screenshot"),
                ("gen_ai.tool.call.result", &result),
            ];
            trace(vec![span(1, None, "execute_tool", &tool), span(2, None, "chat", &chat)])
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pictures, sounds and files cost a placeholder, whatever library puts them wherever.
    #[test]
    fn no_bytes_of_a_picture_are_text_of_a_story(
        noise in prop::collection::vec(any::<u8>(), 600..1_500), spelling in 0..5u8, block in 0..11u8, carrier in 0..8u8,
    ) {
        let bytes: Vec<u8> = b"\x89PNG\r\n\x1a\n".iter().copied().chain(noise).collect();
        let data = spelled(&bytes, spelling);
        let shown = showing(&picture(&data, block), &data, carrier);
        let story = read(&shown).unwrap();
        let told = serde_json::to_string(&story).unwrap();
        let piece = &data[data.len() - 150..data.len() - 100];
        let piece = piece.split('\n').max_by_key(|line| line.len()).unwrap();
        prop_assert!(piece.len() > 24 && !told.contains(piece), "{told}");
        prop_assert!(told.len() < 3_000, "{told}");
        // OpenInference has pictures as addresses, so that bare base64 is an odd address there.
        let size = format!("{} bytes, sha256 ", bytes.len());
        prop_assert!(told.contains(&size) || carrier == 3 && spelling < 4, "{told}");
        prop_assert!(story.truncated.iter().any(|cut| cut.starts_with("media: 1 attachment")), "{:?}", story.truncated);
        prop_assert_eq!(story.answer.as_deref(), Some("A cat."));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_arrival_gives_the_same_story(run in prop::sample::select(RUNS.to_vec()), seed in any::<u64>()) {
        for whole in traces(run) {
            let mut shuffled = whole.clone();
            let mut state = seed | 1;
            for at in (1..shuffled.spans.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                shuffled.spans.swap(at, (state >> 33) as usize % (at + 1));
            }
            prop_assert_eq!(read(&whole), read(&shuffled));
        }
    }

    #[test]
    fn foreign_spans_change_nothing(run in prop::sample::select(RUNS.to_vec()), places in prop::collection::vec((any::<prop::sample::Index>(), 0..3usize), 1..12)) {
        for whole in traces(run) {
            let mut mixed = whole.clone();
            for (n, (place, kind)) in places.iter().enumerate() {
                let beside = &whole.spans[place.index(whole.spans.len())];
                let pairs: &[(&str, &str)] = match kind {
                    0 => &[("http.request.method", "POST"), ("url.full", "http://llm.example/v1/chat"), ("http.response.status_code", "200")],
                    1 => &[("db.system.name", "postgresql"), ("db.query.text", "SELECT 'tool', 'agent' FROM messages")],
                    _ => &[("messaging.system", "kafka"), ("messaging.destination.name", "orders")],
                };
                let mut foreign = span(n as u64, None, "foreign", pairs);
                foreign.trace_id = whole.trace_id;
                foreign.parent_id = Some(beside.span_id);
                foreign.start = beside.start;
                foreign.end = beside.end;
                foreign.resource = Arc::clone(&beside.resource);
                mixed.spans.insert(place.index(mixed.spans.len()), foreign);
            }
            prop_assert_eq!(read(&whole), read(&mixed));
        }
    }
}
