//! Whether an agent goes round in circles: a rule over its calls.

use crate::domain::{Json, Ruling, Step, StepKind, Story};

/// How often something must be repeated to be a loop.
const ROUNDS: usize = 3;

/// The longest round that is looked for.
const LONGEST: usize = 4;

/// Calls that are looked at, the last ones; enough to see a loop, and little work for a story of thousands.
const MOST: usize = 500;

/// A call with all that must be equal for it to be the same one again.
#[derive(PartialEq, Eq)]
struct Call<'a> {
    tool: &'a str,
    arguments: String,
    result: Option<&'a str>,
}

/// What the rule says of the last turn: `loop` or `none`, and why.
pub(super) fn ruling(story: &Story) -> Ruling {
    let calls = calls(story);
    match circle(&calls) {
        Some(why) => Ruling { label: "loop".to_owned(), reasoning: Some(why) },
        None => Ruling {
            label: "none".to_owned(),
            reasoning: Some(format!("{} calls, no round of them made {ROUNDS} times in a row", calls.len())),
        },
    }
}

fn calls(story: &Story) -> Vec<Call<'_>> {
    let last_turn = story.steps.last().map_or(1, |step| step.turn);
    let steps: Vec<&Step> = story.steps.iter().filter(|step| step.turn == last_turn).collect();
    let is_result =
        |step: &&&Step, call: &Step| step.kind == StepKind::Observation && step.call_id == call.call_id;
    let calls = steps.iter().enumerate().filter(|(_, step)| step.kind == StepKind::ToolCall);
    let mut all: Vec<Call> = calls
        .map(|(at, call)| {
            let after = &steps[at + 1..];
            let result = match call.call_id {
                Some(_) => after.iter().find(|step| is_result(step, call)),
                None => after.first().filter(|step| step.kind == StepKind::Observation),
            };
            Call {
                tool: call.tool.as_deref().unwrap_or_default(),
                arguments: call
                    .arguments
                    .as_ref()
                    .map(|arguments| sorted(arguments).to_string())
                    .unwrap_or_default(),
                result: result.and_then(|step| step.text.as_deref()),
            }
        })
        .collect();
    all.drain(..all.len().saturating_sub(MOST));
    all
}

/// The same arguments in another order are the same arguments.
fn sorted(json: &Json) -> Json {
    match json {
        Json::Object(map) => {
            let mut members: Vec<(String, Json)> =
                map.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(members.into_iter().collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// The first round that is made again and again without a result that differs.
fn circle(calls: &[Call]) -> Option<String> {
    (1..=LONGEST).find_map(|round| {
        let is_circle = |window: &&[Call]| window.chunks(round).all(|again| again == &window[..round]);
        let window = calls.windows(round * ROUNDS).find(is_circle)?;
        let names: Vec<String> = window[..round].iter().map(named).collect();
        let called = names.join(", then ");
        Some(format!("{called}: {ROUNDS} times in a row with the same arguments and the same results"))
    })
}

/// The tool's name, shortened: it is a trace's text.
fn named(call: &Call) -> String {
    call.tool.chars().filter(|letter| !letter.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::tests::story;

    fn made(calls: &[(&str, u32, &str)]) -> Story {
        let mut steps = vec![(StepKind::Request, "do it")];
        for (_, _, result) in calls {
            steps.push((StepKind::ToolCall, ""));
            steps.push((StepKind::Observation, *result));
        }
        steps.push((StepKind::Answer, "done"));
        let mut story = story(&steps);
        for (at, (tool, id, _)) in calls.iter().enumerate() {
            let call = &mut story.steps[1 + 2 * at];
            call.tool = Some((*tool).to_owned());
            call.arguments = Some(serde_json::json!({"id": id}));
            call.call_id = Some(format!("c{at}"));
            story.steps[2 + 2 * at].call_id = Some(format!("c{at}"));
        }
        story
    }

    fn label(calls: &[(&str, u32, &str)]) -> String {
        ruling(&made(calls)).label
    }

    #[test]
    fn the_same_call_with_the_same_result_three_times_is_a_loop() {
        assert_eq!(label(&[("get", 1, "busy"); 3]), "loop");
        let why = ruling(&made(&[("get", 1, "busy"); 4])).reasoning.unwrap();
        assert_eq!(why, "get: 3 times in a row with the same arguments and the same results");
    }

    #[test]
    fn a_round_of_several_calls_is_a_loop_too() {
        let round = [("open", 1, "list"), ("filter", 2, "none")];
        let calls: Vec<_> =
            [("login", 0, "ok")].into_iter().chain(round.into_iter().cycle().take(6)).collect();
        assert_eq!(label(&calls), "loop");
        assert_eq!(label(&calls[..6]), "none");
    }

    #[test]
    fn polling_retries_and_different_arguments_are_none() {
        assert_eq!(label(&[("poll", 1, "10 %"), ("poll", 1, "60 %"), ("poll", 1, "done")]), "none");
        assert_eq!(label(&[("get", 1, "error"), ("get", 1, "ok")]), "none");
        let wait = [
            ("sleep", 5, ""),
            ("poll", 1, "10 %"),
            ("sleep", 5, ""),
            ("poll", 1, "60 %"),
            ("sleep", 5, ""),
            ("poll", 1, "done"),
        ];
        assert_eq!(label(&wait), "none");
        assert_eq!(label(&[("get", 1, "x"), ("get", 2, "x"), ("get", 3, "x")]), "none");
        assert_eq!(label(&[]), "none");
    }

    #[test]
    fn calls_of_earlier_turns_do_not_count() {
        let mut story = made(&[("get", 1, "x"); 3]);
        let all = story.steps.len();
        story.steps[all - 1].turn = 2;
        story.steps[all - 2].turn = 2;
        story.steps[all - 3].turn = 2;
        assert_eq!(ruling(&story).label, "none");
    }
}
