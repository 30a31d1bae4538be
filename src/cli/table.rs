//! Verdicts for people: one line each.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::domain::{AssayedClaim, Outcome, Standing, Story, TraceId, Verdict};

/// The table's head.
pub fn head() -> String {
    format!(
        "{:<18} {:<9} {:<13} {:>5}  {:<10}  worst claim  <-  what the evidence says\n",
        "service", "trace", "label", "S", "tier"
    )
}

/// One verdict's line. The stories give the texts that a verdict only points to.
pub fn line(verdict: &Verdict, stories: &HashMap<TraceId, Story>) -> String {
    let trace = verdict.trace_id.map_or_else(|| "-".to_owned(), |id| id.to_string()[..8].to_owned());
    let service = clipped(verdict.service.as_deref().unwrap_or("-"), 18);
    let mut line = format!("{service:<18} {trace:<9} ");
    match (&verdict.outcome, &verdict.grounding) {
        (Outcome::Scored, Some(grounding)) => {
            let label = verdict.label.map_or("-", |label| label.as_str());
            let _ = write!(line, "{label:<13} {:>5.2}  {:<10}", grounding.score, grounding.tier.as_str());
            if let Some(claim) = worst(&grounding.claims) {
                let story = verdict.trace_id.and_then(|id| stories.get(&id));
                let _ = write!(line, "  {}", conflict(claim, story));
            }
        }
        (outcome, _) => {
            let reason = verdict.reason.as_deref().unwrap_or("-");
            let reason = clipped(reason, 200);
            let _ = write!(line, "{:<13} {:>5}  {:<10}  {reason}", outcome.as_str(), "-", "-");
        }
    }
    line.push('\n');
    line
}

/// The claim that most speaks against the answer; none if all stand.
fn worst(claims: &[AssayedClaim]) -> Option<&AssayedClaim> {
    claims
        .iter()
        .filter(|claim| !matches!(claim.standing, Some(Standing::Grounded | Standing::Complementary)))
        .max_by(|a, b| doubt(a).total_cmp(&doubt(b)))
}

fn doubt(claim: &AssayedClaim) -> f64 {
    let p = |label: Standing| claim.probabilities.get(label.as_str()).copied().unwrap_or_default();
    1.0 - p(Standing::Grounded) - p(Standing::Complementary)
}

fn conflict(claim: &AssayedClaim, story: Option<&Story>) -> String {
    let standing = claim.standing.map_or("unanswered", |standing| standing.as_str());
    let mut text = format!("{standing}: \"{}\"", clipped(&claim.text, 64));
    if let Some((tool, piece)) = story.and_then(|story| conflicting(claim, story, 72)) {
        let _ = write!(text, "  <-  {tool}: \"{piece}\"");
    }
    text
}

/// The tool whose output is nearest to the claim, and what it says there, in at most `width` characters.
pub fn conflicting(claim: &AssayedClaim, story: &Story, width: usize) -> Option<(String, String)> {
    let evidence = claim.evidence.first()?;
    let step = story.steps.get(evidence.step)?;
    let [from, to] = evidence.range;
    let text = step.text.as_deref().unwrap_or_default();
    let piece: String = text.chars().skip(from).take(to.saturating_sub(from)).collect();
    let tool = step.tool.as_deref().map_or_else(|| "evidence".to_owned(), |tool| clipped(tool, 40));
    Some((tool, nearest(&piece, &claim.text, width)))
}

/// A text from outside for a terminal: nothing in it steers the terminal or turns the reading direction. Line breaks are gone too.
pub fn harmless(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
    };
    text.chars().map(|c| if steers(c) { ' ' } else { c }).collect()
}

/// At most `width` characters, harmless and on one line; what is cut shows as an ellipsis.
pub fn clipped(text: &str, width: usize) -> String {
    let one_line = harmless(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= width {
        return one_line;
    }
    let kept: String = one_line.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The part of `text`, at most `width` characters, that shares most words with `claim`; the later one on ties, since what
/// is said about the shared words stands behind them.
fn nearest(text: &str, claim: &str, width: usize) -> String {
    let bare = |word: &str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    let wanted: HashSet<String> = claim.split_whitespace().map(bare).filter(|word| word.len() > 3).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut best = (0, 0..words.len());
    let mut end = 0;
    let mut length = 0;
    for start in 0..words.len() {
        while end < words.len() && length + words[end].chars().count() < width {
            length += words[end].chars().count() + 1;
            end += 1;
        }
        let shared = words[start..end].iter().filter(|word| wanted.contains(&bare(word))).count();
        if shared >= best.0 {
            best = (shared, start..end);
        }
        if end == words.len() {
            break;
        }
        length = length.saturating_sub(words[start].chars().count() + 1);
        end = end.max(start + 1);
    }
    let (_, range) = best;
    let before = if range.start > 0 { "…" } else { "" };
    let after = if range.end < words.len() { "…" } else { "" };
    format!("{before}{}{after}", clipped(&words[range].join(" "), width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_speaks_of_the_claim_is_shown() {
        let text = "Handbook v7, section 2.1 on all manner of things: Unworn footwear may be returned within 30 days of delivery.";
        let shown = nearest(text, "Unworn footwear can be returned within 90 days of delivery", 60);
        assert!(shown.contains("footwear") && shown.contains("30 days"), "{shown}");
        assert!(shown.chars().count() <= 62, "{shown}");
        assert_eq!(nearest("short", "anything", 60), "short");
        assert!(nearest(&"x".repeat(500), "x", 60).chars().count() <= 62);
        assert_eq!(nearest("", "x", 60), "");
    }

    #[test]
    fn no_text_of_a_trace_steers_the_terminal() {
        let bad = "\u{1b}[2J\u{9b}31m\u{202e}evil\u{7}\n\r\u{2028}";
        let mut verdict = crate::emit::sample::full();
        verdict.service = Some(bad.to_owned());
        for claim in verdict.grounding.iter_mut().flat_map(|grounding| &mut grounding.claims) {
            claim.text = format!("{bad} {}", claim.text);
            claim.standing = Some(Standing::Contradicted);
        }
        let mut failed = crate::emit::sample::skipped();
        failed.reason = Some(bad.to_owned());
        for verdict in [verdict, failed] {
            let shown = line(&verdict, &HashMap::new());
            assert!(shown.contains("evil"), "{shown:?}");
            let inner = shown.strip_suffix('\n').unwrap();
            assert!(!inner.contains(|c: char| c.is_control() || c == '\u{202e}'), "{inner:?}");
        }
    }

    #[test]
    fn clipping_counts_characters_and_says_that_it_cut() {
        assert_eq!(clipped("a\n b", 10), "a b");
        assert_eq!(clipped("ééééé", 5), "ééééé");
        assert_eq!(clipped("éééééé", 5), "éééé…");
    }
}
