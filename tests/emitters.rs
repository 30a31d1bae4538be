//! Emitters beyond the corpus, written from their public conventions: each tells the same short story.

use std::fs;
use std::path::Path;

use assayd::convert::{join_runs, read, story};
use assayd::domain::{
    Attributes, Event, Json, LogRecord, Span, SpanId, SpanKind, StepKind, Story, Time, Trace, TraceId, Value,
};
use assayd::receive::read_files;
use serde_json::json;

const ASKED: &str = "How warm is it in Oslo?";
const THOUGHT: &str = "I look at the thermometer.";
const SEEN: &str = "7 degrees at noon";
const ANSWER: &str = "It is 7 degrees in Oslo.";

fn value(json: Json) -> Value {
    match json {
        Json::String(text) => Value::String(text),
        Json::Bool(truth) => Value::Bool(truth),
        Json::Number(number) => number.as_i64().map_or(Value::Null, Value::Int),
        Json::Array(items) => Value::List(items.into_iter().map(value).collect()),
        Json::Object(map) => {
            Value::Map(map.into_iter().map(|(key, inner)| (key, value(inner))).collect::<Attributes>())
        }
        Json::Null => Value::Null,
    }
}

/// Text as most instrumentations send structured values.
fn text(json: Json) -> Json {
    Json::String(json.to_string())
}

fn attributes(json: Json) -> Attributes {
    let Json::Object(map) = json else { panic!("attributes are an object") };
    map.into_iter().map(|(key, inner)| (key, value(inner))).collect()
}

fn trace_id() -> TraceId {
    TraceId::try_from(&[9u8; 16][..]).unwrap()
}

fn id(number: u64) -> SpanId {
    SpanId::try_from(&number.to_be_bytes()[..]).unwrap()
}

fn span(number: u64, parent: u64, name: &str, pairs: Json) -> Span {
    Span {
        parent_id: (parent > 0).then(|| id(parent)),
        name: name.to_owned(),
        kind: SpanKind::Internal,
        start: Time(number * 1_000),
        end: Time(if parent == 0 { 90_000 } else { number * 1_000 + 900 }),
        attributes: attributes(pairs),
        ..Span::new(trace_id(), id(number))
    }
}

fn trace(spans: Vec<Span>, logs: Vec<LogRecord>) -> Trace {
    Trace { spans, logs, ..Trace::new(trace_id()) }
}

fn assert_story(emitter: &str, story: &Story) {
    let told: Vec<String> = story
        .steps
        .iter()
        .map(|step| {
            let arguments = step.arguments.as_ref().map(Json::to_string).unwrap_or_default();
            format!(
                "{:?} {}{}{arguments}",
                step.kind,
                step.text.as_deref().unwrap_or_default(),
                step.tool.as_deref().unwrap_or_default()
            )
        })
        .collect();
    let kinds: Vec<StepKind> = story.steps.iter().map(|step| step.kind).collect();
    let wanted =
        [StepKind::Request, StepKind::Thought, StepKind::ToolCall, StepKind::Observation, StepKind::Answer];
    assert_eq!(kinds, wanted, "{emitter}: {told:#?}");
    assert_eq!(story.request.as_deref(), Some(ASKED), "{emitter}");
    assert_eq!(story.steps[1].text.as_deref(), Some(THOUGHT), "{emitter}");
    assert_eq!(story.steps[2].tool.as_deref(), Some("thermometer"), "{emitter}");
    assert_eq!(story.steps[2].arguments, Some(json!({"city": "Oslo"})), "{emitter}");
    assert_eq!(story.steps[3].text.as_deref(), Some(SEEN), "{emitter}");
    assert_eq!(story.answer.as_deref(), Some(ANSWER), "{emitter}");
}

fn check(emitter: &str, spans: Vec<Span>) {
    match story(&trace(spans, Vec::new())) {
        Ok(story) => assert_story(emitter, &story),
        Err(skip) => panic!("{emitter}: {skip}"),
    }
}

fn openai_history() -> [Json; 4] {
    [
        json!({"role": "user", "content": ASKED}),
        json!({"role": "assistant", "content": THOUGHT, "tool_calls": [{"id": "c1", "type": "function",
            "function": {"name": "thermometer", "arguments": "{\"city\": \"Oslo\"}"}}]}),
        json!({"role": "tool", "tool_call_id": "c1", "content": SEEN}),
        json!({"role": "assistant", "content": ANSWER}),
    ]
}

#[test]
fn products_that_box_input_and_output_are_read() {
    let [u, call, result, answer] = openai_history();
    let cases = [
        (
            "langfuse",
            "langfuse.observation.type",
            "langfuse.observation.input",
            "langfuse.observation.output",
            ["agent", "generation", "tool"],
        ),
        ("laminar", "lmnr.span.type", "lmnr.span.input", "lmnr.span.output", ["DEFAULT", "LLM", "TOOL"]),
        ("langwatch", "langwatch.span.type", "langwatch.input", "langwatch.output", ["agent", "llm", "tool"]),
        (
            "openinference boxed",
            "openinference.span.kind",
            "input.value",
            "output.value",
            ["AGENT", "LLM", "TOOL"],
        ),
        (
            "mlflow",
            "mlflow.spanType",
            "mlflow.spanInputs",
            "mlflow.spanOutputs",
            ["AGENT", "CHAT_MODEL", "TOOL"],
        ),
        ("opik", "opik.span.type", "opik.input", "opik.output", ["general", "llm", "tool"]),
    ];
    for (emitter, kind, input, output, [agent, model, tool]) in cases {
        let boxed = |number, parent, name: &str, word: &str, from: Json, to: Json| {
            span(number, parent, name, json!({kind: word, input: text(from), output: text(to)}))
        };
        check(
            emitter,
            vec![
                boxed(1, 0, "run", agent, json!({"question": ASKED}), json!(ANSWER)),
                boxed(2, 1, "chat", model, json!([u]), call.clone()),
                boxed(3, 1, "thermometer", tool, json!({"city": "Oslo"}), json!(SEEN)),
                boxed(4, 1, "chat", model, json!([u, call, result]), answer.clone()),
            ],
        );
    }
}

#[test]
fn genkit_is_read() {
    let u = json!({"role": "user", "content": [{"text": ASKED}]});
    let call = json!({"role": "model", "content": [{"text": THOUGHT}, {"toolRequest": {"name": "thermometer", "ref": "c1", "input": {"city": "Oslo"}}}]});
    let result = json!({"role": "tool", "content": [{"toolResponse": {"name": "thermometer", "ref": "c1", "output": SEEN}}]});
    let answer = json!({"role": "model", "content": [{"text": ANSWER}]});
    let model = |number, history: Json, reply: &Json| {
        span(
            number,
            1,
            "gemini",
            json!({"genkit:type": "action", "genkit:metadata:subtype": "model", "genkit:name": "gemini",
            "genkit:input": text(json!({"messages": history, "tools": []})), "genkit:output": text(json!({"message": reply, "finishReason": "stop"}))}),
        )
    };
    check(
        "genkit",
        vec![
            span(
                1,
                0,
                "flow",
                json!({"genkit:metadata:subtype": "flow", "genkit:input": text(json!(ASKED)), "genkit:output": text(json!(ANSWER))}),
            ),
            model(2, json!([u]), &call),
            span(
                3,
                1,
                "thermometer",
                json!({"genkit:metadata:subtype": "tool", "genkit:name": "thermometer", "genkit:input": text(json!({"city": "Oslo"})), "genkit:output": text(json!(SEEN))}),
            ),
            model(4, json!([u, call, result]), &answer),
        ],
    );
}

#[test]
fn first_generations_of_openllmetry_are_read() {
    check(
        "llm.prompts",
        vec![
            span(
                1,
                0,
                "openai.chat",
                json!({"llm.request.type": "chat", "llm.prompts.0.role": "user", "llm.prompts.0.content": ASKED,
            "llm.completions.0.content": THOUGHT, "llm.completions.0.function_call.name": "thermometer", "llm.completions.0.function_call.arguments": "{\"city\": \"Oslo\"}"}),
            ),
            span(
                2,
                0,
                "openai.chat",
                json!({"llm.request.type": "chat", "llm.prompts.0.role": "user", "llm.prompts.0.content": ASKED,
            "llm.prompts.1.role": "assistant", "llm.prompts.1.content": THOUGHT, "llm.prompts.1.function_call.name": "thermometer", "llm.prompts.1.function_call.arguments": "{\"city\": \"Oslo\"}",
            "llm.prompts.2.role": "function", "llm.prompts.2.name": "thermometer", "llm.prompts.2.content": SEEN, "llm.completions.0.content": ANSWER}),
            ),
        ],
    );
}

#[test]
fn azure_and_bare_texts_and_logfire_are_read() {
    let [u, call, result, answer] = openai_history();
    let event = |name: &str, content: &Json| Event {
        name: name.to_owned(),
        time: Time(1),
        attributes: attributes(
            json!({"gen_ai.system": "az.ai.inference", "gen_ai.event.content": text(content.clone())}),
        ),
        dropped_attributes: 0,
    };
    let mut first = span(1, 0, "chat gpt", json!({"gen_ai.operation.name": "chat"}));
    first.events = vec![
        event("gen_ai.user.message", &u),
        event("gen_ai.choice", &json!({"message": call, "finish_reason": "tool_calls", "index": 0})),
    ];
    let mut second = span(2, 0, "chat gpt", json!({"gen_ai.operation.name": "chat"}));
    second.events = vec![
        event("gen_ai.user.message", &u),
        event("gen_ai.assistant.message", &call),
        event("gen_ai.tool.message", &result),
        event("gen_ai.choice", &json!({"message": answer, "finish_reason": "stop", "index": 0})),
    ];
    check("azure", vec![first, second]);

    let data = |history: Json| text(json!({"model": "gpt", "messages": history}));
    check(
        "logfire",
        vec![
            span(
                1,
                0,
                "Chat Completion",
                json!({"request_data": data(json!([u])), "response_data": text(json!({"message": call, "usage": null}))}),
            ),
            span(
                2,
                0,
                "Chat Completion",
                json!({"request_data": data(json!([u, call, result])), "response_data": text(json!({"combined_chunk_content": ANSWER, "chunk_count": 3}))}),
            ),
        ],
    );

    let spring = span(
        1,
        0,
        "chat gpt",
        json!({"gen_ai.operation.name": "chat", "gen_ai.prompt": [ASKED], "gen_ai.completion": [ANSWER]}),
    );
    let told = story(&trace(vec![spring], Vec::new())).unwrap();
    assert_eq!((told.request.as_deref(), told.answer.as_deref()), (Some(ASKED), Some(ANSWER)));
}

#[test]
fn records_of_the_aws_distribution_are_read() {
    let [u, call, result, answer] = openai_history();
    let record = |number: u64, history: Json, reply: &Json| LogRecord {
        span_id: Some(id(number)),
        time: Time(number * 1_000 + 500),
        event_name: "strands.telemetry.tracer".to_owned(),
        body: value(json!({"input": {"messages": history}, "output": {"messages": [reply]}})),
        ..LogRecord::new(trace_id())
    };
    let bare = |number| span(number, 0, "chat", json!({"gen_ai.operation.name": "chat"}));
    let logs = vec![record(1, json!([u]), &call), record(2, json!([u, call, result]), &answer)];
    assert_story("aws", &story(&trace(vec![bare(1), bare(2)], logs)).unwrap());
}

#[test]
fn bedrock_gemini_and_responses_shapes_are_read_under_the_latest_conventions() {
    let shapes = [
        (
            "bedrock",
            json!([{"role": "user", "content": [{"text": ASKED}]}]),
            json!({"output": {"message": {"role": "assistant", "content": [{"text": THOUGHT}, {"toolUse": {"toolUseId": "c1", "name": "thermometer", "input": {"city": "Oslo"}}}]}}}),
            json!({"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": SEEN}], "status": "success"}}]}),
            json!({"output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}}}),
        ),
        (
            "gemini",
            json!([{"role": "user", "parts": [{"text": ASKED}]}]),
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": THOUGHT}, {"functionCall": {"name": "thermometer", "args": {"city": "Oslo"}}}]}}]}),
            json!({"role": "user", "parts": [{"functionResponse": {"name": "thermometer", "response": {"result": SEEN}}}]}),
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}}]}),
        ),
        (
            "responses",
            json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASKED}]}]),
            json!([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": THOUGHT}]}, {"type": "function_call", "call_id": "c1", "name": "thermometer", "arguments": "{\"city\": \"Oslo\"}"}]),
            json!({"type": "function_call_output", "call_id": "c1", "output": SEEN}),
            json!([{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}]),
        ),
    ];
    for (emitter, history, call, result, answer) in shapes {
        let model = |number, input: &Json, output: &Json| {
            span(
                number,
                0,
                "chat",
                json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": text(input.clone()), "gen_ai.output.messages": text(output.clone())}),
            )
        };
        let inner = call.pointer("/output/message").or(call.pointer("/candidates/0/content")).cloned();
        let mut longer = history.as_array().unwrap().clone();
        longer.extend(inner.map_or_else(|| call.as_array().unwrap().clone(), |message| vec![message]));
        longer.push(result);
        check(emitter, vec![model(1, &history, &call), model(2, &Json::Array(longer), &answer)]);
    }
}

#[test]
fn the_react_protocol_is_read() {
    let step = format!("Thought: {THOUGHT}\nAction: thermometer\nAction Input: {{\"city\": \"Oslo\"}}");
    let last = format!("Thought: I know it now.\nFinal Answer: {ANSWER}");
    let model = |number, history: Json, reply: &str| {
        span(
            number,
            0,
            "chat",
            json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": text(history),
            "gen_ai.output.messages": text(json!([{"role": "assistant", "parts": [{"type": "text", "content": reply}]}]))}),
        )
    };
    let u = json!({"role": "user", "content": ASKED});
    let told = story(&trace(vec![
        model(1, json!([u]), &step),
        model(2, json!([u, {"role": "assistant", "content": step}, {"role": "user", "content": format!("Observation: {SEEN}")}]), &last),
    ], Vec::new())).unwrap();
    let kinds: Vec<StepKind> = told.steps.iter().map(|step| step.kind).collect();
    assert_eq!(
        kinds,
        [
            StepKind::Request,
            StepKind::Thought,
            StepKind::ToolCall,
            StepKind::Observation,
            StepKind::Thought,
            StepKind::Answer
        ]
    );
    assert_eq!(told.steps[3].text.as_deref(), Some(SEEN));
    assert_eq!(told.answer.as_deref(), Some(ANSWER));
}

#[test]
fn pictures_are_placeholders_and_never_prompt_text() {
    let data = "iVBORw0KGgo".repeat(1_000);
    let asked = json!([{"role": "user", "parts": [{"type": "text", "content": ASKED}, {"type": "blob", "modality": "image", "mime_type": "image/png", "content": data}]}]);
    let told = story(&trace(vec![span(1, 0, "chat", json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": text(asked),
        "gen_ai.output.messages": text(json!([{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]))}))], Vec::new())).unwrap();
    let request = told.request.unwrap();
    assert!(request.starts_with(&format!("{ASKED}\n[image/png, 8250 bytes, sha256 ")), "{request}");
}

/// Exports of real libraries that the trace corpus does not have, each with the stories that are in it.
#[test]
fn exports_of_further_libraries_are_told_as_they_happened() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/emitters");
    let manifest = fs::read_to_string(folder.join("MANIFEST.jsonl")).unwrap();
    let mut wrong = Vec::new();
    for line in manifest.lines() {
        let row: Json = serde_json::from_str(line).unwrap();
        let files: Vec<_> =
            row["files"].as_array().unwrap().iter().map(|file| folder.join(file.as_str().unwrap())).collect();
        let found = read_files(&files);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        let traces = join_runs(found.traces);
        let stories: Vec<Json> =
            traces.iter().filter_map(|trace| read(trace).ok()).map(|s| told(&s)).collect();
        if json!(stories) != row["stories"] {
            wrong.push(format!("{}:\n  told   {}\n  wanted {}", row["name"], json!(stories), row["stories"]));
        }
        for trace in traces {
            let straight = read(&trace).ok();
            let mut turned = trace;
            turned.spans.reverse();
            turned.logs.reverse();
            assert_eq!(
                read(&turned).ok(),
                straight,
                "{}: the order of arrival changes the story",
                row["name"]
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn told(story: &Story) -> Json {
    let step = |step: &assayd::domain::Step| {
        let kind = serde_json::to_value(step.kind).unwrap();
        match step.kind {
            StepKind::ToolCall => json!([kind, step.tool, step.arguments]),
            StepKind::Handoff => json!([kind, step.tool]),
            _ => json!([kind, step.text]),
        }
    };
    Json::Array(story.steps.iter().map(step).collect())
}

#[test]
fn names_that_nobody_agreed_on_are_read_by_their_words_and_shapes() {
    let [u, call, result, answer] = openai_history();
    let history = json!([u, call, result]);
    // Kinds, inputs and outputs under a product's own names.
    check(
        "acme",
        vec![
            span(
                1,
                0,
                "run",
                json!({"acme.span.kind": "agent", "acme.input": text(json!({"question": ASKED})), "acme.output": ANSWER}),
            ),
            span(
                2,
                1,
                "gpt",
                json!({"acme.span.kind": "llm", "acme.input": text(json!([u])), "acme.output": text(call.clone()), "acme.input_tokens": "12"}),
            ),
            span(
                3,
                1,
                "thermometer",
                json!({"acme.span.kind": "tool", "acme.input": text(json!({"city": "Oslo"})), "acme.output": SEEN}),
            ),
            span(
                4,
                1,
                "gpt",
                json!({"acme.span.kind": "llm", "acme.input": text(history.clone()), "acme.output": text(answer.clone())}),
            ),
        ],
    );
    // A voice agent's: no kinds, the reply's calls apart from its text.
    check(
        "livekit",
        vec![
            span(1, 0, "agent_turn", json!({"lk.user_input": ASKED, "lk.response.text": ANSWER})),
            span(
                2,
                1,
                "llm_node",
                json!({"lk.chat_ctx": text(json!({"items": [u]})), "lk.user_input": ASKED, "lk.response.text": THOUGHT,
                "lk.response.function_calls": text(json!([{"id": "c1", "name": "thermometer", "arguments": "{\"city\": \"Oslo\"}"}]))}),
            ),
            span(
                3,
                1,
                "function_tool",
                json!({"lk.function_tool.name": "thermometer", "lk.function_tool.id": "c1",
                "lk.function_tool.arguments": "{\"city\": \"Oslo\"}", "lk.function_tool.output": SEEN, "lk.function_tool.is_error": false}),
            ),
            span(4, 1, "llm_node", json!({"lk.chat_ctx": text(history.clone()), "lk.response.text": ANSWER})),
        ],
    );
    // Message lists and whole replies of model APIs under names that say nothing of a kind.
    let reply = |message: &Json| {
        text(json!({"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    };
    check(
        "raw bodies",
        vec![
            span(
                1,
                0,
                "call",
                json!({"gateway.request.body": text(json!({"model": "m", "messages": [u]})), "gateway.response.body": reply(&call)}),
            ),
            span(
                2,
                0,
                "call",
                json!({"gateway.request.body": text(json!({"model": "m", "messages": history})), "gateway.response.body": reply(&answer)}),
            ),
        ],
    );
    // Every argument under a key of its own; a framework's spans for tools alone beside model calls of the conventions.
    let model = |number, input: &Json, output: &Json| {
        let from = json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": text(input.clone()), "gen_ai.output.messages": text(json!([output]))});
        span(number, 1, "chat", from)
    };
    for tool in [
        json!({"bee_event_type": "tool", "bee_inputs.city": "Oslo", "bee_outputs.result": SEEN}),
        json!({"spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "thermometer", "spring.ai.tool.definition.schema": "{}",
            "spring.ai.tool.call.arguments": "{\"city\": \"Oslo\"}", "spring.ai.tool.call.result": SEEN}),
    ] {
        check(
            "tools apart",
            vec![
                span(1, 0, "run", json!({})),
                model(2, &json!([u]), &call),
                span(3, 1, "thermometer", tool),
                model(4, &json!([u, call]), &answer),
            ],
        );
    }
    // Indexed keys under an unknown prefix.
    check(
        "indexed",
        vec![
            span(
                1,
                0,
                "call",
                json!({"bot.prompts.0.role": "user", "bot.prompts.0.content": ASKED, "bot.completions.0.content": THOUGHT,
                "bot.completions.0.tool_calls.0.id": "c1", "bot.completions.0.tool_calls.0.name": "thermometer", "bot.completions.0.tool_calls.0.arguments": "{\"city\": \"Oslo\"}"}),
            ),
            span(
                2,
                0,
                "call",
                json!({"bot.prompts.0.role": "user", "bot.prompts.0.content": ASKED,
                "bot.prompts.1.role": "tool", "bot.prompts.1.tool_call_id": "c1", "bot.prompts.1.content": SEEN, "bot.completions.0.content": ANSWER}),
            ),
        ],
    );
}

#[test]
fn spans_of_other_things_stay_out_whatever_their_attributes_are_called() {
    let others = vec![
        span(
            1,
            0,
            "GET /chat",
            json!({"http.request.method": "GET", "http.response.body": "{\"role\": \"user\", \"content\": \"hi\"}"}),
        ),
        span(
            2,
            1,
            "SELECT",
            json!({"db.system": "postgresql", "db.query.text": "select content, role from messages", "result": "[{\"role\": \"user\", \"content\": \"hi\"}]"}),
        ),
        span(3, 1, "publish", json!({"messaging.system": "kafka", "message.payload": "{\"input\": \"x\"}"})),
        span(
            4,
            1,
            "job",
            json!({"job.type": "import", "job.input": "file.csv", "job.output": "done", "request": "r-1", "response": "ok"}),
        ),
        span(5, 1, "cache", json!({"cache.key": "k", "cache.result": "hit", "args": "[1, 2]"})),
    ];
    assert!(story(&trace(others, Vec::new())).is_err());
}
