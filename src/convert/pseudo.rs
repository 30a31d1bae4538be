//! Text protocols: tool calls and answers that are written in a message's prose, by DSPy and smolagents, and pseudo tools
//! whose argument is the answer.

use super::parse::parse;
use super::talk::{Call, Message, Outcome, Part, Role};
use super::text::{decode_str, plain};
use super::wrapping::arguments;
use crate::domain::Json;

/// Rewrites messages of text protocols as ordinary ones.
pub(super) fn rewrite(messages: Vec<Message>) -> Vec<Message> {
    if !messages.iter().any(needs) {
        return messages;
    }
    messages
        .into_iter()
        .flat_map(|message| if needs(&message) { one(message) } else { vec![message] })
        .collect()
}

fn needs(message: &Message) -> bool {
    message.role != Role::System
        && message.parts.iter().any(|part| match part {
            Part::Text(text) => {
                is_react(text)
                    || text.contains("\"next_tool_name\"")
                    || text.contains("[[ ## ")
                    || text.contains("<code>")
                    || text.contains("Code:\n```")
                    || text.starts_with("Calling tools:")
            }
            Part::Call(call) => answer_of(call).is_some(),
            Part::Result(outcome) => outcome.text.starts_with("Observation:"),
            Part::Thought(_) => false,
        })
}

/// What a pseudo tool that ends the run was given: the answer, or nothing.
pub(super) fn answer_of(call: &Call) -> Option<Option<String>> {
    if !is_final(&call.name) {
        return None;
    }
    let Some(arguments) = &call.arguments else { return Some(None) };
    let answer = match arguments {
        Json::Object(map) if map.is_empty() => None,
        Json::Object(map) => {
            Some(match map.get("answer").or_else(|| map.get("response")).or(map.values().next()) {
                Some(Json::String(text)) if map.len() == 1 || map.contains_key("answer") => text.clone(),
                _ => arguments.to_string(),
            })
        }
        Json::Null => None,
        other => Some(plain(other)),
    };
    Some(answer)
}

/// Whether a tool of this name is none: calling it ends the run.
pub(super) fn is_final(name: &str) -> bool {
    matches!(name, "final_answer" | "finish" | "FinalAnswerTool" | "final_result" | "Finish")
}

/// The interpreter that runs a code agent's programs; the tools that they call have spans of their own.
pub(super) fn is_interpreter(name: &str) -> bool {
    name == "python_interpreter"
}

fn one(message: Message) -> Vec<Message> {
    let role = message.role;
    let mut out = Vec::new();
    let mut kept = Vec::new();
    for part in message.parts {
        match part {
            Part::Text(text) if fields_in(&text) => {
                flush(&mut out, role, &mut kept);
                out.extend(dspy(&text, role));
            }
            Part::Text(text) if text.starts_with("Calling tools:") => kept.extend(listed_calls(&text)),
            Part::Text(text) if role == Role::User && text.starts_with("Observation:") => {
                let text = observation(&text).to_owned();
                kept.push(Part::Result(Outcome { id: None, tool: None, text, failed: None }));
            }
            Part::Text(text) if role == Role::Assistant && is_react(&text) => {
                flush(&mut out, role, &mut kept);
                out.extend(react(&text));
            }
            Part::Text(text) if role == Role::Assistant && json_step(&text).is_some() => {
                flush(&mut out, role, &mut kept);
                out.extend(json_step(&text));
            }
            Part::Text(text) if role == Role::Assistant => kept.extend(code(&text)),
            Part::Call(call)
                if is_interpreter(&call.name) && matches!(call.arguments, Some(Json::String(_)) | None) => {}
            Part::Call(call) => match answer_of(&call) {
                Some(Some(answer)) => {
                    flush(&mut out, role, &mut kept);
                    out.push(Message::text(Role::Assistant, answer));
                }
                Some(None) => demote(&mut kept),
                None => kept.push(Part::Call(call)),
            },
            Part::Result(mut outcome) => {
                outcome.text = observation(&outcome.text).to_owned();
                kept.push(Part::Result(outcome));
            }
            other => kept.push(other),
        }
    }
    flush(&mut out, role, &mut kept);
    out
}

fn flush(out: &mut Vec<Message>, role: Role, kept: &mut Vec<Part>) {
    if !kept.is_empty() {
        out.push(Message::new(role, std::mem::take(kept)));
    }
}

/// Whether a text is written in the ReAct protocol of LangChain, CrewAI and LlamaIndex.
fn is_react(text: &str) -> bool {
    let line =
        |start: &str| text.match_indices(start).any(|(at, _)| at == 0 || text.as_bytes()[at - 1] == b'\n');
    text.starts_with("Observation:")
        || line("Action Input:") && line("Action:")
        || line("Final Answer:")
        || text.starts_with("Thought:") && line("Answer:")
}

/// Thought, action, its input, what was observed, and the answer at last.
fn react(text: &str) -> Vec<Message> {
    const LABELS: [&str; 6] =
        ["Thought:", "Action Input:", "Action:", "Observation:", "Final Answer:", "Answer:"];
    let mut pieces: Vec<(&str, String)> = vec![("Thought:", String::new())];
    for line in text.lines() {
        let label = LABELS.iter().find_map(|label| line.strip_prefix(label).map(|rest| (*label, rest)));
        let in_answer = pieces.last().is_some_and(|(last, _)| last.ends_with("Answer:"));
        match (label, pieces.last_mut()) {
            // An answer may hold such lines itself.
            (Some((label, rest)), _) if !in_answer => pieces.push((label, rest.to_owned())),
            (_, Some((_, piece))) => {
                piece.push('\n');
                piece.push_str(line);
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    let (mut thought, mut action) = (String::new(), None);
    for (label, piece) in pieces {
        let piece = piece.trim().trim_matches('`').trim().to_owned();
        match label {
            "Thought:" => thought = piece,
            "Action:" => action = Some(piece),
            "Action Input:" => {
                let name = action.take().unwrap_or_default();
                let call =
                    Call { id: None, also: Vec::new(), name, arguments: arguments(decode_str(&piece)) };
                let mut parts = Vec::new();
                if !thought.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut thought)));
                }
                parts.push(Part::Call(call));
                out.push(Message::new(Role::Assistant, parts));
            }
            "Observation:" if !piece.is_empty() => {
                let outcome = Outcome { id: None, tool: None, text: piece, failed: None };
                out.push(Message::new(Role::Tool, vec![Part::Result(outcome)]));
            }
            "Final Answer:" | "Answer:" => {
                let mut parts = Vec::new();
                if !thought.is_empty() {
                    parts.push(Part::Thought(std::mem::take(&mut thought)));
                }
                parts.push(Part::Text(piece));
                out.push(Message::new(Role::Assistant, parts));
            }
            _ => {}
        }
    }
    if !thought.is_empty() {
        out.push(Message::new(Role::Assistant, vec![Part::Thought(thought)]));
    }
    out
}

/// DSPy's other format: the same fields as JSON.
fn json_step(text: &str) -> Option<Message> {
    if !text.contains("\"next_tool_name\"") {
        return None;
    }
    let bare = text.trim().trim_start_matches("```json").trim_matches('`');
    let Json::Object(map) = decode_str(bare).json else { return None };
    let name = map.get("next_tool_name")?.as_str()?.to_owned();
    let call = Call { id: None, also: Vec::new(), name, arguments: map.get("next_tool_args").cloned() };
    let thought = map.get("next_thought").map(plain).unwrap_or_default();
    let parts = if answer_of(&call).is_some() {
        vec![Part::Thought(thought)]
    } else {
        vec![Part::Text(thought), Part::Call(call)]
    };
    Some(Message::new(Role::Assistant, parts))
}

/// Text beside a call that is no call is a thought all the same.
fn demote(parts: &mut [Part]) {
    for part in parts {
        if let Part::Text(text) = part {
            *part = Part::Thought(std::mem::take(text));
        }
    }
}

/// smolagents repeats calls as a message: "Calling tools:" and a Python list.
fn listed_calls(text: &str) -> Vec<Part> {
    let list = text.trim_start_matches("Calling tools:").trim();
    let Some(Json::Array(items)) = parse(list).map(|parsed| parsed.json) else { return Vec::new() };
    let calls = items.iter().filter_map(|item| super::block::call(item.as_object()?));
    calls.filter(|call| !is_interpreter(&call.name) && !is_final(&call.name)).map(Part::Call).collect()
}

/// "Observation:", "Execution logs:" and "Last output from code snippet:" around what the tool said.
fn observation(text: &str) -> &str {
    let text = text.strip_prefix("Observation:").unwrap_or(text).trim();
    let text = text.strip_prefix("Execution logs:").unwrap_or(text);
    match text.split_once("Last output from code snippet:") {
        Some((logs, last)) if last.trim() == "None" => logs.trim(),
        Some((logs, last)) if logs.trim().is_empty() => last.trim(),
        _ => text.trim(),
    }
}

/// A code agent's reply: a thought and a program. `final_answer("…")` in the program is the answer.
fn code(text: &str) -> Vec<Part> {
    let start = text.find("<code>").or_else(|| text.find("Code:\n```"));
    let Some(start) = start else { return vec![Part::Text(text.to_owned())] };
    let thought = text[..start].trim();
    let thought = thought.strip_prefix("Thought:").unwrap_or(thought).trim();
    let mut parts = Vec::new();
    if !thought.is_empty() {
        parts.push(Part::Thought(thought.to_owned()));
    }
    let program = &text[start..];
    if let Some(at) = program.find("final_answer(")
        && let Some(answer) = first_literal(&program[at + "final_answer(".len()..])
    {
        parts.push(Part::Text(answer));
    }
    parts
}

/// The string that `text` begins with, after a name such as `answer=`.
fn first_literal(text: &str) -> Option<String> {
    let text = text.trim_start();
    let text = text.strip_prefix("answer=").unwrap_or(text);
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut end = None;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            end = Some(at + c.len_utf8());
            break;
        }
    }
    match parse(&text[..end?])?.json {
        Json::String(answer) if !answer.is_empty() => Some(answer),
        _ => None,
    }
}

fn fields_in(text: &str) -> bool {
    text.contains("[[ ## ") && text.lines().any(|line| marker(line).is_some())
}

/// `[[ ## name ## ]]` on a line of its own.
fn marker(line: &str) -> Option<&str> {
    line.trim().strip_prefix("[[ ## ")?.strip_suffix(" ## ]]").filter(|name| !name.contains(' '))
}

fn fields(text: &str) -> Vec<(&str, String)> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = marker(line) {
            fields.push((name, String::new()));
        } else if let Some((_, value)) = fields.last_mut() {
            value.push_str(line);
            value.push('\n');
        }
    }
    if let Some((_, last)) = fields.last_mut()
        && let Some(at) = last.find("Respond with the corresponding output fields")
    {
        last.truncate(at);
    }
    for (_, value) in &mut fields {
        *value = value.trim().to_owned();
    }
    fields
}

/// Names of DSPy's output and trajectory fields, without their number.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_')
}

/// A message in DSPy's format. The user's message holds the whole trajectory so far.
fn dspy(text: &str, role: Role) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::new();
    let mut asked: Vec<(&str, String)> = Vec::new();
    let mut name = None;
    let mut thought: Option<String> = None;
    for (field, value) in fields(text) {
        match (role, stem(field)) {
            (_, "next_thought" | "thought") => thought = Some(value),
            (_, "next_tool_name" | "tool_name") => name = Some(value),
            (_, "next_tool_args" | "tool_args") => {
                let call = Call {
                    id: None,
                    also: Vec::new(),
                    name: name.take().unwrap_or_default(),
                    arguments: arguments(decode_str(&value)),
                };
                let mut parts: Vec<Part> = Vec::new();
                if answer_of(&call).is_some() {
                    parts.extend(thought.take().map(Part::Thought));
                } else {
                    parts.extend(thought.take().map(Part::Text));
                    parts.push(Part::Call(call));
                }
                out.push(Message::new(Role::Assistant, parts));
            }
            (_, "observation") => {
                let calls =
                    |message: &Message| message.parts.iter().any(|part| matches!(part, Part::Call(_)));
                if out.last().is_some_and(calls) {
                    let outcome = Outcome { id: None, tool: None, text: value, failed: None };
                    out.push(Message::new(Role::Tool, vec![Part::Result(outcome)]));
                }
            }
            (_, "completed" | "trajectory") => {}
            (Role::Assistant, "reasoning" | "rationale") => {
                out.push(Message::new(Role::Assistant, vec![Part::Thought(value)]));
            }
            (Role::Assistant, _) if !value.is_empty() => out.push(Message::text(Role::Assistant, value)),
            (_, _) if !value.is_empty() => asked.push((field, value)),
            _ => {}
        }
    }
    if let Some(thought) = thought {
        out.push(Message::new(Role::Assistant, vec![Part::Thought(thought)]));
    }
    if role == Role::User && !asked.is_empty() {
        let question = match asked.as_slice() {
            [(_, only)] => only.clone(),
            several => several
                .iter()
                .map(|(field, value)| format!("{field}: {value}"))
                .collect::<Vec<_>>()
                .join("\n"),
        };
        out.insert(0, Message::text(Role::User, question));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dspy_fields_become_thoughts_calls_and_results() {
        let reply = "[[ ## next_thought ## ]]\nI look.\n\n[[ ## next_tool_name ## ]]\nlook\n\n[[ ## next_tool_args ## ]]\n{\"q\": 1}\n\n[[ ## completed ## ]]";
        let told = rewrite(vec![Message::text(Role::Assistant, reply)]);
        let call = Part::Call(Call {
            id: None,
            also: Vec::new(),
            name: "look".into(),
            arguments: Some(json!({"q": 1})),
        });
        assert_eq!(told, [Message::new(Role::Assistant, vec![Part::Text("I look.".into()), call.clone()])]);
        let prompt = "[[ ## question ## ]]\nHow long?\n\n[[ ## trajectory ## ]]\n[[ ## thought_0 ## ]]\nI look.\n\n[[ ## tool_name_0 ## ]]\nlook\n\n[[ ## tool_args_0 ## ]]\n{\"q\": 1}\n\n[[ ## observation_0 ## ]]\n42\n\nRespond with the corresponding output fields, starting with the field `[[ ## next_thought ## ]]`.";
        let told = rewrite(vec![Message::text(Role::User, prompt)]);
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], Message::text(Role::User, "How long?"));
        assert!(matches!(&told[2].parts[0], Part::Result(outcome) if outcome.text == "42"));
        let last = rewrite(vec![Message::text(
            Role::Assistant,
            "[[ ## reasoning ## ]]\nhm\n\n[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]",
        )]);
        assert_eq!(last[1], Message::text(Role::Assistant, "42"));
    }

    #[test]
    fn a_code_agents_answer_is_taken_out_of_its_program() {
        let told = rewrite(vec![Message::text(
            Role::Assistant,
            "Thought: done.\n<code>\nfinal_answer('It\\'s 42.')\n</code>",
        )]);
        assert_eq!(told[0].parts, [Part::Thought("done.".into()), Part::Text("It's 42.".into())]);
        let told =
            rewrite(vec![Message::text(Role::Assistant, "Thought: look.\n<code>\nprint(look(1))\n</code>")]);
        assert_eq!(told[0].parts, [Part::Thought("look.".into())]);
    }

    #[test]
    fn a_final_answer_tool_gives_an_answer() {
        let call = Call {
            id: Some("c".into()),
            also: Vec::new(),
            name: "final_answer".into(),
            arguments: Some(json!({"answer": "42"})),
        };
        let told = rewrite(vec![Message::new(Role::Assistant, vec![Part::Call(call)])]);
        assert_eq!(told, [Message::text(Role::Assistant, "42")]);
    }
}
