//! What the cascade costs against one judge call with all questions, measured on the same stories; not a test of the build:
//!
//! ```text
//! cargo test --release --test grading -- --ignored --nocapture cascade
//! ```
//!
//! The judge is scripted: it takes 800 ms for whatever it is asked, and costs 2.5 and 10 dollars per million tokens of prompt and
//! reply, counted as a fourth of the characters of the state and of each question, and 60 tokens for each answer. The decision
//! model is the embedded one, or the one that `ASSAYD_MODEL` names. Only ratios of one run mean anything.

#![expect(clippy::print_stdout, reason = "the numbers are the product")]

use std::time::{Duration, Instant};

use assayd::ask;
use assayd::convert;
use assayd::decide::{self, ModelName};
use assayd::domain::{AnswerBy, Questions, Usage};
use assayd::judge::{Ask, Judge, JudgeError, Judged, Judgement};
use assayd::pipeline::Cascade;
use assayd::receive::read_files;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;

const STORIES: usize = 40;
const LATENCY: Duration = Duration::from_millis(800);

/// Picks the first label of each question.
struct Fixed;

fn price(ask: &Ask) -> Usage {
    let chars = |text: &Value| text.as_str().map_or_else(|| text.to_string().len(), str::len) as u64;
    let questions = || ask.inquiries.iter().flat_map(|inquiry| &inquiry.questions);
    let states: u64 = ask.inquiries.iter().map(|inquiry| chars(&inquiry.state)).sum();
    let asked: u64 = questions().map(|question| chars(&question.instructions) + 300).sum();
    let (input, output) = (400 + (states + asked) / 4, 60 * questions().count() as u64);
    Usage {
        judge_input_tokens: input,
        judge_output_tokens: output,
        judge_cost_usd: (input as f64 * 2.5 + output as f64 * 10.0) / 1e6,
        ..Usage::default()
    }
}

impl Judge for Fixed {
    fn judge<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Judgement, JudgeError>> {
        async move {
            tokio::time::sleep(LATENCY).await;
            let questions = ask.inquiries.iter().flat_map(|inquiry| &inquiry.questions);
            let answers = questions.map(|question| Judged {
                id: question.id.clone(),
                label: question.kind.labels().swap_remove(0),
                reasoning: None,
            });
            Ok(Judgement {
                answers: answers.collect(),
                unanswered: vec![],
                usage: price(ask),
                cached: false,
                partition: None,
                truncated: vec![],
            })
        }
        .boxed()
    }

    fn model(&self) -> &str {
        "scripted"
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement; see above"]
async fn cascade() {
    let found = read_files(&[fixture("traces")]);
    let stories =
        convert::join_runs(found.traces).into_iter().filter_map(|trace| convert::story(&trace).ok());
    let all: Vec<Questions> = stories.map(|story| ask::questions(&story, &ask::Config::default())).collect();
    let all: Vec<&Questions> = all.iter().filter(|questions| !questions.inquiries.is_empty()).collect();
    // Every n-th, so that stories of all instrumentations are among them.
    let all: Vec<&Questions> = all.iter().step_by(all.len().div_ceil(STORIES)).copied().collect();
    let count: usize =
        all.iter().flat_map(|questions| &questions.inquiries).map(|inquiry| inquiry.questions.len()).sum();
    let model = std::env::var("ASSAYD_MODEL").map_or(ModelName::Embedded, |name| ModelName::parse(&name));
    let desk = decide::start(&decide::Config { model, ..decide::Config::default() }).unwrap();
    assert!(desk.ready().await);
    println!(
        "{} stories, {count} questions, decision model {}, judge {LATENCY:?} a call",
        all.len(),
        desk.info().name
    );

    let started = Instant::now();
    let mut alone = 0.0;
    for questions in &all {
        let judgement = Fixed.judge(&Ask { inquiries: questions.inquiries.clone() }).await.unwrap();
        alone += judgement.usage.judge_cost_usd;
    }
    let judge_time = started.elapsed();
    println!(
        "{:>10} {:>9} {:>12} {:>12} {:>8} {:>8}",
        "threshold", "to judge", "s/story", "USD/story", "time", "cost"
    );
    let per = |time: Duration| time.as_secs_f64() / all.len() as f64;
    println!(
        "{:>10} {:>8}% {:>12.4} {:>12.6} {:>8} {:>8}",
        "judge only",
        100,
        per(judge_time),
        alone / all.len() as f64,
        "1.00",
        "1.00"
    );
    for threshold in [0.0, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9] {
        let cascade = Cascade::new(desk.clone(), Some(Arc::new(Fixed)), threshold);
        let started = Instant::now();
        let (mut cost, mut judged) = (0.0, 0);
        for questions in &all {
            let answers = cascade.answer(questions).await;
            cost += answers.usage.judge_cost_usd;
            judged += answers.responses.iter().filter(|response| response.by == AnswerBy::Judge).count();
        }
        let time = started.elapsed();
        println!(
            "{threshold:>10.2} {:>8.0}% {:>12.4} {:>12.6} {:>8.2} {:>8.2}",
            100.0 * judged as f64 / count as f64,
            per(time),
            cost / all.len() as f64,
            time.as_secs_f64() / judge_time.as_secs_f64(),
            cost / alone
        );
    }
}
