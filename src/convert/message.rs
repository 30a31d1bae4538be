//! Messages out of JSON, whatever library shaped them: OpenAI chat and Responses, Anthropic and Bedrock blocks, Gemini
//! contents, GenAI parts, Vercel's parts, LangChain in its three forms, Haystack and LlamaIndex objects.

use serde_json::Map;

use super::block::{block, blocks, call, is_block, nested, outcome, reasoning, told_by};
use super::parse::{CLASS, parse};
use super::talk::{Call, Message, Outcome, Part, Role};
use super::text::{Decoded, decode_str, is_constant, is_masked, pick, pick_str, plain};
use super::wrapping::{Shown, result_str};
use crate::domain::Json;

const DEEPEST: usize = 12;

/// All messages that `json` holds, in order. Empty if it holds none.
pub(super) fn messages(json: &Json, default: Role) -> Vec<Message> {
    let mut out = Vec::new();
    gather(json, default, 0, &mut out);
    out
}

/// As [`messages`], of a value that may have been cut: what the cut fell into is dropped unless it is text.
pub(super) fn messages_of(decoded: &Decoded, default: Role) -> Vec<Message> {
    let mut out = messages(&decoded.json, default);
    if decoded.cut
        && let Some(last) = out.last_mut()
        && matches!(last.parts.last(), Some(Part::Call(_)))
    {
        last.parts.pop();
    }
    out
}

/// Keys under which requests, responses and states keep their messages.
const HOLDERS: [&str; 19] = [
    "messages",
    "contents",
    "input",
    "prompt",
    "chat_history",
    "input_messages",
    "replies",
    "output",
    "outputs",
    "inputs",
    "message",
    "choices",
    "candidates",
    "generations",
    "content",
    "response",
    "update",
    "items",
    "result",
];

fn gather(json: &Json, default: Role, depth: usize, out: &mut Vec<Message>) {
    if depth > DEEPEST {
        return;
    }
    match json {
        Json::Array(items) => {
            if items.iter().all(is_block) && !items.is_empty() {
                out.push(Message::new(default, blocks(items)));
                return;
            }
            // Prompts or completions as bare texts.
            if depth == 0
                && !items.is_empty()
                && items.iter().all(|item| item.as_str().is_some_and(|text| parse(text).is_none()))
            {
                out.extend(items.iter().filter_map(Json::as_str).map(|text| Message::text(default, text)));
                return;
            }
            // LangChain's batches: a list of lists, of which one trace sees one.
            if let Some(Json::Array(_)) = items.first() {
                gather(&items[0], default, depth + 1, out);
                return;
            }
            for item in items {
                gather(item, default, depth + 1, out);
            }
        }
        Json::Object(map) => {
            if let Some(message) = message(map, default) {
                out.push(message);
                return;
            }
            hold(map, default, depth, out);
        }
        Json::String(text) => {
            if let Some(parsed) =
                parse(text).filter(|parsed| parsed.json.is_object() || parsed.json.is_array())
            {
                gather(&parsed.json, default, depth + 1, out);
            }
        }
        _ => {}
    }
}

/// Messages of a request, response or state object.
fn hold(map: &Map<String, Json>, default: Role, depth: usize, out: &mut Vec<Message>) {
    // A system prompt that stands apart is not part of the story.
    for key in HOLDERS {
        let Some(value) = map.get(key) else { continue };
        let is_choice_list = matches!(key, "choices" | "candidates" | "generations");
        let value = match value {
            Json::Array(items) if is_choice_list => match items.first() {
                Some(first) => first,
                None => continue,
            },
            other => other,
        };
        let role = if is_choice_list { Role::Assistant } else { default };
        let before = out.len();
        match value {
            Json::String(text) if matches!(key, "prompt" | "input" | "content" | "message") => {
                if !is_masked(text) && !text.is_empty() {
                    out.push(Message::text(role, text.clone()));
                }
            }
            Json::String(text) if key == "output" && !is_constant(text) => {
                out.push(Message::text(Role::Assistant, text.clone()))
            }
            other => gather(other, role, depth + 1, out),
        }
        if out.len() > before {
            return;
        }
    }
    // A LangChain generation: {"text": ..., "message": ...}, reached only without a message.
    if default == Role::Assistant
        && let Some(text) = pick_str(map, &["text", "output_text", "combined_chunk_content"])
    {
        out.push(Message::text(Role::Assistant, text));
    }
}

fn role_of(word: &str) -> Option<Role> {
    let word = word.rsplit('.').next().unwrap_or(word);
    Some(match word.to_ascii_lowercase().as_str() {
        "system" | "developer" | "systemmessage" => Role::System,
        "user" | "human" | "humanmessage" | "humanmessagechunk" | "usermessage" => Role::User,
        "assistant" | "ai" | "model" | "aimessage" | "aimessagechunk" | "assistantmessage" | "chatbot"
        | "agent" | "thinking" | "tool-call" | "tool_call" => Role::Assistant,
        "tool" | "function" | "toolmessage" | "functionmessage" | "tool-response" | "tool_response"
        | "ipython" | "toolresult" | "observation" => Role::Tool,
        _ => return None,
    })
}

/// One message; `None` if the object is none.
fn message(map: &Map<String, Json>, default: Role) -> Option<Message> {
    // LangChain's constructor form.
    if let (Some(Json::Array(id)), Some(Json::Object(kwargs))) = (map.get("id"), map.get("kwargs"))
        && map.contains_key("lc")
    {
        let class = id.last().and_then(Json::as_str).unwrap_or_default();
        let role = role_of(class).or_else(|| pick_str(kwargs, &["type", "role"]).and_then(role_of))?;
        return Some(body(kwargs, role));
    }
    // LangChain's {"type": "human", "data": {...}}
    if let (Some(Json::String(kind)), Some(Json::Object(data))) = (map.get("type"), map.get("data"))
        && let Some(role) = role_of(kind)
    {
        return Some(body(data, role));
    }
    // Wrapped once: {"message": {"role": ...}} of OpenInference and of choices.
    if let Some(Json::Object(inner)) = map.get("message")
        && !map.contains_key("role")
    {
        if map.contains_key("content") {
            return None;
        }
        let is_choice =
            map.contains_key("finish_reason") || map.contains_key("index") || map.contains_key("text");
        return message(inner, if is_choice { Role::Assistant } else { default });
    }
    if let Some(found) = responses_item(map).or_else(|| autogen_event(map)) {
        return Some(found);
    }
    // Older indexed attributes name the role in the key: {"user": "…"}.
    if let (1, Some((key, Json::String(text)))) = (map.len(), map.iter().next())
        && matches!(key.as_str(), "user" | "system" | "assistant")
        && let Some(role) = role_of(key)
    {
        return Some(Message::text(role, text.clone()));
    }
    let said = pick_str(map, &["role", "_role", "author_role"]).and_then(role_of);
    let role = match said {
        Some(role) => role,
        None if map.contains_key("role") && map.keys().any(|k| matches!(k.as_str(), "content" | "parts")) => {
            default
        }
        None => {
            let has_body =
                ["content", "parts", "tool_calls", "blocks"].iter().any(|key| map.contains_key(*key));
            let kind = pick_str(map, &["type", CLASS]).and_then(role_of);
            match kind {
                Some(role) if has_body => role,
                // Gemini's model content may lack a role.
                _ if map.contains_key("parts") => default,
                _ => return None,
            }
        }
    };
    let is_result = role == Role::User
        && pick_str(map, &["tool_call_id", "toolCallId"]).is_some()
        && pick(map, &["tool_calls"]).is_none();
    Some(body(map, if is_result { Role::Tool } else { role }))
}

/// An item of OpenAI's Responses API that is not a message with a role.
fn responses_item(map: &Map<String, Json>) -> Option<Message> {
    let kind = map.get("type").and_then(Json::as_str)?;
    match kind {
        "function_call" | "custom_tool_call" | "mcp_call" if !map.contains_key("role") => {
            let part = Part::Call(call(map)?);
            let mut parts = vec![part];
            // A hosted MCP call carries its result.
            if kind == "mcp_call"
                && let Some(output) = pick_str(map, &["output", "error"])
            {
                let id = pick_str(map, &["call_id", "id"]).map(str::to_owned);
                let failed = map.get("error").is_some_and(|error| !error.is_null()).then_some(true);
                parts.push(Part::Result(Outcome { id, tool: None, text: output.to_owned(), failed }));
            }
            Some(Message::new(Role::Assistant, parts))
        }
        "function_call_output" | "custom_tool_call_output" => {
            Some(Message::new(Role::Tool, vec![Part::Result(outcome(map))]))
        }
        "reasoning"
            if !map.contains_key("role") && (map.contains_key("summary") || map.contains_key("id")) =>
        {
            let thoughts = reasoning(map);
            Some(Message::new(Role::Assistant, thoughts.into_iter().map(Part::Thought).collect()))
        }
        _ => None,
    }
}

/// A message or event of AutoGen: `{source, type, content}`.
fn autogen_event(map: &Map<String, Json>) -> Option<Message> {
    let source = map.get("source").and_then(Json::as_str)?;
    let kind = map.get("type").and_then(Json::as_str)?;
    let content = map.get("content")?;
    let items = || content.as_array().into_iter().flatten().filter_map(Json::as_object);
    let assistant = |parts| Some(Message { role: Role::Assistant, parts, speaker: Some(source.to_owned()) });
    match kind {
        "ThoughtEvent" => assistant(vec![Part::Thought(plain(content))]),
        "ToolCallRequestEvent" => assistant(items().filter_map(call).map(Part::Call).collect()),
        "ToolCallExecutionEvent" => {
            Some(Message::new(Role::Tool, items().map(|item| Part::Result(outcome(item))).collect()))
        }
        "HandoffMessage" => {
            let target = pick_str(map, &["target"])?;
            let handoff =
                Call { id: None, also: Vec::new(), name: format!("transfer_to_{target}"), arguments: None };
            assistant(vec![Part::Call(handoff)])
        }
        "TextMessage" | "StructuredMessage" | "MultiModalMessage" => {
            let role = if source == "user" { Role::User } else { Role::Assistant };
            let parts = match content {
                Json::Array(blocks_of) => blocks(blocks_of),
                other => vec![Part::Text(plain(other))],
            };
            let speaker = (role == Role::Assistant).then(|| source.to_owned());
            Some(Message { role, parts, speaker })
        }
        // A summary repeats results, a stop message speaks of the run, a chunk comes again whole.
        _ if kind.ends_with("Event") || kind.ends_with("Message") => {
            Some(Message::new(Role::System, Vec::new()))
        }
        _ => None,
    }
}

/// The parts of a message whose role is known.
fn body(map: &Map<String, Json>, role: Role) -> Message {
    let mut parts = Vec::new();
    for key in ["reasoning_content", "reasoning", "thinking", "thought"] {
        if let Some(Json::String(text)) = map.get(key)
            && !text.trim().is_empty()
            && role == Role::Assistant
        {
            parts.push(Part::Thought(text.clone()));
            break;
        }
    }
    if role == Role::Assistant
        && let Some(extra) = map.get("additional_kwargs").and_then(Json::as_object)
        && let Some(text) = pick_str(extra, &["reasoning_content"])
    {
        parts.push(Part::Thought(text.to_owned()));
    }
    let is_thinking = map.get("role").and_then(Json::as_str) == Some("thinking");
    let answered = pick_str(map, &["tool_call_id", "toolCallId", "tool_use_id", "tool_response_id"])
        .or_else(|| if role == Role::Tool { pick_str(map, &["id", "call_id"]) } else { None });
    let content = pick(map, &["parts", "content", "contents", "blocks", "_content", "text"]);
    match content {
        Some(Json::String(text)) if role == Role::Tool => match listed_results(text) {
            Some(results) => parts.extend(results),
            None => parts.push(Part::Result(tool_text(map, answered, text))),
        },
        Some(Json::String(text)) => string_content(text, is_thinking, &mut parts),
        Some(Json::Array(items)) => {
            let inner = blocks(items);
            if role == Role::Tool && !inner.iter().any(|part| matches!(part, Part::Result(_))) {
                let text = Message::new(role, inner).joined();
                parts.push(Part::Result(tool_text(map, answered, &text)));
            } else {
                parts.extend(inner.into_iter().map(|part| with_id(part, answered)));
            }
        }
        Some(block @ Json::Object(_)) => {
            if role == Role::Tool {
                parts.push(Part::Result(tool_text(map, answered, &block.to_string())));
            } else {
                parts.extend(blocks(std::slice::from_ref(block)));
            }
        }
        Some(other) if role == Role::Tool => {
            parts.push(Part::Result(tool_text(map, answered, &plain(other))))
        }
        _ => {}
    }
    if role != Role::Tool {
        add_calls(map, &mut parts);
    }
    Message::new(role, parts)
}

/// Calls that stand beside the content; those that the content told already are not repeated.
fn add_calls(map: &Map<String, Json>, parts: &mut Vec<Part>) {
    let listed = pick(map, &["tool_calls", "toolCalls"]).and_then(Json::as_array);
    let extra =
        map.get("additional_kwargs").and_then(|extra| extra.get("tool_calls")).and_then(Json::as_array);
    let calls = listed.filter(|calls| !calls.is_empty()).or(extra);
    for item in calls.into_iter().flatten() {
        let Some(found) = item.as_object().and_then(call) else { continue };
        let known = parts.iter().any(|part| match part {
            Part::Call(told) if told.id.is_some() && found.id.is_some() => told.id == found.id,
            Part::Call(told) => told.name == found.name && told.arguments == found.arguments,
            _ => false,
        });
        if !known {
            parts.push(Part::Call(found));
        }
    }
    if let Some(Json::Object(legacy)) = map.get("function_call").filter(|_| calls.is_none_or(Vec::is_empty))
        && let Some(found) = call(legacy)
        && !parts.iter().any(|part| matches!(part, Part::Call(_)))
    {
        parts.push(Part::Call(found));
    }
}

/// Several results in one string: Bedrock's blocks as JSON.
fn listed_results(text: &str) -> Option<Vec<Part>> {
    if !text.starts_with("[{") || !text.contains("\"tool") {
        return None;
    }
    let decoded = decode_str(text);
    let items = decoded.json.as_array()?;
    let results = blocks(items);
    results.iter().any(|part| matches!(part, Part::Result(_))).then_some(results)
}

fn with_id(part: Part, id: Option<&str>) -> Part {
    match part {
        Part::Result(outcome) if outcome.id.is_none() => {
            Part::Result(Outcome { id: id.map(str::to_owned), ..outcome })
        }
        other => other,
    }
}

/// A message's content that is a plain string, or a list of blocks in a string.
fn string_content(text: &str, is_thinking: bool, parts: &mut Vec<Part>) {
    if text.is_empty() || is_masked(text) {
        return;
    }
    if is_thinking {
        parts.push(Part::Thought(text.to_owned()));
        return;
    }
    if text.starts_with("[{") {
        let decoded = decode_str(text);
        if let Json::Array(items) = &decoded.json
            && !items.is_empty()
            && items.iter().all(is_block)
        {
            let mut inner = blocks(items);
            if decoded.cut && matches!(inner.last(), Some(Part::Call(_))) {
                inner.pop();
            }
            parts.extend(inner);
            return;
        }
    }
    if let Some(inner) = nested(text) {
        return block(&inner, 0, parts);
    }
    parts.push(Part::Text(text.to_owned()));
}

fn tool_text(map: &Map<String, Json>, id: Option<&str>, text: &str) -> Outcome {
    let shown = if is_masked(text) { Shown::default() } else { result_str(text) };
    told_by(map, id, pick_str(map, &["name", "tool_name", "toolName"]), shown)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn called(id: &str, name: &str, arguments: Json) -> Part {
        Part::Call(Call {
            id: Some(id.to_owned()),
            also: Vec::new(),
            name: name.to_owned(),
            arguments: Some(arguments),
        })
    }

    fn told(id: &str, text: &str) -> Part {
        Part::Result(Outcome { id: Some(id.to_owned()), tool: None, text: text.to_owned(), failed: None })
    }

    #[test]
    fn the_same_call_is_read_from_every_spelling() {
        let wanted = called("c1", "look", json!({"q": 1}));
        let cases = [
            json!({"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"q\": 1}"}}]}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}}]}),
            json!({"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "look", "input": {"q": 1}}}]}),
            json!({"role": "model", "parts": [{"function_call": {"id": "c1", "name": "look", "args": {"q": 1}}}]}),
            json!({"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": "{\"q\":1}"}]}),
            json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {"q": 1}}]}),
            json!({"type": "function_call", "id": "fc_9", "call_id": "c1", "name": "look", "arguments": "{\"q\": 1}"}),
            json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"],
                "kwargs": {"content": "", "tool_calls": [{"name": "look", "args": {"q": 1}, "id": "c1", "type": "tool_call"}]}}),
            json!({"type": "ai", "data": {"content": "", "tool_calls": [{"name": "look", "args": {"q": 1}, "id": "c1"}]}}),
            json!({"message": {"role": "assistant", "tool_calls": [{"tool_call": {"id": "c1", "function": {"name": "look", "arguments": "{\"q\": 1}"}}}]}}),
            json!({"role": "assistant", "content": [{"tool_call": {"tool_name": "look", "arguments": {"q": 1}, "id": "c1"}}]}),
        ];
        for case in cases {
            let found = messages(&json!([case]), Role::Assistant);
            assert_eq!(found.len(), 1, "{case}");
            assert_eq!(found[0].parts, std::slice::from_ref(&wanted), "{case}");
        }
    }

    #[test]
    fn the_same_result_is_read_from_every_spelling() {
        let wanted = told("c1", "42");
        let cases = [
            json!({"role": "tool", "tool_call_id": "c1", "content": "42"}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "42"}]}]}),
            json!({"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "42"}]}}]}),
            json!({"role": "user", "parts": [{"functionResponse": {"id": "c1", "response": {"result": "42"}}}]}),
            json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "42"}]}),
            json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": {"output": "42"}}]}),
            json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "42"}}]}),
            json!({"type": "function_call_output", "call_id": "c1", "output": "42"}),
            json!({"role": "tool", "content": [{"tool_call_result": {"result": "42", "origin": {"id": "c1"}}}]}),
        ];
        for case in cases {
            let found = messages(&json!([case]), Role::User);
            assert_eq!(found.len(), 1, "{case}");
            let Part::Result(outcome) = &found[0].parts[0] else { panic!("{case}") };
            let bare = Outcome { failed: None, tool: None, ..outcome.clone() };
            assert_eq!(Part::Result(bare), wanted, "{case}");
        }
    }

    #[test]
    fn a_call_told_by_content_and_beside_it_counts_once() {
        let both = json!({"role": "assistant", "content": [{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}],
            "tool_calls": [{"name": "look", "args": {}, "id": "c1"}]});
        assert_eq!(messages(&both, Role::Assistant)[0].parts.len(), 1);
    }

    #[test]
    fn responses_and_states_give_their_messages() {
        let completion = json!({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}, {"index": 1, "message": {"role": "assistant", "content": "no"}}]});
        assert_eq!(messages(&completion, Role::Assistant), [Message::text(Role::Assistant, "hi")]);
        let anthropic = json!({"id": "m", "role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]});
        assert_eq!(
            messages(&anthropic, Role::Assistant)[0].parts,
            [Part::Thought("hm".into()), Part::Text("hi".into())]
        );
        let generation = json!({"generations": [[{"text": "hi", "message": {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "hi"}}}]]});
        assert_eq!(messages(&generation, Role::Assistant), [Message::text(Role::Assistant, "hi")]);
        let command =
            json!([{"graph": null, "update": {"messages": [{"type": "ai", "data": {"content": "hi"}}]}}]);
        assert_eq!(messages(&command, Role::User), [Message::text(Role::Assistant, "hi")]);
    }

    #[test]
    fn haystack_and_llama_index_objects_are_read_from_their_repr() {
        let text = json!({"messages": ["ChatMessage(_role=<ChatRole.TOOL: 'tool'>, _content=[ToolCallResult(result='42', origin=ToolCall(tool_name='look', arguments={}, id='c1'), error=True)], _name=None)",
            "ChatMessage(role=<MessageRole.USER: 'user'>, additional_kwargs={}, blocks=[TextBlock(block_type='text', text='hi')])"]});
        let found = messages(&text, Role::User);
        assert_eq!(
            found[0].parts,
            [Part::Result(Outcome {
                id: Some("c1".into()),
                tool: Some("look".into()),
                text: "42".into(),
                failed: Some(true)
            })]
        );
        assert_eq!(found[1], Message::text(Role::User, "hi"));
    }
}
