//! Text that the programs add to what users and tools said.

use serde_json::Value;

/// The text without its `<tag>…</tag>` parts; one that never ends goes to the end.
pub(super) fn without_tag(text: &str, tag: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(&open) {
        kept.push_str(rest[..start].trim_end());
        rest = match rest[start..].find(&close) {
            Some(end) => &rest[start + end + close.len()..],
            None => "",
        };
    }
    kept.push_str(rest);
    kept
}

/// What stands in the first `<tag>…</tag>`.
pub(super) fn in_tag<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let start = text.find(&format!("<{tag}>"))? + tag.len() + 2;
    let end = text[start..].find(&format!("</{tag}>"))?;
    Some(&text[start..start + end])
}

/// The text of content blocks, and whether some block is not text. A text stands for itself.
pub(super) fn of_blocks(content: &Value) -> (String, bool) {
    let blocks = match content {
        Value::String(text) => return (text.clone(), false),
        Value::Array(blocks) => blocks,
        Value::Null => return (String::new(), false),
        other => return (other.to_string(), false),
    };
    let mut texts: Vec<String> = Vec::new();
    let mut is_unread = false;
    for block in blocks {
        match (block.get("text").and_then(Value::as_str), block.get("type").and_then(Value::as_str)) {
            (Some(text), _) => texts.push(text.to_owned()),
            (None, Some(kind)) if is_media(kind) => is_unread = true,
            (None, _) => match block {
                Value::String(text) => texts.push(text.clone()),
                other => texts.push(other.to_string()),
            },
        }
    }
    (texts.join("\n"), is_unread)
}

fn is_media(kind: &str) -> bool {
    ["image", "document", "audio", "video", "blob", "file"].iter().any(|word| kind.contains(word))
}

/// The added lines of patches in this text.
pub(super) fn added_lines(patch: &str) -> String {
    if !patch.contains("*** Begin Patch") {
        return String::new();
    }
    let added =
        patch.lines().filter(|line| !line.starts_with("+++")).filter_map(|line| line.strip_prefix('+'));
    added.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_program_added_is_taken_out() {
        let text = "a\n<system-reminder>\nx\n</system-reminder>\nb<system-reminder>never ends";
        assert_eq!(without_tag(text, "system-reminder"), "a\nb");
        assert_eq!(without_tag("plain", "system-reminder"), "plain");
        assert_eq!(in_tag("<a>x</a><b>y</b>", "b"), Some("y"));
        assert_eq!(in_tag("<a>x", "a"), None);
    }

    #[test]
    fn blocks_are_joined_and_images_are_noticed() {
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"type": "input_text", "text": "b"}]);
        assert_eq!(of_blocks(&blocks), ("a\nb".to_owned(), true));
        assert_eq!(of_blocks(&json!("a")), ("a".to_owned(), false));
        assert_eq!(of_blocks(&json!([{"n": 1}])), (r#"{"n":1}"#.to_owned(), false));
        assert_eq!(of_blocks(&Value::Null), (String::new(), false));
    }

    #[test]
    fn a_patch_adds_its_plus_lines() {
        let patch = "*** Begin Patch\n*** Add File: a.toml\n+retries = 3\n+timeout = 5\n*** End Patch";
        assert_eq!(added_lines(patch), "retries = 3\ntimeout = 5");
        assert_eq!(added_lines("1 + 1\n+ 2"), "");
    }
}
