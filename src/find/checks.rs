//! Checksums and entropy: what tells a number that means something from one that only looks so.

/// Whether the digits end in their right check digit, by Luhn's formula. False if anything else than digits is there.
pub fn luhn(digits: &str) -> bool {
    let mut sum = 0;
    for (position, digit) in digits.bytes().rev().enumerate() {
        if !digit.is_ascii_digit() {
            return false;
        }
        let value = u32::from(digit - b'0') * if position % 2 == 1 { 2 } else { 1 };
        sum += if value > 9 { value - 9 } else { value };
    }
    digits.len() > 1 && sum % 10 == 0
}

/// Whether this is an international bank account number: capital letters and digits without spaces, of its country's
/// length, with right check digits (ISO 13616).
pub fn iban(text: &str) -> bool {
    if !text.is_ascii() || text.len() < 5 || iban_length(&text[..2]) != Some(text.len()) {
        return false;
    }
    let mut rest = 0u32;
    for letter in text[4..].bytes().chain(text[..4].bytes()) {
        rest = match letter {
            b'0'..=b'9' => rest * 10 + u32::from(letter - b'0'),
            b'A'..=b'Z' => rest * 100 + u32::from(letter - b'A') + 10,
            _ => return false,
        } % 97;
    }
    rest == 1
}

/// How long the numbers of a country are, from the register of ISO 13616.
pub(super) fn iban_length(country: &str) -> Option<usize> {
    const LENGTHS: [(usize, &str); 18] = [
        (15, "NO"),
        (16, "BE"),
        (18, "DK FI FO GL NL SD"),
        (19, "MK SI"),
        (20, "AT BA EE KZ LT LU MN XK"),
        (21, "CH HR LI LV"),
        (22, "BG BH CR DE GB GE IE ME RS"),
        (23, "AE GI IL IQ OM SO TL"),
        (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
        (25, "LY PT ST"),
        (26, "IS TR"),
        (27, "BI DJ FR GR IT MC MR SM"),
        (28, "AL AZ BY CY DO GT HU LB NI PL SV"),
        (29, "BR EG PS QA UA"),
        (30, "JO KW MU YE"),
        (31, "MT SC"),
        (32, "LC"),
        (33, "RU"),
    ];
    LENGTHS.iter().find(|(_, countries)| countries.split(' ').any(|known| known == country)).map(|(n, _)| *n)
}

/// How much each character tells, in bits (Shannon's entropy over the text's own characters). Random keys have 3.5 and more,
/// words 2 to 3.
pub fn entropy(text: &str) -> f64 {
    let mut counts = std::collections::HashMap::new();
    let mut all = 0.0;
    for letter in text.chars() {
        *counts.entry(letter).or_insert(0.0) += 1.0;
        all += 1.0;
    }
    counts.values().map(|count: &f64| -(count / all) * (count / all).log2()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn published_test_numbers_pass_and_neighbours_do_not() {
        for number in ["4242424242424242", "378282246310005", "6011111111111117", "5555555555554444"] {
            assert!(luhn(number), "{number}");
        }
        assert!(!luhn("4242424242424241") && !luhn("") && !luhn("0") && !luhn("42a"));
        for number in [
            "DE89370400440532013000",
            "GB29NWBK60161331926819",
            "NO9386011117947",
            "FR1420041010050500013M02606",
        ] {
            assert!(iban(number), "{number}");
        }
        assert!(
            !iban("DE89370400440532013001")
                && !iban("DE8937040044053201300")
                && !iban("ÄÖ12")
                && !iban("ZZ89370400440532013000")
        );
    }

    proptest! {
        #[test]
        fn one_wrong_digit_is_always_found(digits in "[0-9]{12,18}", at in 0usize..12, by in 1u8..10) {
            let with_check = (0..10).map(|check| format!("{digits}{check}")).find(|number| luhn(number)).unwrap();
            let mut wrong = with_check.clone().into_bytes();
            wrong[at] = b'0' + (wrong[at] - b'0' + by) % 10;
            prop_assert!(!luhn(std::str::from_utf8(&wrong).unwrap()));
        }

        #[test]
        fn an_account_number_with_computed_check_digits_passes_and_with_others_fails(body in "[0-9]{18}", other in 0u32..97) {
            // DE = 13 14, then two zeros for the check digits.
            let rest = format!("{body}131400").bytes().fold(0u32, |rest, digit| (rest * 10 + u32::from(digit - b'0')) % 97);
            let check = 98 - rest;
            prop_assert!(iban(&format!("DE{check:02}{body}")), "check {}", check);
            let wrong = 2 + other;
            prop_assert_eq!(iban(&format!("DE{wrong:02}{body}")), wrong % 97 == check % 97);
        }

        #[test]
        fn entropy_lies_between_one_letter_and_all_different(text in "[a-z0-9]{1,40}") {
            let bits = entropy(&text);
            prop_assert!(bits >= 0.0 && bits <= (text.len() as f64).log2() + 1e-9);
        }
    }
}
