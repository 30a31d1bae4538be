//! Values that stand for a secret and are none: examples in documentation, templates, masked values.

use super::Kind;

/// Parts of words that nobody has in a real key.
const WORDS: [&str; 19] = [
    "example",
    "sample",
    "placeholder",
    "your",
    "dummy",
    "changeme",
    "change_me",
    "redacted",
    "masked",
    "removed",
    "xxxx",
    "****",
    "....",
    "insert",
    "replace",
    "fake",
    "notreal",
    "todo",
    "foobar",
];

/// Numbers that issuers and authorities publish as examples.
const KNOWN: [&str; 14] = [
    "4242424242424242",
    "4111111111111111",
    "4012888888881881",
    "4000056655665556",
    "5555555555554444",
    "5105105105105100",
    "2223003122003222",
    "378282246310005",
    "371449635398431",
    "6011111111111117",
    "3056930009020004",
    "123-45-6789",
    "078-05-1120",
    "219-09-9999",
];

/// Whether a found value is only an example.
pub(super) fn is_placeholder(kind: Kind, value: &str) -> bool {
    let lower = value.to_lowercase();
    match kind {
        Kind::Email => {
            let (name, host) = lower.rsplit_once('@').unwrap_or(("", &lower));
            let reserved = ["example.com", "example.org", "example.net", "domain.com", "email.com"];
            let ends =
                [".example", ".test", ".invalid", ".localhost", ".local", ".internal", ".lan", ".home.arpa"];
            // Nobody reads there: a person is not found by them.
            let machines =
                ["git", "noreply", "no-reply", "donotreply", "do-not-reply", "mailer-daemon", "postmaster"];
            machines.contains(&name)
                || reserved.iter().any(|known| host == *known || host.ends_with(&format!(".{known}")))
                || ends.iter().any(|end| host.ends_with(end))
                || ["yourname", "your.name", "firstname.lastname"].contains(&name)
        }
        // 555-0100 to 555-0199 are kept for fiction.
        Kind::Phone => {
            let digits: String = value.chars().filter(char::is_ascii_digit).collect();
            let national = digits.strip_prefix('1').filter(|rest| rest.len() == 10).unwrap_or(&digits);
            national.len() == 10 && national[3..].starts_with("55501") || is_monotonous(&digits)
        }
        Kind::Card | Kind::Ssn => {
            let bare: String =
                value.chars().filter(|c| c.is_ascii_digit() || (kind == Kind::Ssn && *c == '-')).collect();
            KNOWN.contains(&bare.as_str())
        }
        Kind::Iban => {
            let bare: String = value.chars().filter(|c| !c.is_whitespace()).collect();
            ["DE89370400440532013000", "GB29NWBK60161331926819", "GB82WEST12345698765432"]
                .contains(&bare.as_str())
        }
        Kind::IpAddress => false,
        Kind::PrivateKey => ["...", "<", "redacted", "your"].iter().any(|word| lower.contains(word)),
        Kind::ApiKey | Kind::Jwt | Kind::Password | Kind::Secret => {
            WORDS.iter().any(|word| lower.contains(word))
                || kind == Kind::Password
                    && ["password", "passwort", "secret", "user:pass"].contains(&lower.as_str())
                || lower.contains("${")
                || lower.contains("{{")
                || lower.starts_with(['<', '$', '%', '['])
                || lower.contains("_test_")
                || is_monotonous(tail(&lower))
        }
    }
}

/// What follows a key's prefix.
fn tail(value: &str) -> &str {
    value.rsplit(['_', '-']).next().filter(|rest| rest.len() >= 6).unwrap_or(value)
}

/// Few different characters, or mostly runs such as `123456` and `abcdef`.
fn is_monotonous(text: &str) -> bool {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() < 6 {
        return false;
    }
    let different: std::collections::HashSet<&char> = letters.iter().collect();
    let runs = letters.windows(2).filter(|pair| {
        let step = i64::from(u32::from(pair[1])) - i64::from(u32::from(pair[0]));
        step.abs() <= 1
    });
    different.len() <= 3 || runs.count() * 10 >= (letters.len() - 1) * 7
}
