//! The tools that an agent was offered: which declaration a call is held against, and how they are shown to a model.

use std::collections::HashSet;

use serde_json::{Map, json};

use crate::domain::{Json, OfferedTool, Ruling, Step, StepKind, Story};

/// Characters of a description that a model gets to see: of tools that were called, and of the others.
const DESCRIPTION: [usize; 2] = [2_000, 300];

/// The declarations of the tool that a call names: of the agent that called, where the trace says who was offered what.
pub(super) fn declared<'a>(story: &'a Story, call: &Step) -> Vec<&'a OfferedTool> {
    let Some(name) = call.tool.as_deref() else { return Vec::new() };
    let exact: Vec<&OfferedTool> = story.tools.iter().filter(|tool| tool.name == name).collect();
    let found = if exact.is_empty() {
        let loose: Vec<&OfferedTool> = story.tools.iter().filter(|tool| is_same(&tool.name, name)).collect();
        // Two servers may each have a tool of this name.
        let is_one = loose.windows(2).all(|pair| pair[0].name == pair[1].name);
        if is_one { loose } else { Vec::new() }
    } else {
        exact
    };
    let own = |tool: &&OfferedTool| call.agent.as_ref().is_some_and(|agent| tool.agents.contains(agent));
    if found.iter().any(own) { found.into_iter().filter(own).collect() } else { found }
}

/// What is certain of a call's tool: one that was not offered, and whose call brought nothing but an error, was the wrong one.
pub(super) fn ruling(story: &Story, call: &Step) -> Option<Ruling> {
    let name = call.tool.as_deref()?;
    let is_listed = story.tools.iter().any(|tool| !tool.unlisted);
    if !is_listed || story.tools.iter().any(|tool| is_same(&tool.name, name)) {
        return None;
    }
    let id = call.call_id.as_ref()?;
    let later = &story.steps[call.index.min(story.steps.len())..];
    let mut results =
        later.iter().filter(|step| step.kind == StepKind::Observation && step.call_id.as_ref() == Some(id));
    let is_refused = results.next()?.is_error == Some(true);
    is_refused.then(|| Ruling {
        label: "wrong".to_owned(),
        reasoning: Some(format!("{} is none of the offered tools, and calling it failed", shortened(name))),
    })
}

/// Whether two names are of one tool, up to a server or plugin in front of one of them and to case: `mcp__crm__get_order`,
/// `crm-get_order`, `get_order`.
fn is_same(a: &str, b: &str) -> bool {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let cut = long.len() - short.len();
    let Some((front, tail)) = long.split_at_checked(cut) else { return false };
    let is_server = ["__", ".", "-", ":", "/"].iter().any(|mark| front.ends_with(mark));
    !short.is_empty() && tail.eq_ignore_ascii_case(short) && (front.is_empty() || is_server)
}

/// A sender's name in a reason: short, and without control characters.
pub(super) fn shortened(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(60).collect()
}

/// The offered tools as a model reads them, in about `budget` characters: called ones first, with the schema of their
/// arguments. And what was left out, in words. None if the trace tells of no tool.
pub(super) fn view(story: &Story, budget: usize) -> Option<(&'static str, Json, Option<String>)> {
    let calls = story.steps.iter().filter(|step| step.kind == StepKind::ToolCall);
    let names: HashSet<&str> = calls.filter_map(|step| step.tool.as_deref()).collect();
    let is_called = |tool: &&OfferedTool| names.iter().any(|name| is_same(name, &tool.name));
    let (called, others): (Vec<&OfferedTool>, Vec<&OfferedTool>) = story.tools.iter().partition(is_called);
    let has_agents = story.agents.len() > 1;
    let mut left = budget;
    let mut shown = Vec::new();
    let mut without_schema = 0;
    for (rank, tool) in called.iter().map(|tool| (0, tool)).chain(others.iter().map(|tool| (1, tool))) {
        let mut entry = Map::new();
        entry.insert("tool".to_owned(), json!(tool.name));
        if let Some(description) = &tool.description {
            let short: String = description.chars().take(DESCRIPTION[rank]).collect();
            entry.insert("description".to_owned(), json!(short));
        }
        if has_agents && !tool.agents.is_empty() {
            entry.insert("agents".to_owned(), json!(tool.agents));
        }
        let base = size(&entry);
        if base > left {
            break;
        }
        left -= base;
        if let (0, Some(schema)) = (rank, &tool.parameters) {
            let cost = schema.to_string().chars().count();
            if cost <= left {
                left -= cost;
                entry.insert("arguments".to_owned(), schema.clone());
            } else {
                without_schema += 1;
            }
        }
        shown.push(Json::Object(entry));
    }
    if story.tools.is_empty() {
        return None;
    }
    let all = story.tools.len();
    let cut = match (shown.len() < all, without_schema) {
        (true, _) => Some(format!("{} of {all} offered tools", shown.len())),
        (false, 0) => None,
        (false, count) => Some(format!("the schemas of {count} offered tools")),
    };
    // A list that only runs tell of is not all that the agent could choose from.
    let is_listed = story.tools.iter().any(|tool| !tool.unlisted);
    Some((if is_listed { "offered_tools" } else { "known_tools" }, Json::Array(shown), cut))
}

fn size(entry: &Map<String, Json>) -> usize {
    entry.iter().map(|(key, value)| key.len() + value.to_string().chars().count() + 4).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::tests::story;

    fn tool(name: &str, agents: &[&str]) -> OfferedTool {
        OfferedTool {
            name: name.to_owned(),
            description: Some(format!("What {name} does.")),
            parameters: Some(json!({"type": "object"})),
            agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
            unlisted: false,
        }
    }

    fn called(name: &str, offered: &[OfferedTool]) -> Story {
        let mut story = story(&[
            (StepKind::Request, "go"),
            (StepKind::ToolCall, ""),
            (StepKind::Observation, "no such tool"),
            (StepKind::Answer, "done"),
        ]);
        story.tools = offered.to_vec();
        story.steps[1].tool = Some(name.to_owned());
        for step in &mut story.steps[1..3] {
            step.call_id = Some("c1".to_owned());
        }
        story
    }

    #[test]
    fn a_call_is_held_against_the_declaration_of_its_own_agent() {
        let mut story = called("look", &[tool("look", &["a"]), tool("look", &["b"]), tool("other", &["b"])]);
        story.steps[1].agent = Some("b".to_owned());
        assert_eq!(declared(&story, &story.steps[1]), [&story.tools[1]]);
        story.steps[1].agent = Some("c".to_owned());
        assert_eq!(declared(&story, &story.steps[1]).len(), 2);
    }

    #[test]
    fn names_are_one_up_to_server_and_plugin() {
        for name in ["mcp__crm__look", "crm-look", "crm.look", "Look"] {
            let story = called(name, &[tool("look", &[])]);
            assert_eq!(declared(&story, &story.steps[1]).len(), 1, "{name}");
        }
        let two = called("look", &[tool("crm-look", &[]), tool("erp-look", &[])]);
        assert!(declared(&two, &two.steps[1]).is_empty());
        for name in ["delete-order", "order-get", "", "é"] {
            let other = called(name, &[tool("get-order", &[])]);
            assert!(declared(&other, &other.steps[1]).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_tool_that_was_not_offered_is_wrong_once_calling_it_failed() {
        let mut story = called("delete_all", &[tool("look", &[])]);
        assert_eq!(ruling(&story, &story.steps[1]), None);
        story.steps[2].is_error = Some(true);
        let found = ruling(&story, &story.steps[1]).unwrap();
        assert_eq!(found.label, "wrong");
        assert_eq!(
            found.reasoning.unwrap(),
            "delete_all is none of the offered tools, and calling it failed"
        );
        story.tools[0].unlisted = true;
        assert_eq!(ruling(&story, &story.steps[1]), None);
        story.tools.clear();
        assert_eq!(ruling(&story, &story.steps[1]), None);
    }

    #[test]
    fn called_tools_are_shown_first_and_with_their_schemas() {
        let story = called("look", &[tool("first", &[]), tool("look", &[])]);
        let (key, shown, cut) = view(&story, 10_000).unwrap();
        assert_eq!((key, cut), ("offered_tools", None));
        assert_eq!(
            shown,
            json!([{"tool": "look", "description": "What look does.", "arguments": {"type": "object"}},
                {"tool": "first", "description": "What first does."}])
        );
        let (_, shown, cut) = view(&story, 80).unwrap();
        assert_eq!(shown.as_array().unwrap().len(), 1);
        assert_eq!(cut.as_deref(), Some("1 of 2 offered tools"));
    }
}
