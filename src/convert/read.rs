//! From a trace to its story.

use super::collect::{collect, has_content, ordered};
use super::tell::tell;
use super::tree::Tree;
use super::weave::weave;
use crate::domain::{Skip, Story, Trace};

/// The story of a trace that ends in an answer.
///
/// # Errors
/// As [`read`], and [`Skip::NoAnswer`] if the run failed or ended in a tool call.
pub fn story(trace: &Trace) -> Result<Story, Skip> {
    let story = read(trace)?;
    if story.answer.is_none() { Err(Skip::NoAnswer) } else { Ok(story) }
}

/// The story of a trace, with or without an answer at its end.
///
/// # Errors
/// [`Skip::OwnTelemetry`], [`Skip::NoAgent`] or [`Skip::NoContent`] if there is nothing to tell.
pub fn read(trace: &Trace) -> Result<Story, Skip> {
    if is_own(trace) {
        return Err(Skip::OwnTelemetry);
    }
    let spans = ordered(trace);
    let tree = Tree::new(&spans);
    let mut talk = collect(trace, &spans, &tree);
    if !talk.saw_agent && !has_content(&talk) {
        return Err(Skip::NoAgent);
    }
    if !has_content(&talk) {
        return Err(Skip::NoContent);
    }
    let woven = weave(&mut talk, &spans, &tree);
    let story = tell(trace, &talk, &woven, &spans, &tree);
    if story.steps.is_empty() {
        return Err(if talk.saw_agent { Skip::NoContent } else { Skip::NoAgent });
    }
    Ok(story)
}

/// Whether assayd itself sent any of this: it does not evaluate itself.
fn is_own(trace: &Trace) -> bool {
    let marks = trace
        .spans
        .iter()
        .map(|span| (&span.resource, &span.scope))
        .chain(trace.logs.iter().map(|log| (&log.resource, &log.scope)));
    marks.into_iter().any(|(resource, scope)| {
        resource.is_own()
            || resource.service() == Some("assayd")
            || scope.name == "assayd"
            || scope.name.starts_with("assayd.")
            || scope.name.starts_with("assayd::")
    })
}
