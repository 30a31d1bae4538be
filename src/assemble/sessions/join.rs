//! One story of many: instrumentations repeat the history in every trace, and it is told once.

use crate::domain::{SessionTrace, Step, StepKind, Story};

/// What the traces of a conversation tell, in their order; none if there are none. Request and answer are those of the last one.
pub(super) fn joined(traces: &[&SessionTrace]) -> Option<Story> {
    let mut whole = traces.last()?.story.clone();
    whole.trace_id = None;
    let (mut steps, mut heard) = (Vec::new(), Vec::new());
    let lists = [&mut whole.agents, &mut whole.dialects, &mut whole.truncated, &mut whole.warnings];
    lists.into_iter().for_each(Vec::clear);
    // What an earlier trace was told or offered holds for what it did, also where the last one no longer is.
    whole.instructions.clear();
    whole.tools.clear();
    for SessionTrace { story, .. } in traces {
        add_new(&mut whole.instructions, &story.instructions);
        add_new(&mut whole.tools, &story.tools);
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

fn add_new<T: Clone + PartialEq>(known: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !known.contains(one) {
            known.push(one.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Instructions, OfferedTool, TraceId};

    fn turns(asked: &[&str]) -> Vec<Option<String>> {
        asked.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn a_conversation_was_told_and_offered_what_any_of_its_traces_was() {
        let trace = |number: u8, told: &str, tool: &str| SessionTrace {
            trace_id: TraceId::try_from(&[number; 16][..]).unwrap(),
            story: Story {
                instructions: vec![Instructions { agents: Vec::new(), text: told.to_owned() }],
                tools: vec![OfferedTool {
                    name: tool.to_owned(),
                    description: None,
                    parameters: None,
                    agents: Vec::new(),
                    unlisted: false,
                }],
                ..Story::default()
            },
            label: None,
            hallucination_probability: None,
        };
        let traces = [trace(1, "be kind", "look"), trace(2, "be kind", "mail"), trace(3, "be brief", "look")];
        let whole = joined(&traces.iter().collect::<Vec<_>>()).unwrap();
        let tools: Vec<&str> = whole.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((whole.instructions.len(), tools), (2, vec!["look", "mail"]));
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
