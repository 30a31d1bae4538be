//! The parts of a text that matter to what is asked about it, for a model whose window is too small for all of it.

use super::evidence::{choose, told};
use super::units::{Index, Source};

/// The parts of `text` nearest to `topics`, in order, of about `budget` characters at most; the beginning if no part is that
/// short. None if all of it fits.
pub fn excerpt(text: &str, topics: &[String], budget: usize) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= budget {
        return None;
    }
    let sources = [Source { step: 0, text: chars }];
    let index = Index::new(&sources);
    let kept = choose(&index, topics, budget);
    if kept.is_empty() {
        return Some(sources[0].text.iter().take(budget).collect());
    }
    Some(told(&index, &kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearest_to_the_topics_is_kept_and_what_fits_is_not_touched() {
        let filler = "Nothing of note happened on the line.\n".repeat(100);
        let text = format!("{filler}The penalty is 0.5% for each week.\n{filler}");
        let topics = ["The penalty is 0.5% a week.".to_owned()];
        let short = excerpt(&text, &topics, 300).unwrap();
        assert!(short.contains("0.5% for each week") && short.chars().count() <= 350, "{short}");
        assert_eq!(excerpt(&text, &topics, text.len()), None);
        assert_eq!(excerpt(&"word ".repeat(100), &topics, 50).unwrap().len(), 50);
    }
}
