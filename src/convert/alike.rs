//! What two tellings have in common: texts but for white space, calls by id or by name and arguments, tools by name.

use super::atom::What;
use super::talk::Call;

/// Whether two atoms tell the same thing.
pub(super) fn same(a: &What, b: &What) -> bool {
    match (a, b) {
        (What::Request(a), What::Request(b)) => same_text(a, b),
        (What::Text(a) | What::Thought(a), What::Text(b) | What::Thought(b)) => same_text(a, b),
        (What::Call(a), What::Call(b)) => same_call(a, b),
        (What::Result(a), What::Result(b)) => match (&a.id, &b.id) {
            (Some(a), Some(b)) => a == b,
            _ => (a.tool.is_none() || b.tool.is_none() || a.tool == b.tool) && same_text(&a.text, &b.text),
        },
        _ => false,
    }
}

fn same_call(a: &Call, b: &Call) -> bool {
    if let (Some(_), Some(id)) = (&a.id, &b.id) {
        return a.is(id) && same_tool(&a.name, &b.name);
    }
    let fits = match (&a.arguments, &b.arguments) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    fits && same_tool(&a.name, &b.name)
}

/// Whether two calls are the same but for their ids: some libraries make up new ids when they repeat the history.
pub(super) fn same_work(a: &What, b: &What) -> bool {
    match (a, b) {
        (What::Call(a), What::Call(b)) => {
            same_tool(&a.name, &b.name) && a.arguments.is_some() && a.arguments == b.arguments
        }
        (What::Result(a), What::Result(b)) => !a.text.is_empty() && same_text(&a.text, &b.text),
        _ => false,
    }
}

/// Whether two texts are equal up to white space.
pub(super) fn same_text(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if a.len() > 2 * b.len() + 16 || b.len() > 2 * a.len() + 16 {
        return false;
    }
    let mut left = a.chars().filter(|c| !c.is_whitespace());
    let mut right = b.chars().filter(|c| !c.is_whitespace());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (a, b) if a != b => return false,
            _ => {}
        }
    }
}

/// Names compare by their letters and digits: `Delegate work` and `delegate_work` are one tool.
pub(super) fn squeeze(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether two names mean one tool.
pub(super) fn same_tool(a: &str, b: &str) -> bool {
    bare(a) == bare(b) || squeeze(bare(a)) == squeeze(bare(b))
}

/// A tool's name without the server or plugin before it.
pub(super) fn bare(name: &str) -> &str {
    if let Some(rest) = name.strip_prefix("mcp__")
        && let Some((_, tool)) = rest.split_once("__")
        && !tool.is_empty()
    {
        return tool;
    }
    match name.rfind(['-', '.', ':', '/']) {
        Some(at) if at + 1 < name.len() => &name[at + 1..],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_server_and_plugin() {
        for (name, wanted) in [
            ("mcp__crm__get_order", "get_order"),
            ("crm-get_order", "get_order"),
            ("a.b.c", "c"),
            ("plain", "plain"),
            ("x-", "x-"),
        ] {
            assert_eq!(bare(name), wanted);
        }
    }
}
