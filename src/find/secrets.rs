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
        r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}\b|",
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
        // Stripe's `pk_` is for the page that everybody sees.
        r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{24,}",
        r"|sk-(?:[A-Za-z0-9]+[_-]){0,6}[A-Za-z0-9]{16,}[A-Za-z0-9_-]*|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{60,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{36,}",
        r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{24,}",
        r"|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-AgEI[A-Za-z0-9_-]{50,}",
        r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|dop_v1_[a-f0-9]{64}|shp(?:at|ss|ca)_[a-fA-F0-9]{32}",
        r"|dapi[a-f0-9]{32}\b|hvs\.[A-Za-z0-9_-]{24,}|lin_api_[A-Za-z0-9]{40}|[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b",
        r"|https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_-]+/[A-Za-z0-9_-]+/[A-Za-z0-9_-]{16,}",
        r")",
    ))
});

static JWT: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{0,}"));

static URL_PASSWORD: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"\b[a-zA-Z][a-zA-Z0-9+.-]+://[^\s:/@]*:([^\s/@]{3,})@[A-Za-z0-9\[]"));

static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(concat!(
        r#"(?i)\b((?:[a-z0-9]+[_.-]){0,3})(password|passwd|pgpassword|pwd|passphrase|passcode|pass"#,
        r#"|passwort|kennwort|contraseña|mot de passe|senha|wachtwoord|lösenord"#,
        r#"|secret|secret[_-]?key|api[_ -]?key|access[_-]?key|account[_-]?key|subscription[_-]?key|encryption[_-]?key|signing[_-]?key"#,
        r#"|master[_-]?key|secret[_-]?access[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|client[_-]?secret|private[_-]?key|token)"#,
        // An assignment, a sentence, or nothing but quotation marks.
        r#"["']?\s{0,3}(?:(?::|=>|=|\b(?:is|lautet|ist|es|est|é|är)\b\s{0,2}:?)\s{0,3}["'`]?|\s["'`])([^\s"'`,;<>()\[\]{}]{6,})"#,
    ))
});

static BEARER: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r#"(?i)(?:\bbearer|\bauthorization["']?\s{0,2}[:=]\s{0,2}["']?basic)\s+([A-Za-z0-9._~+/=-]{16,})"#,
    )
});

/// The signature of a link that opens a store: Azure's `sig`, Amazon's and Google's `X-…-Signature`.
static SIGNED: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=([A-Za-z0-9%+/_-]{30,})"));

/// Before `token`: what says where a list goes on, or tells one request from another, and opens nothing.
const HARMLESS: [&str; 9] =
    ["next_page_", "page_", "next_", "continuation_", "sync_", "cursor_", "next-page-", "page-", "next."];

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
    let assigned = assignments(text, true).filter(|range| is_password(&text[range.clone()]));
    in_urls.chain(assigned).collect()
}

/// Not a word of a sentence (`case-sensitive`, `6-digit`), a path, a reference to where it is kept, or a piece of code.
fn is_password(value: &str) -> bool {
    let letters = value.chars().filter(|c| c.is_alphabetic()).count();
    let marks = value
        .chars()
        .filter(|c| !c.is_alphabetic() && !matches!(c, '-' | '_' | '.' | '/' | ':' | '\''))
        .count();
    let is_measure = value.split_once('-').is_some_and(|(head, tail)| {
        head.bytes().all(|b| b.is_ascii_digit()) && tail.chars().all(char::is_alphabetic)
    });
    letters > 0 && marks > 0 && !is_measure && !is_reference(value)
}

/// Where a value is kept, in place of the value: `op://…`, `vault:…`, `os.environ…`.
fn is_reference(value: &str) -> bool {
    let lower = value.to_lowercase();
    let starts = [
        "~",
        "./",
        "../",
        "http",
        "op://",
        "vault:",
        "arn:",
        "env:",
        "file:",
        "secretref:",
        "process.env",
        "os.environ",
        "settings.",
        "config.",
        "env.",
    ];
    // Random keys may begin with a slash too, but hold none of these marks.
    let is_path = value.starts_with('/') && value.contains(['.', '-', '_']);
    is_path || starts.iter().any(|start| lower.starts_with(start))
}

pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let bearers = BEARER.captures_iter(text).filter_map(|found| Some(found.get(1)?.range()));
    let signed = SIGNED.captures_iter(text).filter_map(|found| Some(found.get(1)?.range()));
    let assigned =
        assignments(text, false).filter(|range| range.len() >= 12 && !is_reference(&text[range.clone()]));
    assigned.chain(bearers).chain(signed).filter(|range| is_random(&text[range.clone()])).collect()
}

fn assignments(text: &str, of_passwords: bool) -> impl Iterator<Item = Range<usize>> {
    ASSIGNED.captures_iter(text).filter_map(move |found| {
        let before = found.get(1)?.as_str().to_lowercase();
        let name = found.get(2)?.as_str().to_lowercase();
        if name == "token" && HARMLESS.iter().any(|harmless| before.ends_with(harmless)) {
            return None;
        }
        // `pass: …` alone is a word of tests and tickets; `SMTP_PASS=…` is none.
        if name == "pass" && before.is_empty() {
            return None;
        }
        let is_password = !["secret", "token", "key"].iter().any(|word| name.contains(word));
        let mut range = found.get(3)?.range();
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
