//! Keys, tokens and passwords.

use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use regex::Regex;

use super::checks::entropy;

/// Bits per character from which a value counts as random.
const RANDOM: f64 = 3.0;

static PRIVATE_KEY: LazyLock<Regex> = LazyLock::new(|| {
    compiled(concat!(
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*?)-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----",
        r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[\s\\nr]{0,8}[A-Za-z0-9+/=]{8,})*",
    ))
});

static API_KEY: LazyLock<Regex> = LazyLock::new(|| {
    compiled(concat!(
        r"\b(?:",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}",
        r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}",
        r"|[srp]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{24,}",
        r"|sk-[A-Za-z0-9_-]{20,}",
        r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}",
        r"|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-AgEI[A-Za-z0-9_-]{50,}",
        r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|dop_v1_[a-f0-9]{64}|shp(?:at|ss|ca)_[a-fA-F0-9]{32}",
        r")",
    ))
});

static JWT: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{0,}"));

static URL_PASSWORD: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"\b[a-zA-Z][a-zA-Z0-9+.-]+://[^\s:/@]+:([^\s/@]{3,})@[A-Za-z0-9\[]"));

static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(concat!(
        r#"(?i)\b(?:[a-z0-9]+[_.-]){0,3}(password|passwd|pwd|passphrase|passcode|secret|secret[_-]?key|api[_-]?key|apikey|access[_-]?key"#,
        r#"|secret[_-]?access[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|client[_-]?secret|private[_-]?key|token)"#,
        r#"["']?\s{0,3}(?::|=>|=|\bis\b)\s{0,3}["'`]?([^\s"'`,;<>()\[\]{}]{6,})"#,
    ))
});

static BEARER: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{16,})"));

pub(super) fn private_keys(text: &str) -> Vec<Range<usize>> {
    PRIVATE_KEY.find_iter(text).map(|found| found.range()).collect()
}

pub(super) fn api_keys(text: &str) -> Vec<Range<usize>> {
    API_KEY.find_iter(text).map(|found| found.range()).collect()
}

pub(super) fn jwts(text: &str) -> Vec<Range<usize>> {
    JWT.find_iter(text).filter(|found| has_algorithm(found.as_str())).map(|found| found.range()).collect()
}

/// Passwords need a letter beside something that no ordinary word has; a sentence about passwords is none.
pub(super) fn passwords(text: &str) -> Vec<Range<usize>> {
    let in_urls = URL_PASSWORD.captures_iter(text).filter_map(|found| Some(found.get(1)?.range()));
    let assigned = assignments(text, true).filter(|range| {
        let value = &text[range.clone()];
        let letters = value.chars().filter(|c| c.is_alphabetic()).count();
        letters > 0 && letters < value.chars().count() && !value.starts_with("http")
    });
    in_urls.chain(assigned).collect()
}

pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let bearers = BEARER.captures_iter(text).filter_map(|found| Some(found.get(1)?.range()));
    let assigned = assignments(text, false).filter(|range| range.len() >= 12);
    assigned.chain(bearers).filter(|range| is_random(&text[range.clone()])).collect()
}

fn assignments(text: &str, of_passwords: bool) -> impl Iterator<Item = Range<usize>> {
    ASSIGNED.captures_iter(text).filter_map(move |found| {
        let is_password = found.get(1)?.as_str().to_lowercase().starts_with("pass")
            || found.get(1)?.as_str().eq_ignore_ascii_case("pwd");
        let mut range = found.get(2)?.range();
        // The end of a sentence is not part of a value.
        let value = text[range.clone()].trim_end_matches(['.', '!', '?', ':']);
        range.end = range.start + value.len();
        (is_password == of_passwords && value.len() >= 6).then_some(range)
    })
}

fn is_random(value: &str) -> bool {
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let has_letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    has_digit && has_letter && entropy(value) >= RANDOM
}

/// Whether the first part is a JSON object that names an algorithm.
fn has_algorithm(token: &str) -> bool {
    let head = token.split('.').next().unwrap_or_default();
    let decoded = URL_SAFE_NO_PAD.decode(head).ok();
    let json = decoded.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    json.is_some_and(|json| json.get("alg").is_some())
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is written here and a test compiles it")
}
