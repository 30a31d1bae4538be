//! Pictures, sounds and files: nobody here looks into them, so that a placeholder with type, size and hash stands for each,
//! wherever a library puts its bytes.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Map;
use sha2::{Digest, Sha256};

use super::text::pick_str;
use crate::domain::{Json, Story};

/// Padded or not, as senders like it.
const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);

/// How deep a block's bytes may lie in it.
const DEEPEST: usize = 4;
/// Shorter base64 than this is left in a text where nothing says what it is: ids, hashes and signatures look the same.
const SHORTEST: usize = 512;
/// The same after `data:…;base64,`, which says what it is.
const SHORTEST_DATA: usize = 64;
/// A line of base64 that goes on in the next one has at least so many letters.
const SHORTEST_LINE: usize = 60;
const LINE_ENDS: [&str; 4] = ["\r\n", "\n", "\\r\\n", "\\n"];
/// `data:` and a type with its parameters.
const LONGEST_TYPE: usize = 120;
/// Different letters that so long a piece of base64 has at least; what is spelled with fewer is no base64.
const LETTERS: usize = 24;

/// What stands for a picture, sound or file: its type, size and hash, never its bytes.
pub(super) fn placeholder(kind: &str, mime: Option<&str>, bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let head: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("[{}, {} bytes, sha256 {head}]", mime.unwrap_or(kind), bytes.len())
}

/// The placeholder for a block that holds a picture, sound or file; a document or resource of plain text is that text.
pub(super) fn media(kind: &str, map: &Map<String, Json>) -> String {
    let mut maps = vec![map];
    inner(map, 0, &mut maps);
    if let Some(text) = written(&maps) {
        return text;
    }
    let find = |keys: &[&str]| maps.iter().find_map(|map| pick_str(map, keys));
    let mime = find(&["mime_type", "mimeType", "media_type", "mediaType", "image_mimetype", "format"]);
    let uri = find(&["uri", "url", "file_uri", "fileUri", "image_url", "file_id", "fileId"]);
    const DATA: [&str; 10] = [
        "data",
        "content",
        "bytes",
        "base64",
        "base64_image",
        "file_data",
        "fileData",
        "image",
        "audio",
        "blob",
    ];
    if let Some(text) = find(&DATA) {
        return of_text(kind, mime, text);
    }
    if let Some(bytes) = maps.iter().find_map(|map| DATA.iter().find_map(|key| numbers(map.get(*key)?))) {
        return placeholder(kind, mime, &bytes);
    }
    match uri {
        Some(uri) if uri.starts_with("data:") => of_text(kind, mime, uri),
        Some(uri) => format!("[{} at {uri}]", mime.unwrap_or(kind)),
        None => format!("[{}]", mime.unwrap_or(kind)),
    }
}

/// The text of what is text: Anthropic's documents of text or of blocks, a resource of MCP.
fn written(maps: &[&Map<String, Json>]) -> Option<String> {
    let within = &maps[1..];
    let is_text = |map: &&&Map<String, Json>| pick_str(map, &["type", "source_type"]) == Some("text");
    let document = within.iter().find(is_text).and_then(|map| pick_str(map, &["data", "text"]));
    let resource = maps[0].get("resource").and_then(|resource| resource.get("text")?.as_str());
    if let Some(text) = document.or(resource) {
        return Some(text.to_owned());
    }
    let blocks = within.iter().filter_map(|map| map.get("content")?.as_array()).flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block.get("text")?.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// The objects within a block that may hold its bytes.
fn inner<'a>(map: &'a Map<String, Json>, depth: usize, found: &mut Vec<&'a Map<String, Json>>) {
    const KEYS: [&str; 17] = [
        "resource",
        "source",
        "inline_data",
        "inlineData",
        "input_audio",
        "image_url",
        "file",
        "file_data",
        "fileData",
        "image",
        "audio",
        "video",
        "document",
        "blob",
        "media",
        "content",
        "file_url",
    ];
    if depth == DEEPEST {
        return;
    }
    for key in KEYS {
        if let Some(Json::Object(within)) = map.get(key) {
            found.push(within);
            inner(within, depth + 1, found);
        }
    }
}

/// The placeholder for bytes that stand as base64, in a `data:` address or not.
fn of_text(kind: &str, mime: Option<&str>, text: &str) -> String {
    let (said, payload) = match text.strip_prefix("data:").and_then(|rest| rest.split_once(',')) {
        Some((head, payload)) => (head.split(';').next().filter(|mime| !mime.is_empty()), payload),
        None => (None, text),
    };
    let bytes = decoded(payload).map_or(Cow::Borrowed(payload.as_bytes()), Cow::Owned);
    placeholder(kind, said.or(mime), &bytes)
}

fn decoded(payload: &str) -> Option<Vec<u8>> {
    let is_broken = payload.contains(|c: char| c == '\\' || c.is_ascii_whitespace());
    let dense: Cow<str> = if is_broken {
        let spelled = payload.replace("\\r", "").replace("\\n", "");
        spelled.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>().into()
    } else {
        payload.into()
    };
    STANDARD.decode(&*dense).or_else(|_| URL_SAFE.decode(&*dense)).ok()
}

/// Bytes as a list of numbers: of Node's buffers `{"type": "Buffer", "data": […]}`, of typed arrays `{"0": 137, "1": 80, …}`.
fn numbers(json: &Json) -> Option<Vec<u8>> {
    let byte = |json: &Json| json.as_u64().and_then(|number| u8::try_from(number).ok());
    match json {
        Json::Array(items) if !items.is_empty() => items.iter().map(byte).collect(),
        Json::Object(map) if map.get("type").and_then(Json::as_str) == Some("Buffer") => {
            numbers(map.get("data")?)
        }
        Json::Object(map) if map.contains_key("0") => {
            (0..map.len()).map(|place| map.get(&place.to_string()).and_then(byte)).collect()
        }
        _ => None,
    }
}

/// Takes bytes out of a story's texts that no block told apart: a tool that returns a picture in its JSON, a request with a
/// `data:` address in its text. Says in `truncated` how much of the story nobody reads.
pub(super) fn without_bytes(story: &mut Story) {
    for text in [&mut story.request, &mut story.answer].into_iter().flatten() {
        clean_text(text);
    }
    for step in &mut story.steps {
        step.text.as_mut().into_iter().for_each(clean_text);
        step.arguments.as_mut().into_iter().for_each(clean_json);
    }
    story.instructions.iter_mut().for_each(|told| clean_text(&mut told.text));
    let unread: usize = story.steps.iter().filter_map(|step| step.text.as_deref()).map(attachments).sum();
    if unread > 0 {
        let things = if unread == 1 { "attachment is" } else { "attachments are" };
        story.truncated.push(format!(
            "media: {unread} {things} not read, a placeholder with type, size and hash stands for each"
        ));
    }
}

/// How many pictures, sounds and files a text speaks of, none of which anybody here has seen.
pub fn attachments(text: &str) -> usize {
    text.split(", sha256 ").skip(1).filter(|rest| rest.get(16..17) == Some("]")).count()
}

fn clean_text(text: &mut String) {
    if let Some(clean) = clean(text) {
        *text = clean;
    }
}

fn clean_json(json: &mut Json) {
    match json {
        Json::String(text) => clean_text(text),
        Json::Array(items) => items.iter_mut().for_each(clean_json),
        Json::Object(map) => map.values_mut().for_each(clean_json),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// The text with placeholders for bytes; none if it holds none.
fn clean(text: &str) -> Option<String> {
    if text.len() < SHORTEST_DATA {
        return None;
    }
    let mut clean = String::new();
    let mut kept = 0;
    for run in (Runs { text, at: 0 }) {
        let (from, piece) = match run.data_address {
            Some(from) if run.length() >= SHORTEST_DATA => (from, &text[from..run.to]),
            None if run.length() >= SHORTEST && is_binary(&text[run.from..run.to]) => {
                (run.from, &text[run.from..run.to])
            }
            _ => continue,
        };
        clean.push_str(&text[kept..from]);
        clean.push_str(&of_text("bytes", None, piece));
        kept = run.to;
    }
    if kept == 0 {
        return None;
    }
    clean.push_str(&text[kept..]);
    Some(clean)
}

/// A stretch of base64's letters.
struct Run {
    from: usize,
    to: usize,
    /// Where the `data:` address begins that it is the end of.
    data_address: Option<usize>,
}

impl Run {
    fn length(&self) -> usize {
        self.to - self.from
    }
}

/// All such stretches that are worth a look.
struct Runs<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let bytes = self.text.as_bytes();
        loop {
            let from = self.at + bytes.get(self.at..)?.iter().position(is_letter)?;
            let mut end = letters(bytes, from);
            // In lines, as mail has it: all are equally long but for the last.
            let width = end - from;
            let mut whole = end;
            while width >= SHORTEST_LINE
                && end == whole
                && let Some(next) = next_line(bytes, end)
            {
                let next_end = letters(bytes, next);
                if next_end == next || next_end - next > width {
                    break;
                }
                end = next_end;
                if next_end - next == width {
                    whole = end;
                }
            }
            let mut to = padded(bytes, end);
            // What stands in the next line may be a word.
            if end > whole && decoded(&self.text[from..to]).is_none() {
                (end, to) = (whole, padded(bytes, whole));
            }
            self.at = to.max(end + 1).min(bytes.len());
            if to - from >= SHORTEST_DATA {
                return Some(Run { from, to, data_address: data_address(self.text, from) });
            }
            if self.at == bytes.len() {
                return None;
            }
        }
    }
}

fn is_letter(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Where the letters end that begin at `from`.
fn letters(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|byte| !is_letter(byte)).map_or(bytes.len(), |count| from + count)
}

/// The same with the padding after them.
fn padded(bytes: &[u8], end: usize) -> usize {
    end + bytes[end..].iter().take(2).take_while(|byte| **byte == b'=').count()
}

/// Where the next line begins, if one ends at `end`; in a text that is JSON, line ends are spelled.
fn next_line(bytes: &[u8], end: usize) -> Option<usize> {
    let rest = &bytes[end..];
    let next = LINE_ENDS.iter().find_map(|line_end| rest.strip_prefix(line_end.as_bytes()));
    next.map(|next| bytes.len() - next.len())
}

/// Where `data:TYPE;base64,` begins, if it ends at `from`.
fn data_address(text: &str, from: usize) -> Option<usize> {
    let head = text[..from].strip_suffix(";base64,")?;
    // No further back than a type is long, or a text full of such ends would take for ever.
    let window = (head.len().saturating_sub(LONGEST_TYPE)..).find(|at| head.is_char_boundary(*at))?;
    let begin = window + head[window..].rfind("data:")?;
    let is_type = |c: char| c.is_ascii_alphanumeric() || "/.+-_;=".contains(c);
    head[begin + 5..].chars().all(is_type).then_some(begin)
}

/// Whether so many letters are base64 of something that is no text.
fn is_binary(run: &str) -> bool {
    let mut seen = [false; 128];
    run.bytes().for_each(|byte| seen[usize::from(byte & 127)] = true);
    let has = |range: std::ops::RangeInclusive<u8>| range.into_iter().any(|byte| seen[usize::from(byte)]);
    let is_mixed = has(b'a'..=b'z') && has(b'A'..=b'Z') && has(b'0'..=b'9');
    is_mixed
        && seen.iter().filter(|is_seen| **is_seen).count() >= LETTERS
        && decoded(run.trim_end_matches('=')).is_some_and(|bytes| std::str::from_utf8(&bytes).is_err())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn picture(bytes: usize) -> (Vec<u8>, String) {
        let mut state = 7_u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let picture: Vec<u8> = b"\x89PNG\r\n\x1a\n".iter().copied().chain(noise).take(bytes).collect();
        let text = STANDARD.encode(&picture);
        (picture, text)
    }

    #[test]
    fn the_same_picture_has_the_same_placeholder_in_every_dialect() {
        let (bytes, data) = picture(900);
        let url = format!("data:image/png;base64,{data}");
        let safe = data.replace('+', "-").replace('/', "_");
        let wanted = placeholder("image", Some("image/png"), &bytes);
        assert!(wanted.starts_with("[image/png, 900 bytes, sha256 "), "{wanted}");
        let blocks = [
            json!({"type": "image_url", "image_url": {"url": url}}),
            json!({"type": "image_url", "image_url": url}),
            json!({"type": "input_image", "image_url": url, "detail": "auto"}),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
            json!({"inline_data": {"mime_type": "image/png", "data": safe}}),
            json!({"inlineData": {"mimeType": "image/png", "data": data.trim_end_matches('=')}}),
            json!({"type": "image", "image": data, "mediaType": "image/png"}),
            json!({"type": "image", "image": url}),
            json!({"type": "file", "data": data, "mimeType": "image/png", "filename": "a.png"}),
            json!({"type": "file", "file": {"filename": "a.png", "file_data": url}}),
            json!({"type": "input_file", "filename": "a.png", "file_data": url}),
            json!({"type": "blob", "modality": "image", "mime_type": "image/png", "content": data}),
            json!({"type": "image", "image": {"image": {"url": url}}}),
            json!({"type": "image", "source_type": "base64", "mime_type": "image/png", "data": data}),
            json!({"type": "image", "base64": data, "mime_type": "image/png"}),
            json!({"base64_image": data, "mime_type": "image/png"}),
            json!({"block_type": "image", "image": data, "image_mimetype": "image/png"}),
            json!({"type": "file", "mediaType": "image/png", "data": {"type": "Buffer", "data": bytes}}),
            json!({"type": "image", "mimeType": "image/png", "image": bytes.iter().enumerate()
                .map(|(place, byte)| (place.to_string(), json!(byte))).collect::<Map<_, _>>()}),
        ];
        for block in blocks {
            assert_eq!(media("image", block.as_object().unwrap()), wanted, "{block}");
        }
        let bedrock = json!({"image": {"format": "png", "source": {"bytes": data}}});
        assert!(media("image", bedrock.as_object().unwrap()).starts_with("[png, 900 bytes, "));
        let sound = json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}});
        assert!(media("audio", sound.as_object().unwrap()).starts_with("[wav, 900 bytes, "));
        let elsewhere = json!({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}});
        assert_eq!(media("image_url", elsewhere.as_object().unwrap()), "[image_url at https://x.test/a.png]");
    }

    #[test]
    fn a_document_or_resource_of_text_is_its_text() {
        let text = "Refunds take 5 days.";
        for block in [
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}),
            json!({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": text}]}}),
            json!({"type": "resource", "resource": {"uri": "file:///policy.txt", "mimeType": "text/plain", "text": text}}),
        ] {
            assert_eq!(media("document", block.as_object().unwrap()), text, "{block}");
        }
        let (bytes, data) = picture(900);
        let block = json!({"type": "resource", "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": data}});
        assert_eq!(
            media("resource", block.as_object().unwrap()),
            placeholder("x", Some("image/png"), &bytes)
        );
    }

    #[test]
    fn bytes_in_texts_become_placeholders_and_the_rest_stays_to_the_letter() {
        let (bytes, data) = picture(900);
        let wanted = placeholder("bytes", None, &bytes);
        let text = format!("{{\"shot\": \"{data}\", \"ok\": true}}");
        assert_eq!(clean(&text).unwrap(), format!("{{\"shot\": \"{wanted}\", \"ok\": true}}"));
        let (small, short) = picture(60);
        let address = format!("Überschrift ![x](data:image/png;base64,{short}) und Ende");
        let wanted = placeholder("x", Some("image/png"), &small);
        assert_eq!(clean(&address).unwrap(), format!("Überschrift ![x]({wanted}) und Ende"));
        let lines: Vec<&str> =
            data.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let mail = format!("Content:\n{}\nEnd", lines.join("\r\n"));
        let wanted = placeholder("bytes", None, &bytes);
        assert_eq!(clean(&mail).unwrap(), format!("Content:\n{wanted}\nEnd"));
        let (even, data_of_even) = picture(57 * 12);
        let lines: Vec<&str> =
            data_of_even.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let mail = format!("{}\nEnd", lines.join("\n"));
        assert_eq!(clean(&mail).unwrap(), format!("{}\nEnd", placeholder("bytes", None, &even)));
        let two = format!("{data} {data}");
        assert_eq!(clean(&two).unwrap().matches("900 bytes").count(), 2);
    }

    #[test]
    fn what_only_looks_like_base64_stays() {
        let jwt = ["eyJhbGciOiJIUzI1NiJ9".repeat(20), "c2lnbmF0dXJl".repeat(20)].join(".");
        let encoded = STANDARD.encode("Refunds take 5 days, said the policy of 2026. ".repeat(30));
        for text in [
            "a".repeat(100_000),
            "0123456789abcdef".repeat(100),
            "AbC1/".repeat(200),
            format!("/usr/lib/{}", "Some9Path/".repeat(100)),
            jwt,
            encoded,
            "data:image/png;base64,".to_owned(),
            "data: ;base64,".to_owned(),
            "é".repeat(1_000),
            format!("é{};base64,{}", "é".repeat(200), "QUJD".repeat(20)),
        ] {
            assert_eq!(clean(&text), None, "{}", &text[..20]);
        }
    }
}
