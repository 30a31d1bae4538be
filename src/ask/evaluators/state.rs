//! What of a story is shown to a model. Objects and lists, so that no text of a trace can pass for the structure around it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::offered;
use crate::ask::evidence::Evidence;
use crate::ask::units::Index;
use crate::domain::{Json, Step, StepKind, Story};

/// What of a story is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateOf {
    /// The final answer alone.
    Answer,
    /// What users said, all turns.
    Request,
    /// The latest request and the final answer.
    Exchange,
    /// Requests and answers of all turns, in order.
    Conversation,
    /// The agents' own instructions, and requests and answers of all turns; without recorded instructions, the conversation.
    Instructed,
    /// The latest request, the tools that were offered, and the tool calls with arguments and results.
    Tools,
    /// Tool results and retrieved documents.
    Observations,
    /// Everything that happened, in order, with the agents' own instructions and the tools that they were offered.
    Story,
}

impl StateOf {
    /// All, from little to much.
    pub const ALL: [StateOf; 8] = [
        StateOf::Answer,
        StateOf::Request,
        StateOf::Exchange,
        StateOf::Conversation,
        StateOf::Instructed,
        StateOf::Tools,
        StateOf::Observations,
        StateOf::Story,
    ];

    /// Its word in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            StateOf::Answer => "answer",
            StateOf::Request => "request",
            StateOf::Exchange => "exchange",
            StateOf::Conversation => "conversation",
            StateOf::Instructed => "instructed",
            StateOf::Tools => "tools",
            StateOf::Observations => "observations",
            StateOf::Story => "story",
        }
    }
}

/// Characters that a step costs beside its texts.
const STEP: usize = 80;

/// What instructions, and what offered tools may take of the whole, each: this part of it.
const SHARE: usize = 4;

/// A text is not cut to less.
const SHORTEST: usize = 200;

/// The states of one story, each made once.
pub(super) struct States<'a> {
    story: &'a Story,
    budget: usize,
    made: BTreeMap<StateOf, Arc<Json>>,
    evidence: HashMap<String, Arc<Json>>,
    /// What was cut, in words.
    pub cut: Vec<String>,
}

impl<'a> States<'a> {
    /// Of a story; a state has about `budget` characters at most.
    pub fn new(story: &'a Story, budget: usize) -> Self {
        Self { story, budget, made: BTreeMap::new(), evidence: HashMap::new(), cut: Vec::new() }
    }

    /// A state.
    pub fn of(&mut self, what: StateOf) -> Arc<Json> {
        if let Some(known) = self.made.get(&what) {
            return Arc::clone(known);
        }
        let state = Arc::new(self.make(what));
        self.made.insert(what, Arc::clone(&state));
        state
    }

    /// The observations as one text, as claims are held against it; of too many, those nearest to the query.
    pub fn evidence(&mut self, query: &str) -> Arc<Json> {
        if let Some(known) = self.evidence.get(query) {
            return Arc::clone(known);
        }
        let evidence = Evidence::of(self.story);
        let index = Index::new(&evidence.observations);
        let state = evidence.state(&index, &[query.to_owned()], self.budget);
        self.cut.extend(state.cut);
        let text = Arc::new(Json::String(state.text));
        self.evidence.insert(query.to_owned(), Arc::clone(&text));
        text
    }

    fn make(&mut self, what: StateOf) -> Json {
        let wanted: fn(StepKind) -> bool = match what {
            StateOf::Answer | StateOf::Exchange => {
                let texts = Texts::new(self.ends(what), self.budget);
                self.note(what, &texts);
                return ends(what, texts.cut);
            }
            StateOf::Request => |kind| kind == StepKind::Request,
            StateOf::Conversation | StateOf::Instructed => {
                |kind| matches!(kind, StepKind::Request | StepKind::Answer)
            }
            StateOf::Tools => |kind| matches!(kind, StepKind::ToolCall | StepKind::Observation),
            StateOf::Observations => |kind| kind == StepKind::Observation,
            StateOf::Story => |_| true,
        };
        let mut view = Map::new();
        if matches!(what, StateOf::Instructed | StateOf::Story) {
            self.put_instructions(what, &mut view);
        }
        if matches!(what, StateOf::Tools | StateOf::Story) {
            self.put_tools(what, &mut view);
        }
        let taken: usize = view.values().map(|value| value.to_string().chars().count()).sum();
        let mut steps: Vec<&Step> = self.story.steps.iter().filter(|step| wanted(step.kind)).collect();
        let most = (self.budget / STEP).max(1);
        if steps.len() > most {
            let all = steps.len();
            steps.drain(..all - most);
            self.cut.push(format!("{}: the last {most} of {all} steps", what.as_str()));
        }
        let request = self.story.request.clone().filter(|_| what == StateOf::Tools);
        let own = steps.iter().map(|step| step.text.clone().unwrap_or_default());
        let arguments =
            steps.iter().map(|step| step.arguments.as_ref().map(Json::to_string).unwrap_or_default());
        let all: Vec<String> = own.chain(arguments).chain(request).collect();
        let texts = Texts::new(all, self.budget.saturating_sub(taken + steps.len() * STEP / 2));
        self.note(what, &texts);
        let count = steps.len();
        let told: Vec<Json> = steps
            .iter()
            .enumerate()
            .map(|(at, step)| {
                tell(what, step, call_of(self.story, step), &texts.cut[at], texts.shortened(count + at))
            })
            .collect();
        let name = match what {
            StateOf::Request => "requests",
            StateOf::Conversation | StateOf::Instructed => "conversation",
            StateOf::Observations => "observations",
            _ => "steps",
        };
        if what == StateOf::Tools {
            view.shift_insert(0, "request".to_owned(), json!(texts.cut.get(2 * count)));
        }
        view.insert(name.to_owned(), Json::Array(told));
        Json::Object(view)
    }

    fn put_instructions(&mut self, what: StateOf, view: &mut Map<String, Json>) {
        let all = &self.story.instructions;
        if all.is_empty() {
            return;
        }
        let texts = Texts::new(all.iter().map(|told| told.text.clone()).collect(), self.budget / SHARE);
        self.note(what, &texts);
        let has_agents = self.story.agents.len() > 1;
        let told = all.iter().zip(texts.cut).map(|(told, text)| match told.agents.as_slice() {
            agents @ [_, ..] if has_agents => json!({ "agents": agents, "text": text }),
            _ => json!({ "text": text }),
        });
        view.insert("agent_instructions".to_owned(), told.collect());
    }

    fn put_tools(&mut self, what: StateOf, view: &mut Map<String, Json>) {
        let Some((key, tools, cut)) = offered::view(self.story, self.budget / SHARE) else { return };
        self.cut.extend(cut.map(|cut| format!("{}: {cut}", what.as_str())));
        view.insert(key.to_owned(), tools);
    }

    fn ends(&self, what: StateOf) -> Vec<String> {
        let answer = self.story.answer.clone().unwrap_or_default();
        match what {
            StateOf::Exchange => vec![self.story.request.clone().unwrap_or_default(), answer],
            _ => vec![answer],
        }
    }

    fn note(&mut self, what: StateOf, texts: &Texts) {
        if texts.count > 0 {
            let (count, all, most) = (texts.count, texts.cut.len(), texts.most);
            self.cut.push(format!(
                "{}: the middle of {count} of {all} texts, beyond {most} characters each",
                what.as_str()
            ));
        }
    }
}

fn ends(what: StateOf, mut texts: Vec<String>) -> Json {
    let answer = texts.pop().unwrap_or_default();
    match (what, texts.pop()) {
        (StateOf::Exchange, Some(request)) => json!({ "request": request, "answer": answer }),
        _ => Json::String(answer),
    }
}

/// The step of the call whose result this step is: with calls side by side, order does not tell.
fn call_of(story: &Story, step: &Step) -> Option<usize> {
    let id = step.call_id.as_ref().filter(|_| step.kind == StepKind::Observation)?;
    let is_call = |other: &&Step| other.kind == StepKind::ToolCall && other.call_id.as_ref() == Some(id);
    story.steps[..step.index.min(story.steps.len())].iter().rfind(is_call).map(|call| call.index)
}

/// A step as a model reads it. `arguments` are given as text if they had to be cut.
fn tell(what: StateOf, step: &Step, call: Option<usize>, text: &str, arguments: Option<&str>) -> Json {
    let mut view = Map::new();
    let mut put = |key: &str, value: Json| view.insert(key.to_owned(), value);
    let optional = |text: &Option<String>| text.clone().map(Json::String);
    match what {
        StateOf::Request => return Json::String(text.to_owned()),
        StateOf::Conversation | StateOf::Instructed => {
            put("role", json!(if step.kind == StepKind::Request { "user" } else { "agent" }));
            put("text", json!(text));
            return Json::Object(view);
        }
        StateOf::Observations => {
            if let Some(tool) = optional(&step.tool) {
                put("from", tool);
            }
            put("text", json!(text));
            return Json::Object(view);
        }
        _ => {}
    }
    put("step", json!(step.index));
    put("kind", serde_json::to_value(step.kind).unwrap_or_default());
    if let Some(agent) = optional(&step.agent) {
        put("agent", agent);
    }
    if let Some(tool) = optional(&step.tool) {
        put("tool", tool);
    }
    match (arguments, &step.arguments) {
        (Some(cut), Some(_)) => drop(put("arguments", json!(cut))),
        (None, Some(whole)) => drop(put("arguments", whole.clone())),
        _ => {}
    }
    if let Some(call) = call {
        put("result_of_step", json!(call));
    }
    if step.is_error == Some(true) {
        put("failed", json!(true));
    }
    if !text.is_empty() || step.kind == StepKind::Observation {
        put("text", json!(text));
    }
    Json::Object(view)
}

/// Texts that together fit a budget: the long ones are cut to one length, the others stay whole.
struct Texts {
    cut: Vec<String>,
    is_cut: Vec<bool>,
    count: usize,
    most: usize,
}

impl Texts {
    fn new(texts: Vec<String>, budget: usize) -> Self {
        let lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
        let most = level(&lengths, budget).max(SHORTEST);
        let is_cut: Vec<bool> = lengths.iter().map(|length| *length > most).collect();
        let cut =
            texts.into_iter().zip(&is_cut).map(|(text, cut)| if *cut { clip(&text, most) } else { text });
        Self { cut: cut.collect(), count: is_cut.iter().filter(|cut| **cut).count(), is_cut, most }
    }

    /// The text at this position if it was cut.
    fn shortened(&self, at: usize) -> Option<&str> {
        self.is_cut.get(at).copied().unwrap_or_default().then(|| self.cut[at].as_str())
    }
}

/// The length to which texts must be cut so that they fit: as water finds its level.
fn level(lengths: &[usize], budget: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut left = budget;
    for (at, length) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - at);
        if *length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

/// The start and the end of a text, `most` characters of it.
fn clip(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    let head = most * 2 / 3;
    let tail = most - head;
    let start: String = letters[..head].iter().collect();
    let end: String = letters[letters.len() - tail..].iter().collect();
    format!("{start} […{} characters left out…] {end}", letters.len() - most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ask::tests::story;
    use crate::domain::{Instructions, OfferedTool};

    fn told(what: StateOf, budget: usize) -> (Json, Vec<String>) {
        let mut story = story(&[
            (StepKind::Request, "Where is order 7?"),
            (StepKind::ToolCall, ""),
            (StepKind::Observation, "{\"state\":\"shipped\"}"),
            (StepKind::Answer, "It was shipped."),
        ]);
        story.steps[1].text = None;
        story.steps[1].tool = Some("lookup".to_owned());
        story.steps[1].arguments = Some(json!({"id": 7}));
        story.steps[2].tool = Some("lookup".to_owned());
        for step in &mut story.steps[1..3] {
            step.call_id = Some("c1".to_owned());
        }
        let mut states = States::new(&story, budget);
        ((*states.of(what)).clone(), states.cut)
    }

    #[test]
    fn each_state_shows_what_it_says() {
        assert_eq!(told(StateOf::Answer, 10_000).0, json!("It was shipped."));
        assert_eq!(told(StateOf::Request, 10_000).0, json!({"requests": ["Where is order 7?"]}));
        assert_eq!(
            told(StateOf::Exchange, 10_000).0,
            json!({"request": "Where is order 7?", "answer": "It was shipped."})
        );
        assert_eq!(
            told(StateOf::Conversation, 10_000).0,
            json!({"conversation": [{"role": "user", "text": "Where is order 7?"}, {"role": "agent", "text": "It was shipped."}]})
        );
        assert_eq!(
            told(StateOf::Observations, 10_000).0,
            json!({"observations": [{"from": "lookup", "text": "{\"state\":\"shipped\"}"}]})
        );
        assert_eq!(
            told(StateOf::Tools, 10_000).0,
            json!({"request": "Where is order 7?", "steps": [
                {"step": 1, "kind": "tool_call", "tool": "lookup", "arguments": {"id": 7}},
                {"step": 2, "kind": "observation", "tool": "lookup", "result_of_step": 1, "text": "{\"state\":\"shipped\"}"}]})
        );
        assert_eq!(told(StateOf::Story, 10_000).0["steps"].as_array().unwrap().len(), 4);
        assert!(told(StateOf::Story, 10_000).1.is_empty());
    }

    #[test]
    fn instructions_and_offered_tools_stand_before_the_steps_and_take_no_more_than_their_share() {
        let mut story = story(&[(StepKind::Request, "Where?"), (StepKind::Answer, "There.")]);
        assert_eq!(
            *States::new(&story, 1_000).of(StateOf::Instructed),
            *States::new(&story, 1_000).of(StateOf::Conversation)
        );
        story.instructions = vec![Instructions {
            agents: vec!["a".to_owned()],
            text: format!("Be kind. {}", "x".repeat(9_000)),
        }];
        story.tools = (0..90)
            .map(|number| OfferedTool {
                name: format!("tool{number}"),
                description: Some("What it does.".to_owned()),
                parameters: Some(json!({"type": "object"})),
                agents: Vec::new(),
                unlisted: false,
            })
            .collect();
        let mut states = States::new(&story, 4_000);
        let whole = states.of(StateOf::Story);
        let keys: Vec<&String> = whole.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["agent_instructions", "offered_tools", "steps"]);
        assert!(whole["agent_instructions"][0]["text"].as_str().unwrap().starts_with("Be kind."));
        assert!(whole["agent_instructions"][0].get("agents").is_none());
        assert_eq!(whole["steps"][1]["text"], "There.");
        assert!(whole.to_string().chars().count() < 4_000, "{whole}");
        let cut = states.cut.join("; ");
        assert!(cut.contains("the middle of 1 of 1 texts") && cut.contains(" of 90 offered tools"), "{cut}");
        let tools = states.of(StateOf::Tools);
        assert_eq!(
            tools.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["request", "offered_tools", "steps"]
        );
    }

    #[test]
    fn a_long_text_loses_its_middle_and_the_short_ones_stay() {
        let long = format!("START {} END", "x".repeat(5_000));
        let story = story(&[
            (StepKind::Request, "short"),
            (StepKind::Observation, &long),
            (StepKind::Answer, "also short"),
        ]);
        let mut states = States::new(&story, 1_000);
        let state = states.of(StateOf::Story).to_string();
        assert!(state.contains("START") && state.contains("END") && state.contains("also short"), "{state}");
        assert!(state.chars().count() < 1_400, "{}", state.len());
        assert!(states.cut[0].starts_with("story: the middle of 1 of "), "{:?}", states.cut);
    }

    #[test]
    fn of_too_many_steps_the_last_are_shown() {
        let steps: Vec<(StepKind, &str)> = (0..500).map(|_| (StepKind::Thought, "hm")).collect();
        let story = story(&steps);
        let mut states = States::new(&story, 1_000);
        assert_eq!(states.of(StateOf::Story)["steps"].as_array().unwrap().len(), 12);
        assert_eq!(states.cut, ["story: the last 12 of 500 steps"]);
    }

    proptest! {
        #[test]
        fn texts_fit_their_budget_and_none_is_cut_without_need(lengths in prop::collection::vec(0usize..3_000, 1..12), budget in 2_400usize..20_000) {
            let texts = Texts::new(lengths.iter().map(|length| "é".repeat(*length)).collect(), budget);
            let kept: usize = lengths.iter().map(|length| (*length).min(texts.most)).sum();
            prop_assert!(kept <= budget);
            let all: usize = lengths.iter().sum();
            prop_assert_eq!(texts.count == 0, all <= budget);
        }
    }
}
