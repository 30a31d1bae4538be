//! One story of many: instrumentations repeat the history in every trace, and it is told once.

use crate::domain::{SessionTrace, Step, StepKind, Story};

/// What the traces of a conversation tell, in their order; none if there are none. Request and answer are those of the last one.
pub(super) fn joined(traces: &[&SessionTrace]) -> Option<Story> {
    let mut whole = traces.last()?.story.clone();
    whole.trace_id = None;
    let (mut steps, mut heard) = (Vec::new(), Vec::new());
    let lists = [&mut whole.agents, &mut whole.dialects, &mut whole.truncated, &mut whole.warnings];
    lists.into_iter().for_each(Vec::clear);
    for SessionTrace { story, .. } in traces {
        add_turns(&mut steps, &mut heard, &story.steps);
        add_new(&mut whole.agents, &story.agents);
        add_new(&mut whole.dialects, &story.dialects);
        add_new(&mut whole.truncated, &story.truncated);
        add_new(&mut whole.warnings, &story.warnings);
    }
    whole.steps = steps;
    Some(whole)
}

fn add_turns(steps: &mut Vec<Step>, heard: &mut Vec<Option<String>>, told: &[Step]) {
    let turns: Vec<&[Step]> = told.chunk_by(|one, next| one.turn == next.turn).collect();
    let asked: Vec<Option<String>> = turns.iter().map(|turn| request(turn)).collect();
    let known = repeated(heard, &asked);
    for (turn, asked) in turns.into_iter().zip(asked).skip(known) {
        heard.push(asked);
        let number = u32::try_from(heard.len()).unwrap_or(u32::MAX);
        for step in turn {
            steps.push(Step { index: steps.len(), turn: number, ..step.clone() });
        }
    }
}

fn request(turn: &[Step]) -> Option<String> {
    turn.iter().find(|step| step.kind == StepKind::Request).and_then(|step| step.text.clone())
}

/// How many of the first turns are the last ones that were heard already. The last turn is always new: a user may say the same
/// thing twice.
fn repeated(heard: &[Option<String>], asked: &[Option<String>]) -> usize {
    let is_known = |count: &usize| {
        *count <= heard.len()
            && asked[..*count] == heard[heard.len() - count..]
            && asked[..*count].iter().any(Option::is_some)
    };
    (1..asked.len()).rev().find(is_known).unwrap_or(0)
}

fn add_new(known: &mut Vec<String>, more: &[String]) {
    for word in more {
        if !known.contains(word) {
            known.push(word.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(asked: &[&str]) -> Vec<Option<String>> {
        asked.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn history_is_known_whole_or_from_its_middle_on() {
        let heard = turns(&["a", "b"]);
        assert_eq!(repeated(&heard, &turns(&["a", "b", "c"])), 2);
        assert_eq!(repeated(&heard, &turns(&["b", "c"])), 1, "a sender that keeps a window");
        assert_eq!(repeated(&heard, &turns(&["c"])), 0);
        assert_eq!(repeated(&heard, &turns(&["b"])), 0, "said again");
        assert_eq!(repeated(&heard, &turns(&["x", "c"])), 0);
        assert_eq!(repeated(&[], &turns(&["a", "b"])), 0);
        assert_eq!(repeated(&[None], &[None, None]), 0, "silence proves nothing");
    }
}
