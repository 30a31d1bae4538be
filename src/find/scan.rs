//! One pass over a text for any kinds.

use std::collections::BTreeMap;
use std::ops::Range;

use super::placeholder::is_placeholder;
use super::{Kind, personal, secrets};

/// A piece of text that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// Its bytes in the text, from and up to; always on character boundaries.
    pub range: Range<usize>,
    /// Whether it is only an example: a documentation's value, a template's variable, a masked value.
    pub placeholder: bool,
}

/// What of `kinds` is in the text, in its order; no two findings overlap.
pub fn find(text: &str, kinds: &[Kind]) -> Vec<Finding> {
    // By start: neighbours tell whether a place is free, however many findings there are.
    let mut found: BTreeMap<usize, (usize, Kind)> = BTreeMap::new();
    for kind in Kind::ALL.into_iter().filter(|kind| kinds.contains(kind)) {
        for range in ranges(text, kind) {
            // Kinds come in the order of their say: a later one does not cut into an earlier one.
            let before = found.range(..range.end).next_back();
            let is_free = before.is_none_or(|(_, (end, _))| *end <= range.start);
            if is_free && !range.is_empty() {
                found.insert(range.start, (range.end, kind));
            }
        }
    }
    let finding = |(start, (end, kind)): (usize, (usize, Kind))| {
        let placeholder = is_placeholder(kind, &text[start..end]);
        Finding { kind, range: start..end, placeholder }
    };
    found.into_iter().map(finding).collect()
}

/// The text with a marker such as `[EMAIL]` in place of each finding. `findings` are of this text, as [`find`] gives them.
pub fn masked(text: &str, findings: &[Finding]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for finding in findings {
        out.push_str(&text[from..finding.range.start]);
        out.push('[');
        out.push_str(finding.kind.marker());
        out.push(']');
        from = finding.range.end;
    }
    out.push_str(&text[from..]);
    out
}

fn ranges(text: &str, kind: Kind) -> Vec<Range<usize>> {
    match kind {
        Kind::PrivateKey => secrets::private_keys(text),
        Kind::ApiKey => secrets::api_keys(text),
        Kind::Jwt => secrets::jwts(text),
        Kind::Password => secrets::passwords(text),
        Kind::Secret => secrets::secrets(text),
        Kind::Card => personal::cards(text),
        Kind::Iban => personal::ibans(text),
        Kind::Ssn => personal::ssns(text),
        Kind::Email => personal::emails(text),
        Kind::Phone => personal::phones(text),
        Kind::IpAddress => personal::addresses(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str, bool)> {
        let found = find(text, &Kind::ALL);
        found.into_iter().map(|finding| (finding.kind, &text[finding.range], finding.placeholder)).collect()
    }

    #[test]
    fn secrets_are_found_with_what_they_are() {
        // Put together at run time: no scanner shall take this file for a leak.
        let cases = [
            (Kind::ApiKey, format!("{}{}", "AKIA", "Q3EGRPU6T2WLSM4V")),
            (Kind::ApiKey, format!("{}{}", "ghp_", "k3J9xQ2mZ7vB5nR8tW1yL4cF6hD0sG3pA2eU")),
            (Kind::ApiKey, format!("{}{}", "sk_live_", "9fQ2kL7xZ4mB8vN1cR5t")),
            (Kind::ApiKey, format!("{}{}", "sk-ant-api03-", "9fQ2kL7xZ4mB8vN1cR5tW3yH6jD0")),
            (
                Kind::Jwt,
                format!(
                    "{}.{}.{}",
                    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJzdWIiOiI3NzEyIn0", "c2lnbmF0dXJl"
                ),
            ),
            (
                Kind::PrivateKey,
                format!(
                    "-----BEGIN {0} KEY-----\nMIIEow{1}\n-----END {0} KEY-----",
                    "RSA PRIVATE", "IBAAKCAQEA7f3k"
                ),
            ),
        ];
        for (kind, value) in cases {
            assert_eq!(kinds(&format!("use {value} for it.")), [(kind, value.as_str(), false)]);
        }
        assert_eq!(kinds("postgres://app:h7Kq2wz@db:5432/x"), [(Kind::Password, "h7Kq2wz", false)]);
        assert_eq!(kinds("DB_PASSWORD=\"s3cr3t-horse\""), [(Kind::Password, "s3cr3t-horse", false)]);
        assert_eq!(kinds("The password is Tulip!77."), [(Kind::Password, "Tulip!77", false)]);
        assert_eq!(kinds("api_key: 7f9aK2mQ8xZ1vB4n"), [(Kind::Secret, "7f9aK2mQ8xZ1vB4n", false)]);
        assert_eq!(
            kinds("Authorization: Bearer 7f9aK2mQ8xZ1vB4nT6"),
            [(Kind::Secret, "7f9aK2mQ8xZ1vB4nT6", false)]
        );
    }

    #[test]
    fn examples_are_found_and_said_to_be_examples() {
        for text in [
            "AKIAIOSFODNN7EXAMPLE",
            "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
            "api_key: your-api-key-123",
            "jane@example.com",
            "4242 4242 4242 4242",
            "(212) 555-0143",
            "123-45-6789",
            "DE89 3704 0044 0532 0130 00",
        ] {
            let found = kinds(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].2, "{text}: {found:?}");
        }
    }

    #[test]
    fn personal_data_is_found_with_or_without_spaces() {
        let text = "Jane <jane.roe@posteo.de>, +49 30 901820-11, DE75 5121 0800 1245 1261 99 and 4539 1488 0343 6467.";
        assert_eq!(
            kinds(text),
            [
                (Kind::Email, "jane.roe@posteo.de", false),
                (Kind::Phone, "+49 30 901820-11", false),
                (Kind::Iban, "DE75 5121 0800 1245 1261 99", false),
                (Kind::Card, "4539 1488 0343 6467", false),
            ]
        );
        assert_eq!(kinds("call 415-867-5309 now"), [(Kind::Phone, "415-867-5309", false)]);
        assert_eq!(kinds("SSN 536-22-8726"), [(Kind::Ssn, "536-22-8726", false)]);
        assert_eq!(kinds("from 8.8.8.8"), [(Kind::IpAddress, "8.8.8.8", false)]);
    }

    #[test]
    fn what_only_looks_alike_is_left_alone() {
        for text in [
            "The password is required.",
            "Your password: must have 12 letters",
            "token: the smallest unit",
            "order 4539148803436466 was shipped", // wrong check digit
            "trace 4bf92f3577b34da6a3ce929d0e0e4736",
            "NW-48213-77-2026",
            "2026-11-30T08:00:00.123456789Z",
            "version 1.2.3.4000 and 10.0.0.7",
            "a span of 000-12-3456",
            "EUR 1,299.00 in 2026",
            "sk-learn and risk-averse",
            "@mention and a@b",
        ] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }

    #[test]
    fn masks_name_the_kind_and_keep_the_rest() {
        let text = "Write to jane.roe@posteo.de or call +49 30 90182011.";
        assert_eq!(masked(text, &find(text, &Kind::PERSONAL)), "Write to [EMAIL] or call [PHONE].");
        assert_eq!(masked(text, &find(text, &Kind::SECRETS)), text);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn findings_are_in_order_apart_and_on_boundaries(text in r"(?s)[ -~äöü日\n]{0,120}", extra in r"[a-z]{1,8}@[a-z]{1,8}\.de|\+49 30 [0-9]{6}|AKIA[A-Z0-9]{16}") {
            let text = format!("{text} {extra} {text}");
            let found = find(&text, &Kind::ALL);
            for pair in found.windows(2) {
                prop_assert!(pair[0].range.end <= pair[1].range.start);
            }
            for finding in &found {
                prop_assert!(text.get(finding.range.clone()).is_some_and(|piece| !piece.is_empty()));
            }
            let masked = masked(&text, &found);
            prop_assert!(found.is_empty() || masked != text);
        }
    }
}
