//! Evaluation as a program calls it, and the same judge behind the commands.

use assayd::config::Config;
use assayd::domain::Label;
use assayd::evaluate::{Backend, EvaluateError, Evaluator, Input};

use super::*;

fn input() -> Input {
    Input::new("You have 90 days.")
        .query("How long can I return shoes?")
        .context(json!({"policy": "Footwear may be returned within 30 days."}))
        .noul("polite", "Is it polite?")
        .choice("topic", "What is it about?", ["returns", "payment"])
        .score("clarity", "How clear is it?", ["muddled", "clear"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_input_is_evaluated_by_an_llm_and_by_a_cascade() {
    let judge = First::start().await;
    let backend: Backend = judge.backend().parse().unwrap();
    let evaluation = Evaluator::open(&backend).unwrap().evaluate(&input()).await.unwrap();
    // The first label of a claim's question is `grounded`.
    assert_eq!((evaluation.label, evaluation.score), (Some(Label::Faithful), Some(1.0)));
    assert_eq!(evaluation.hallucination_probability, None, "an LLM gives no probability");
    let picks: Vec<&str> =
        evaluation.answers.values().map(|answer| answer.as_ref().unwrap().label.as_str()).collect();
    assert_eq!(picks, ["0", "false", "returns"]);
    assert!(evaluation.answers.values().all(|answer| answer.as_ref().unwrap().is_judged));
    assert_eq!(judge.calls(), 1, "one call for claims and questions");
    assert_eq!(evaluation.verdict.usage.judge_input_tokens, 1000);

    let cascade = Evaluator::with(Config::default(), Some(&Backend::Embedded), Some(&backend)).unwrap();
    let evaluation = cascade.evaluate(&input()).await.unwrap();
    assert!(
        evaluation.hallucination_probability.is_some_and(|p| p > 0.5),
        "the embedded model's: {evaluation:?}"
    );
    assert_eq!(evaluation.label, Some(Label::Faithful), "the judge's");
    assert_eq!(evaluation.answers["topic"].as_ref().unwrap().label, "returns");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_fails_gives_error_values_and_no_score() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(401).set_body_json(json!({"error": {"message": "bad key"}})))
        .mount(&server)
        .await;
    let backend: Backend = format!("openai:large@{}/v1", server.uri()).parse().unwrap();
    let evaluator = Evaluator::open(&backend).unwrap();
    let evaluation = evaluator.evaluate(&input()).await;
    let answers = match &evaluation {
        Ok(evaluation) => {
            assert_eq!(evaluation.hallucination_probability, None);
            assert_ne!(evaluation.label, Some(Label::Faithful));
            assert!(evaluation.verdict.degraded && evaluation.verdict.judge_error.is_some());
            &evaluation.answers
        }
        Err(error) => panic!("the questions' errors are values of their own: {error}"),
    };
    assert_eq!(answers.len(), 3);
    assert!(
        answers
            .values()
            .all(|answer| answer.as_ref().is_err_and(|error| error.why.contains("refuses the key"))),
        "{answers:?}"
    );
    assert!(matches!(evaluator.evaluate(&Input::new("")).await, Err(EvaluateError::Empty)));
    assert!(Evaluator::open(&"/no/such/model".parse().unwrap()).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_ask_and_hook_take_the_same_names() {
    let judge = First::start().await;
    let backend = judge.backend();
    let checked = beside(words(&[
        "check",
        "--model",
        &backend,
        "--context",
        "30 days.",
        "--response",
        "It is 30 days.",
    ]))
    .await;
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    assert_eq!(json_of(&checked)["model"], "judge-large");
    let asked =
        beside(words(&["ask", "--model", &backend, "--state", "s", "--noul", "Urgent?", "--json"])).await;
    assert_eq!(json_of(&asked)["answers"]["noul_0"]["x_pick"], "false", "{}", stderr(&asked));
    let before = judge.calls();

    // The embedded model would send this answer back; the judge, asked for what it is unsure of, does not.
    let transcript = fixture("transcripts/claude-wrong-number.transcript.jsonl");
    let input = std::fs::read_to_string(fixture("transcripts/claude-wrong-number.stop-hook.json")).unwrap();
    let mut input: Value = serde_json::from_str(&input).unwrap();
    input["transcript_path"] = json!(transcript);
    let hooked = tokio::task::spawn_blocking(move || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args(["hook", "--judge", &backend])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let hooked = hooked.await.unwrap();
    assert_eq!((hooked.status.code(), stdout(&hooked).as_str()), (Some(0), ""), "{}", stderr(&hooked));
    assert_eq!(judge.calls(), before + 1);
}
