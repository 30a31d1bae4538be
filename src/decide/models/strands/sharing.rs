//! Inquiries that share a pass, a state or a cache get the answers that they would get alone.

use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device};
use futures::future::join_all;
use serde_json::json;

use super::encoder::Work;
use super::engine::Strands;
use super::load::{Options, load, load_on};
use super::torso::{CpuTorso, Torso};
use crate::decide::{Config, Decider, Reply, start_with};
use crate::domain::{Inquiry, Json, Kind, Question, Subject};

fn model(name: &str, options: &Options) -> Strands<CpuTorso> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decider/checkpoints").join(name);
    load(&folder, options).unwrap()
}

fn no_cache() -> Options {
    Options { prefix_cache: 0, ..Options::default() }
}

fn question(id: usize) -> Question {
    let kind = match id % 3 {
        0 => Kind::Noul { if_true: None, if_false: Some(json!("not at all")) },
        1 => Kind::Choice {
            options: vec![
                ("billing".into(), json!("money")),
                ("sales".into(), Json::Null),
                ("x".into(), json!({"a": 1})),
            ],
        },
        _ => Kind::Score { levels: vec![json!("low"), json!({"level": "middle"}), json!("high")] },
    };
    let instructions = json!(format!("Question {id}: is it urgent?{}", " Really?".repeat(id % 4)));
    Question { id: format!("q{id}"), kind, instructions, subject: Subject::General }
}

fn inquiry(state: usize, questions: std::ops::Range<usize>) -> Inquiry {
    let text = format!("Ticket {state}. {}", "My payouts fail. ".repeat(state % 5));
    Inquiry::new(Arc::new(json!(text)), questions.map(question).collect())
}

fn work(model: &Strands<CpuTorso>, inquiries: &[Inquiry]) -> Vec<Work> {
    inquiries.iter().map(|inquiry| model.encoder.work(inquiry).unwrap()).collect()
}

fn alone(name: &str, inquiries: &[Inquiry]) -> Vec<Reply> {
    let mut model = model(name, &no_cache());
    work(&model, inquiries)
        .iter()
        .map(|work| model.decide(std::slice::from_ref(work)).unwrap().remove(0))
        .collect()
}

fn assert_same(ours: &[Reply], theirs: &[Reply]) {
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(theirs) {
        assert_eq!((a.input_tokens, a.decisions.len()), (b.input_tokens, b.decisions.len()));
        for (a, b) in a.decisions.iter().zip(&b.decisions) {
            let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
            let worst = a.probabilities.iter().zip(&b.probabilities).map(|(a, b)| (a - b).abs());
            assert!(worst.fold(0.0, f64::max) <= 3e-5, "{a:?} {b:?}");
        }
    }
}

fn mixed() -> Vec<Inquiry> {
    vec![inquiry(1, 0..3), inquiry(4, 3..4), inquiry(1, 2..6), inquiry(0, 0..1), inquiry(3, 5..7)]
}

#[test]
fn a_batch_answers_as_its_inquiries_alone() {
    for name in ["tiny-lora", "tiny-legacy"] {
        let inquiries = mixed();
        let mut model = model(name, &no_cache());
        let together = model.decide(&work(&model, &inquiries)).unwrap();
        assert_same(&together, &alone(name, &inquiries));
    }
}

#[test]
fn however_small_the_passes_the_answers_are_the_same() {
    let inquiries = mixed();
    let expected = alone("tiny-lora", &inquiries);
    for batch_tokens in [1, 60, 130, 300] {
        let mut model = model("tiny-lora", &Options { batch_tokens, ..no_cache() });
        let together = model.decide(&work(&model, &inquiries)).unwrap();
        assert_same(&together, &expected);
    }
}

#[test]
fn a_known_state_answers_as_a_new_one() {
    let inquiries = mixed();
    let expected = alone("tiny-legacy", &inquiries);
    let mut model = model("tiny-legacy", &Options::default());
    let work = work(&model, &inquiries);
    model.decide(&work).unwrap();
    let held = model.cache.bytes();
    assert!(held > 0);
    assert_same(&model.decide(&work).unwrap(), &expected);
    assert_eq!(model.cache.bytes(), held, "the second time everything was known");
    model.recover();
    assert_eq!(model.cache.bytes(), 0);
}

#[test]
fn the_order_and_names_of_questions_change_nothing() {
    let mut turned = inquiry(2, 0..5);
    turned.questions.reverse();
    turned.questions.iter_mut().for_each(|question| question.id.push_str("_renamed"));
    let mut replies = alone("tiny-lora", &[inquiry(2, 0..5), turned]);
    replies[1].decisions.reverse();
    assert_same(&replies[1..], &replies[..1]);
}

#[test]
fn the_device_s_torso_answers_as_the_cpu_s() {
    for name in ["tiny-lora", "tiny-legacy", "tiny-merged"] {
        let mut inquiries = mixed();
        // Longer than two chunks of the delta rule.
        inquiries
            .push(Inquiry::new(Arc::new(json!("My payouts fail again. ".repeat(40))), vec![question(1)]));
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decider/checkpoints").join(name);
        let mut model = load_on(&folder, &Options::default(), &Device::Cpu, DType::F32).unwrap();
        let work: Vec<Work> = inquiries.iter().map(|inquiry| model.encoder.work(inquiry).unwrap()).collect();
        let expected = alone(name, &inquiries);
        assert_same(&model.decide(&work).unwrap(), &expected);
        assert_same(&model.decide(&work).unwrap(), &expected);
    }
}

#[test]
fn a_state_says_how_much_it_holds() {
    let mut model = model("tiny-lora", &Options::default());
    let work = work(&model, &[inquiry(1, 0..1)]);
    model.decide(&work).unwrap();
    let state = model.cache.find(&work[0].chunks[0].state).unwrap();
    // 6 linear layers: 4 heads of 16 × 16 and 3 rows of 192; 2 full layers: keys and values of 2 heads × 32 per token.
    let tokens = work[0].chunks[0].state.len();
    assert_eq!(model.torso.weight(&state), 4 * (6 * (4 * 256 + 3 * 192) + 2 * tokens * 2 * 64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_callers_at_once_get_their_own_answers() {
    // Eight states, so that some callers share one and most do not; every caller has another question.
    let inquiries: Vec<Inquiry> =
        (0..64).map(|caller| inquiry(caller % 8, caller..caller + 1 + caller % 2)).collect();
    let expected = alone("tiny-lora", &inquiries);
    let config = Config { batch_tokens: 500.try_into().unwrap(), ..Config::default() };
    let desk = start_with(model("tiny-lora", &Options { batch_tokens: 500, ..Options::default() }), &config)
        .unwrap();
    let replies = join_all(inquiries.into_iter().map(|inquiry| {
        let desk = desk.clone();
        tokio::spawn(async move { desk.ask(inquiry).await.unwrap() })
    }))
    .await;
    let replies: Vec<Reply> = replies.into_iter().map(Result::unwrap).collect();
    assert_same(&replies, &expected);
    let first = |reply: &Reply| reply.decisions[0].as_ref().unwrap().probabilities.clone();
    assert_ne!(first(&replies[0]), first(&replies[1]));
}
