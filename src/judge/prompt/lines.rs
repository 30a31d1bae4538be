//! What templates are filled with: each question, claim or task as one line of JSON, and a fence that no content can hold.

use serde_json::{Map, json};
use sha2::{Digest, Sha256};

use super::super::sheet::{ClaimItem, Item};
use crate::domain::{Json, Kind, Subject};

/// A question as one line of JSON: whatever its texts hold, they cannot leave the line.
pub(super) fn question(item: &Item) -> String {
    let question = item.question;
    let mut view = Map::new();
    view.insert("key".to_owned(), json!(item.key));
    view.insert("type".to_owned(), json!(question.kind.as_str()));
    if !question.instructions.is_null() {
        view.insert("question".to_owned(), question.instructions.clone());
    }
    let subject = match &question.subject {
        Subject::General => None,
        Subject::Grounding { claim } => Some(("claim", claim)),
        Subject::Relevance { query } => Some(("query", query)),
    };
    // The instructions may quote the subject already; then it would only cost tokens.
    let quoted = |text: &str| question.instructions.as_str().is_some_and(|known| known.contains(text));
    if let Some((name, text)) = subject.filter(|(_, text)| !quoted(text)) {
        view.insert(name.to_owned(), json!(text));
    }
    view.insert("labels".to_owned(), labels(item));
    Json::Object(view).to_string()
}

/// Label and description, in the labels' order; a plain list if no label has a description.
fn labels(item: &Item) -> Json {
    let described: Vec<&Json> = match &item.question.kind {
        Kind::Noul { if_true, if_false } => {
            [if_false, if_true].map(|side| side.as_ref().unwrap_or(&Json::Null)).to_vec()
        }
        Kind::Choice { options } => options.iter().map(|(_, description)| description).collect(),
        Kind::Score { levels } => levels.iter().collect(),
    };
    if described.iter().all(|description| description.is_null()) {
        return json!(item.labels);
    }
    item.labels.iter().cloned().zip(described.into_iter().cloned()).collect::<Map<_, _>>().into()
}

/// A claim to partition as one line of JSON. `material` is the number of its material in the prompt.
pub(super) fn claim(claim: &ClaimItem, material: usize) -> String {
    json!({ "key": claim.key, "claim": claim.text, "material": material }).to_string()
}

/// A word that no content can hold: it is made from all of it. Equal asks get equal fences, so answers can be kept.
pub(super) fn fence<'a>(contents: impl Iterator<Item = &'a str> + Clone) -> String {
    let mut hash = Sha256::new();
    for content in contents.clone() {
        hash.update(content);
    }
    let mut seed = hash.finalize();
    loop {
        let fence = format!("MATERIAL-{}", hex(&seed, 16));
        if !contents.clone().any(|content| content.contains(&fence)) {
            return fence;
        }
        seed = Sha256::digest(seed);
    }
}

/// The first `count` bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8], count: usize) -> String {
    bytes.iter().take(count).map(|byte| format!("{byte:02x}")).collect()
}
