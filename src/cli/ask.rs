//! `assayd ask`: puts typed questions about a state to a model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::{Map, json};

use super::Usage;
use crate::config::Config;
use crate::decide::{Health, Node, Reply, answer_json};
use crate::domain::{Inquiry, Json, Kind, Nobody, Question, Subject};
use crate::evaluate::{Answerer, Backend};
use crate::judge::{Ask, Judgement};

/// Ask a model typed questions about a state
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  assayd ask --model ./my-checkpoint --state 'My payouts fail!' \\
    --noul 'Is it urgent?' --choice 'Which team?=billing,sales' \\
    --score 'How angry?=calm,cross,furious'
  assayd ask --model systemone:http://localhost:11434#nimble \\
    --state @ticket.txt --noul 'Is it urgent?'
  TYPESAFE_API_KEY=… assayd ask --model systemone --state 'It fails!' --noul 'Urgent?'

The key for another address is taken from ASSAYD_DECIDE_KEY, if it is set. The embedded model
compares claims with evidence and answers no question of this kind.

Exit codes: 0 all questions were answered, 1 some were not, 64 the command line is wrong.")]
pub struct Args {
    /// The model: embedded, strands:NAME (or a checkpoint's folder or Hub id), a server (systemone:URL#MODEL, decisions:URL#MODEL;
    /// without URL the hosted one), or an LLM: openai:MODEL[@URL], anthropic:MODEL, bedrock:MODEL
    #[arg(long, value_name = "BACKEND")]
    pub model: Backend,
    /// The state: a text, or @FILE (a .json file is read as JSON)
    #[arg(long)]
    pub state: String,
    /// A yes/no question. Repeatable
    #[arg(long, value_name = "Q")]
    pub noul: Vec<String>,
    /// A question and its options: 'Q=a,b,c'. Repeatable
    #[arg(long, value_name = "Q=A,B")]
    pub choice: Vec<String>,
    /// A question and its levels, lowest first: 'Q=low,high'. Repeatable
    #[arg(long, value_name = "Q=LOW,HIGH")]
    pub score: Vec<String>,
    /// The base model's folder, if the checkpoint is an adapter and does not find it
    #[arg(long)]
    pub base: Option<PathBuf>,
    /// Print the answers as POST /v1/systemone gives them
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. The exit code is 1 if a question was not answered.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let questions = questions(&args)?;
    if questions.is_empty() {
        return Err(Usage("no question: give --noul, --choice or --score".to_owned()).into());
    }
    let state = Arc::new(state(&args.state)?);
    super::log(&crate::logging::Config::default(), super::Voice::Quiet)?;
    let mut config = Config::default();
    config.decide.base = args.base;
    let inquiry = Inquiry::new(state, questions.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (text, is_answered) = match Answerer::open(config, &args.model)? {
        Answerer::Decider(desk) => {
            let reply = runtime.block_on(async {
                // A daemon waits for a server that is not there yet; a person wants to know.
                let is_there = desk.ready().await || desk.health() != Health::Unreachable;
                ensure!(is_there, "{} cannot be reached; standard error says why", args.model);
                Ok(desk.ask(inquiry).await?)
            })?;
            let is_answered = reply.decisions.iter().all(Result::is_ok);
            let text = if args.json {
                format!("{}\n", body(&desk.info().name, &questions, &reply))
            } else {
                table(&questions, &reply)
            };
            (text, is_answered)
        }
        Answerer::Judge(judge) => {
            let judgement = runtime
                .block_on(judge.judge(&Ask { inquiries: vec![inquiry] }))
                .with_context(|| args.model.to_string())?;
            let text = if args.json {
                format!("{}\n", picked_body(judge.model(), &questions, &judgement))
            } else {
                picked_table(&questions, &judgement)
            };
            (text, judgement.unanswered.is_empty())
        }
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(if is_answered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An LLM's picks. They have no probabilities, so the contract's numbers are left out rather than made up.
fn picked_body(model: &str, questions: &[Question], judgement: &Judgement) -> Json {
    let answers: Map<String, Json> = questions
        .iter()
        .map(|question| {
            let kind = question.kind.as_str();
            let answer = match judgement.answers.iter().find(|judged| judged.id == question.id) {
                Some(judged) => {
                    json!({"type": kind, "x_pick": judged.label, "x_reasoning": judged.reasoning})
                }
                None => json!({"type": kind, "x_nobody": left_open(question, judgement)}),
            };
            (question.id.clone(), answer)
        })
        .collect();
    let usage = &judgement.usage;
    let usage = json!({"input_tokens": usage.judge_input_tokens, "output_tokens": usage.judge_output_tokens});
    json!({"model": model, "answers": answers, "usage": usage})
}

fn picked_table(questions: &[Question], judgement: &Judgement) -> String {
    let mut text = String::new();
    for question in questions {
        let asked = question.instructions.as_str().unwrap_or_default();
        let answer = match judgement.answers.iter().find(|judged| judged.id == question.id) {
            Some(judged) => {
                format!("{} ({})", judged.label, judged.reasoning.as_deref().unwrap_or("no reason given"))
            }
            None => format!("not answered: {}", left_open(question, judgement)),
        };
        text.push_str(&format!("{asked}\n  {answer}\n"));
    }
    text
}

fn left_open(question: &Question, judgement: &Judgement) -> String {
    let open = judgement.unanswered.iter().find(|unanswered| unanswered.id == question.id);
    open.map_or_else(|| "the judge left it open".to_owned(), |open| format!("the question {}", open.why))
}

fn state(given: &str) -> anyhow::Result<Json> {
    let Some(path) = given.strip_prefix('@') else { return Ok(Json::String(given.to_owned())) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the state in {path}"))?;
    if Path::new(path).extension().is_none_or(|extension| extension != "json") {
        return Ok(Json::String(text));
    }
    Ok(Node::read(&text).with_context(|| format!("{path} is not JSON"))?.into_json())
}

fn questions(args: &Args) -> anyhow::Result<Vec<Question>> {
    let mut questions = Vec::new();
    let mut add = |id: String, instructions: &str, kind: Kind| {
        let instructions = Json::String(instructions.trim().to_owned());
        questions.push(Question { id, kind, instructions, subject: Subject::General });
    };
    for (index, text) in args.noul.iter().enumerate() {
        add(format!("noul_{index}"), text, Kind::Noul { if_true: None, if_false: None });
    }
    for (index, text) in args.choice.iter().enumerate() {
        let (instructions, options) = split(text, "--choice", 255)?;
        let mut named: Vec<(String, Json)> = Vec::new();
        for option in options {
            if named.iter().any(|(name, _)| *name == option) {
                return Err(Usage(format!("option {option:?} is given twice in {text:?}")).into());
            }
            named.push((option, Json::String(String::new())));
        }
        add(format!("choice_{index}"), instructions, Kind::Choice { options: named });
    }
    for (index, text) in args.score.iter().enumerate() {
        let (instructions, levels) = split(text, "--score", 10)?;
        let levels = levels.into_iter().map(Json::String).collect();
        add(format!("score_{index}"), instructions, Kind::Score { levels });
    }
    Ok(questions)
}

/// `Q=a,b`: split at the first `=`, options at commas, stripped, blanks dropped.
fn split<'a>(text: &'a str, flag: &str, most: usize) -> anyhow::Result<(&'a str, Vec<String>)> {
    let Some((instructions, list)) = text.split_once('=') else {
        let problem = format!("{flag} {text:?} has no options: write 'question=first,second'");
        return Err(Usage(problem).into());
    };
    let options: Vec<String> =
        list.split(',').map(str::trim).filter(|option| !option.is_empty()).map(str::to_owned).collect();
    let count = options.len();
    if !(2..=most).contains(&count) {
        return Err(Usage(format!("{flag} {text:?}: 2 to {most} options are possible, not {count}")).into());
    }
    Ok((instructions, options))
}

fn body(model: &str, questions: &[Question], reply: &Reply) -> Json {
    let answers: Map<String, Json> = questions
        .iter()
        .zip(&reply.decisions)
        .map(|(question, decision)| {
            let answer = match decision {
                Ok(decision) => answer_json(&question.kind, decision),
                Err(nobody) => json!({"type": question.kind.as_str(), "x_nobody": explained(nobody)}),
            };
            (question.id.clone(), answer)
        })
        .collect();
    let usage = json!({"input_tokens": reply.input_tokens, "output_tokens": reply.decisions.len()});
    json!({"model": model, "answers": answers, "usage": usage})
}

fn table(questions: &[Question], reply: &Reply) -> String {
    let mut text = String::new();
    for (question, decision) in questions.iter().zip(&reply.decisions) {
        let asked = question.instructions.as_str().unwrap_or_default();
        let answer = match decision {
            Ok(decision) => {
                let labels = shown(&question.kind);
                let shares: Vec<String> = labels
                    .iter()
                    .zip(&decision.probabilities)
                    .map(|(label, p)| format!("{label} {:.1}%", p * 100.0))
                    .collect();
                format!(
                    "{} (confidence {:.2}; {})",
                    labels.get(decision.pick()).map_or("", String::as_str),
                    decision.confidence(&question.kind),
                    shares.join(", ")
                )
            }
            Err(nobody) => format!("not answered: {}", explained(nobody)),
        };
        text.push_str(&format!("{asked}\n  {answer}\n"));
    }
    if reply.truncated {
        text.push_str("note: the state or a question was cut to fit the model's window\n");
    }
    text
}

/// The labels as people gave them: a level by its words where it has some.
fn shown(kind: &Kind) -> Vec<String> {
    let Kind::Score { levels } = kind else { return kind.labels() };
    let of = |(number, level): (String, &Json)| level.as_str().map_or(number, str::to_owned);
    kind.labels().into_iter().zip(levels).map(of).collect()
}

fn explained(nobody: &Nobody) -> String {
    match nobody {
        Nobody::Failed(why) | Nobody::Refused(why) => why.clone(),
        Nobody::Unsupported => "the model does not answer questions of this kind".to_owned(),
        other => other.reason().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Decision;

    fn args(choice: &[&str], score: &[&str]) -> Args {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Args {
            model: Backend::Embedded,
            state: String::new(),
            noul: vec!["Urgent?".to_owned()],
            choice: owned(choice),
            score: owned(score),
            base: None,
            json: false,
        }
    }

    #[test]
    fn questions_are_named_by_kind_and_asked_in_its_order() {
        let questions = questions(&args(&["Team? a=b=x, y,, z "], &["How?=low,high"])).unwrap();
        let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
        assert_eq!(ids, ["noul_0", "choice_0", "score_0"]);
        assert_eq!(questions[1].instructions, "Team? a");
        assert_eq!(questions[1].kind.labels(), ["b=x", "y", "z"]);
        assert_eq!(questions[2].kind, Kind::Score { levels: vec![json!("low"), json!("high")] });
    }

    #[test]
    fn levels_are_shown_by_their_words() {
        let questions = questions(&args(&[], &["How?=low,high"])).unwrap();
        let decision = Decision { probabilities: vec![0.2, 0.8], tokens: 1 };
        let reply = Reply { decisions: vec![Ok(decision)], input_tokens: 1, truncated: false };
        assert!(
            table(&questions[1..], &reply).contains("high (confidence"),
            "{}",
            table(&questions[1..], &reply)
        );
    }

    #[test]
    fn a_question_without_options_is_refused() {
        for (choice, score) in
            [("Team?", "x=a,b"), ("Team?=one", "x=a,b"), ("Team?=a,a", "x=a,b"), ("x=a,b", "x=a")]
        {
            assert!(questions(&args(&[choice], &[score])).is_err(), "{choice} {score}");
        }
    }
}
