//! What is told of evidence, and what is not.

use proptest::prelude::*;

use super::super::units::{Index, Source};
use super::{derive, put};

fn sources(texts: &[&str]) -> Vec<Source> {
    texts.iter().enumerate().map(|(step, text)| Source { step, text: text.chars().collect() }).collect()
}

fn asked(claim: &str, evidence: &[&str], request: &str) -> Vec<String> {
    let observations = sources(evidence);
    let index = Index::new(&observations);
    let lines = derive(&[claim.to_owned()], &index, &observations, &sources(&[request]));
    lines.concat().into_iter().map(|line| line.text).collect()
}

fn lines(claim: &str, evidence: &[&str]) -> Vec<String> {
    asked(claim, evidence, "")
}

const STOCK: [&str; 3] = [
    r#"{"sku": "TNT-2P-GRN", "warehouse": "Rotterdam", "on_hand": 42, "next_restock": "2026-12-01"}"#,
    r#"{"sku": "TNT-2P-GRN", "warehouse": "Lyon", "on_hand": 0, "next_restock": "2026-12-09"}"#,
    r#"{"sku": "TNT-2P-GRN", "warehouse": "Gdansk", "on_hand": 7, "next_restock": null}"#,
];

const MEDALS: &str = r#"{"title": "2005 games", "columns": ["nation", "gold", "silver"], "rows": [
    ["Spain", "3", "2"], ["France", "3", "1"], ["Italy", "2", "5"], ["Egypt", "1", "1"]]}"#;

#[test]
fn figures_of_several_observations_are_added_by_what_they_belong_to() {
    let claim = "Rotterdam has 42 units and Gdansk has 7, together 49, which covers the 45 units.";
    let found = asked(claim, &STOCK, "Can we ship 45 units?");
    assert!(found.contains(&"on hand: sum of 42 (Rotterdam) and 7 (Gdansk): 49.".to_owned()), "{found:?}");
    assert!(found.contains(&"49 is more than 45, which the user named.".to_owned()), "{found:?}");
    let wrong = asked(&claim.replace("49", "52"), &STOCK, "Can we ship 45 units?");
    assert!(wrong.contains(&"on hand: sum of 42 (Rotterdam) and 7 (Gdansk): 49.".to_owned()), "{wrong:?}");
    assert!(!wrong.iter().any(|line| line.contains("52")), "{wrong:?}");
    for claim in [claim.replace("covers", "does not cover"), claim.replace("covers", "is less than")] {
        let other_way = asked(&claim, &STOCK, "Can we ship 45 units?");
        assert!(!other_way.iter().any(|line| line.contains("the user named")), "{other_way:?}");
    }
}

#[test]
fn sums_differences_products_and_shares_follow_from_figures_that_are_held() {
    let bill =
        r#"{"net": 8400.0, "vat": 2100.0, "price": 129.9, "shipping": 4.95, "requests": 200, "errors": 5}"#;
    let follow = [
        ("You paid 129.90, 4.95 is deducted, so you get 124.95.", "129.9 - 4.95 = 124.95."),
        ("8,400 net and 2,100 VAT make 10,500.", "8400 + 2100 = 10500."),
        ("5 of 200 requests failed, which is 2.5%.", "5 is 2.5% of 200."),
    ];
    for (claim, line) in follow {
        assert_eq!(lines(claim, &[bill]), [line], "{claim}");
    }
    for claim in [
        "You paid 129.90, 4.95 is deducted, so you get 120.95.",
        "5 of 200 requests failed, which is 7.5%.",
        "It was 5 and 200.",
        "It costs 129.90.",
    ] {
        assert_eq!(lines(claim, &[bill]), Vec::<String>::new(), "{claim}");
    }
}

#[test]
fn a_table_says_who_has_the_most_how_many_rows_there_are_and_how_two_compare() {
    assert_eq!(lines("Italy won the most silver.", &[MEDALS]), ["highest silver: 5 (Italy)."]);
    assert_eq!(lines("The fewest gold went to Spain.", &[MEDALS]), ["lowest gold: 1 (Egypt)."]);
    let found = lines("Spain won more gold than Italy.", &[MEDALS]);
    assert!(found.contains(&"gold: Spain 3, Italy 2. Spain has 1 more than Italy.".to_owned()), "{found:?}");
    let found = lines("The nations won a total of 9 gold.", &[MEDALS]);
    assert!(found.contains(&"gold: sum 9, average 2.25, 4 rows.".to_owned()), "{found:?}");
    let calls = "city,status\nOslo,open\nBergen,open\nOslo,closed\nOslo,open";
    let found = lines("There are 2 open calls in Oslo.", &[calls]);
    assert!(found.contains(&"3 of 4 rows: status open.".to_owned()), "{found:?}");
    assert!(
        found.iter().any(|line| line.starts_with("2 of 4 rows: ") && line.contains(" and ")),
        "{found:?}"
    );
}

#[test]
fn days_are_counted_from_the_dates_of_the_evidence() {
    let evidence =
        [r#"{"delivered_on": "2026-11-06"}"#, "Footwear may be returned within 30 days of delivery."];
    assert_eq!(
        lines("You can return it within 30 days, so until 6 December 2026.", &evidence),
        ["30 days after 6 November 2026: 6 December 2026."]
    );
    for claim in ["Within 90 days, so until 4 February 2027.", "Within 30 days, so until 7 December 2026."] {
        assert_eq!(lines(claim, &evidence), Vec::<String>::new(), "{claim}");
    }
    assert_eq!(
        lines("It took 14 days to close.", &["created 2026-10-25, closed 2026-11-08"]),
        ["From 25 October 2026 to 8 November 2026: 14 days."]
    );
    assert_eq!(
        lines("It took 15 days to close.", &["created 2026-10-25, closed 2026-11-08"]),
        Vec::<String>::new()
    );
    assert_eq!(lines("She was born in the fall.", &["Born: 17 October 1992"]), ["October is in the fall."]);
}

#[test]
fn years_are_told_by_decade_century_and_distance() {
    let band = r#"{"title": "Jefferson Airplane", "Formed": "1965", "Disbanded": "1972"}"#;
    assert_eq!(
        lines("They were formed in the 1960s.", &[band]),
        ["1965 is in the 1960s.", "1972 is in the 1970s."]
    );
    assert_eq!(
        lines("They were formed in the '70s.", &[band]),
        ["1965 is in the 60s.", "1972 is in the 70s."]
    );
    assert_eq!(
        lines("They were a band of the 20th century.", &[band]),
        ["1965 is in the 20th century.", "1972 is in the 20th century."]
    );
    assert_eq!(lines("They played for 7 years.", &[band]), ["From 1965 to 1972: 7 years."]);
    for claim in ["They played for 8 years.", "He was in his 30s.", "It has 60 seats."] {
        assert_eq!(lines(claim, &[band]), Vec::<String>::new(), "{claim}");
    }
    let many = "1901 1912 1923 1934 1945 1956 1967";
    assert_eq!(lines("It lasted 11 years.", &[many]), Vec::<String>::new());
}

#[test]
fn what_asks_for_nothing_gets_nothing() {
    assert_eq!(lines("Spain is a nation.", &[MEDALS]), Vec::<String>::new());
    assert_eq!(lines("Penguins swim.", &[]), Vec::<String>::new());
    assert_eq!(put("all".to_owned(), &[Vec::new()]), "all");
}

#[test]
fn lines_stand_below_a_heading_that_says_what_they_are_and_each_once() {
    let observations = sources(&STOCK);
    let index = Index::new(&observations);
    let claim = "Rotterdam has 42 and Gdansk has 7, together 49.".to_owned();
    let lines = derive(&[claim.clone(), claim], &index, &observations, &[]);
    let text = put("evidence".to_owned(), &lines);
    let below: Vec<&str> = text.lines().collect();
    assert_eq!(below[..2], ["evidence", "Computed from the above:"]);
    assert_eq!(below.iter().filter(|line| line.contains("sum of 42")).count(), 1, "{text}");
    let from = &lines[0].iter().find(|line| line.text.contains("sum of")).unwrap().from;
    let units: Vec<&str> =
        from.iter().map(|origin| index.units[origin.find(&index).unwrap()].told.as_str()).collect();
    assert_eq!(units, ["on hand: 42", "on hand: 7"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_claimed_the_lines_are_few_short_and_come_from_the_evidence(
        cells in prop::collection::vec((0..60u32, "[A-C][a-z]{2}"), 0..12),
        claim in "(the most|total|together|only|more than|[A-C][a-z]{2}|units|[0-9]{1,3}|[0-9]{1,2} days|in the fall|[ .,%]){0,14}",
    ) {
        let rows: Vec<String> = cells.iter().map(|(n, name)| format!(r#"{{"units": {n}, "city": "{name}"}}"#)).collect();
        let evidence = format!("[{}]", rows.join(","));
        let observations = sources(&[&evidence]);
        let index = Index::new(&observations);
        let found = derive(&[claim.clone(), claim], &index, &observations, &[]);
        prop_assert_eq!(&found[0], &found[1]);
        prop_assert!(found[0].len() <= 8);
        for line in &found[0] {
            prop_assert!(line.text.chars().count() <= 400 && !line.text.contains('\n'));
            for origin in &line.from {
                prop_assert!(origin.words.is_empty() || origin.find(&index).is_some(), "{line:?}");
            }
        }
    }

    #[test]
    fn a_told_sum_is_the_sum(one in 0..5_000u32, other in 0..5_000u32, said in 0..10_000u32) {
        let evidence = format!(r#"[{{"city": "Oslo", "units": {one}}}, {{"city": "Bergen", "units": {other}}}]"#);
        let claim = format!("Oslo has {one} and Bergen {other}, together {said}.");
        let told = lines(&claim, &[&evidence]);
        let sum = format!("units: sum of {one} (Oslo) and {other} (Bergen): {}.", one + other);
        prop_assert!(told.contains(&sum), "{told:?}");
        let reckoned = format!("{one} + {other} = {said}.");
        prop_assert!(one + other == said || !told.contains(&reckoned), "{told:?}");
    }
}

#[test]
fn much_evidence_and_many_claims_cost_little() {
    let rows: Vec<String> = (0..200)
        .map(|row| {
            let cells: Vec<String> =
                (0..30).map(|column| format!(r#""c{column}": "name {row} {column}""#)).collect();
            format!("{{{}, \"units\": {row}, \"day\": \"2026-11-{:02}\"}}", cells.join(","), 1 + row % 28)
        })
        .collect();
    let evidence = format!("[{}]", rows.join(","));
    let observations = sources(&[&evidence]);
    let index = Index::new(&observations);
    let claims: Vec<String> = (0..50)
        .map(|n| {
            format!(
                "name {n} 3 has {n} units and name {} 3 has 17, together {}, within 30 days.",
                n + 1,
                n + 17
            )
        })
        .collect();
    let lines = derive(&claims, &index, &observations, &[]);
    let all: usize = lines.iter().map(Vec::len).sum();
    assert!((1..=50 * 8).contains(&all), "{all}");
}
