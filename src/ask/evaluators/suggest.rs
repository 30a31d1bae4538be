//! What somebody may have meant by a wrong name.

/// The name nearest to `wrong`, if one is near enough to be meant.
pub(super) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let wanted = plain(wrong);
    let measure = |name: &'a str| {
        let known = plain(name);
        let holds = wanted.len() > 3 && (known.contains(&wanted) || wanted.contains(&known));
        (if holds { 0 } else { distance(&wanted, &known) }, name)
    };
    let (edits, name) = names.into_iter().map(measure).min_by_key(|(edits, _)| *edits)?;
    (edits <= wanted.chars().count().div_ceil(3)).then_some(name)
}

/// Letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_something_else_is_not() {
        let names = ["toxicity", "tool_choice", "prompt_injection", "pii"];
        assert_eq!(nearest("toxcity", names), Some("toxicity"));
        assert_eq!(nearest("Tool-Choice", names), Some("tool_choice"));
        assert_eq!(nearest("injection", names), Some("prompt_injection"));
        assert_eq!(nearest("weather", names), None);
    }
}
