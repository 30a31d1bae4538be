//! From a configuration as people write it to the verdict: providers, partition, own metrics and templates wired together.

use assayd::config;
use assayd::decide::{self, DecideError, Reply};
use assayd::domain::{Decision, Inquiry, Json, Outcome, Standing, Tier};
use assayd::judge::build;
use assayd::pipeline::Assayer;
use assayd::serve::CheckRequest;
use serde_json::json;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::Scripted;

/// Answers as Anthropic does: a metric by its schema, claims as grounded but for the last, which is contradicted.
fn submits(body: &Json) -> ResponseTemplate {
    let properties = &body["tools"][0]["input_schema"]["properties"];
    let input = if properties.get("tone_compliant").is_some() {
        json!({ "tone_compliant": false, "forbidden_words": ["cheap"] })
    } else {
        let lists = &properties["partition"]["properties"];
        let keys =
            lists["grounded_claims"]["items"]["properties"]["claim"]["enum"].as_array().unwrap().clone();
        let entry = |key: &Json| json!({ "claim": key, "reasoning": "r", "evidence_type": "tool_match", "refs": ["30 days"] });
        let (last, others) = keys.split_last().unwrap();
        json!({ "partition": {
            "grounded_claims": others.iter().map(entry).collect::<Vec<_>>(), "ungrounded_claims": [],
            "contradicted_claims": [entry(last)], "complementary_claims": [], "gaps": [], "contradictions": [],
            "verification_needed": false, "verification_reason": "", "explanation": "e", "is_grounded": false,
            "grounding_score": 0.1, "decision_status": "resolved", "decision_reason": "",
        } })
    };
    ResponseTemplate::new(200).set_body_json(json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{ "type": "tool_use", "id": "t", "name": "submit_answers", "input": input }],
        "usage": { "input_tokens": 1000, "output_tokens": 100 },
    }))
}

fn request() -> CheckRequest {
    CheckRequest {
        context: json!("Footwear may be returned within 30 days. Returns of footwear are free of charge."),
        query: Some("May I return these cheap boots?".to_owned()),
        response: "You may return footwear within 30 days. A return of footwear costs 9 EUR.".to_owned(),
        service: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_becomes_a_verdict_with_both_views_and_the_operators_own_metric() {
    let server = MockServer::start().await;
    let scripted = Scripted {
        script: Box::new(|_, body| submits(body)),
        count: Default::default(),
        sent: Default::default(),
    };
    Mock::given(method("POST"))
        .and(path("/v1/messages"))
        .and(header("x-api-key", "s3cret"))
        .respond_with(scripted)
        .mount(&server)
        .await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "s3cret").unwrap();
    let template = folder.path().join("tone.jinja");
    std::fs::write(
        &template,
        "House style. {{ fence }}\n{{ states[0].text }}\n{{ states[0].questions|join }}",
    )
    .unwrap();
    let yaml = format!(
        r#"
judge:
  anthropic: {{ url: "{}", model: claude-haiku-4-5, key: {{ file: "{}" }} }}
  partition: always
score: {{ services: {{ "*": {{ proceed: 0.95 }} }} }}
evaluate:
  metrics:
    tone:
      instructions: Is the tone ours?
      prompt: "{}"
      schema:
        type: object
        required: [tone_compliant, forbidden_words]
        additionalProperties: false
        properties: {{ tone_compliant: {{ type: boolean }}, forbidden_words: {{ type: array, items: {{ type: string }} }} }}
"#,
        server.uri(),
        folder.path().join("key").display(),
        template.display(),
    );
    let assayer = Assayer::start(&config::parse(&yaml, "test").unwrap()).unwrap();
    assayer.ready().await.unwrap();
    let verdict = assayer.check(&request()).await;

    assert_eq!(
        (verdict.outcome, verdict.degraded, verdict.judge_error.as_deref()),
        (Outcome::Scored, false, None)
    );
    let tone = &verdict.metrics["tone"];
    assert_eq!(tone.value, Some(json!({ "tone_compliant": false, "forbidden_words": ["cheap"] })));
    let grounding = verdict.grounding.as_ref().unwrap();
    let standings: Vec<_> =
        grounding.claims.iter().map(|claim| (claim.standing.unwrap(), claim.by.as_str())).collect();
    assert_eq!(standings, [(Standing::Grounded, "judge"), (Standing::Contradicted, "judge")]);
    let views = grounding.views.as_ref().unwrap();
    assert_eq!(views.local.standings.len(), 2);
    assert_eq!((views.judge.reported_score, views.judge.counts.contradicted), (Some(0.1), 1));
    // 1 / (1 + 0.5), with the judge's evidence types; what it wrote itself counts for nothing.
    assert!((views.judge.score - 1.0 / 1.5).abs() < 1e-9, "{}", views.judge.score);
    assert_eq!(views.judge.tier, Tier::Regenerate);
    assert_eq!(verdict.provenance.judge.as_deref(), Some("claude-haiku-4-5"));
    assert_eq!(verdict.provenance.prompts.as_ref().map(String::len), Some(32));
    assert_eq!((verdict.usage.judge_input_tokens, verdict.usage.judge_output_tokens), (2000, 200));
    assert!((verdict.usage.judge_cost_usd - 0.003).abs() < 1e-9, "the list price of a known model");

    let sent = server.received_requests().await.unwrap();
    assert_eq!(sent.len(), 2, "one call for the claims, one for the metric");
    let users: Vec<String> = sent
        .iter()
        .map(|request| {
            request.body_json::<Json>().unwrap()["messages"][0]["content"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(users.iter().any(|user| user.starts_with("House style.")));
    assert!(users.iter().any(|user| user.contains("Partition c1, c2.") && user.contains("within 30 days")));
}

#[tokio::test]
async fn a_template_with_an_undefined_variable_ends_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{{ evidence }}").unwrap();
    let yaml = format!(
        "judge: {{ openai: {{ url: 'http://127.0.0.1:1/v1', model: m }} }}\nevaluate:\n  evaluators:\n    tone: {{ type: noul, instructions: Is it?, prompt: '{}' }}\n",
        file.path().display()
    );
    let error = Assayer::start(&config::parse(&yaml, "test").unwrap()).err().unwrap().to_string();
    assert!(error.contains("undefined") && error.contains(file.path().to_str().unwrap()), "{error}");
}

/// A decision model that is sure that claims with a `30` stand and that nothing is toxic, and of nothing else.
fn decided(inquiry: &Inquiry) -> Result<Reply, DecideError> {
    let decisions = inquiry.questions.iter().map(|question| {
        let labels = question.kind.labels();
        let is_sure =
            format!("{question:?}").contains("30 days") || labels.iter().any(|label| label == "toxic");
        let (first, rest) = if is_sure { (0.97, 0.03) } else { (0.5, 0.5) };
        let rest = rest / (labels.len() - 1) as f64;
        let at = usize::from(labels[0] == "toxic");
        let probabilities = (0..labels.len()).map(|label| if label == at { first } else { rest }).collect();
        Ok(Decision { probabilities, tokens: 1 })
    });
    Ok(Reply { decisions: decisions.collect(), input_tokens: 10, truncated: false })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_the_model_is_unsure_of_goes_out_in_one_request_with_the_evidence_as_it_was() {
    let server = MockServer::start().await;
    let scripted = Scripted {
        script: Box::new(|_, body| {
            let answers =
                &body["response_format"]["json_schema"]["schema"]["properties"]["answers"]["properties"];
            let picks: serde_json::Map<String, Json> = answers
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, schema)| {
                    (
                        key.clone(),
                        json!({ "reasoning": "r", "answer": schema["properties"]["answer"]["enum"][0] }),
                    )
                })
                .collect();
            super::says(&json!({ "answers": picks }).to_string())
        }),
        count: Default::default(),
        sent: Default::default(),
    };
    let sent = std::sync::Arc::clone(&scripted.sent);
    Mock::given(method("POST")).and(path("/v1/chat/completions")).respond_with(scripted).mount(&server).await;
    let yaml = format!(
        "judge: {{ openai: {{ url: '{}/v1', model: judge-large }} }}\nevaluate: {{ use: [toxicity, answer_relevance] }}\n",
        server.uri()
    );
    let config = config::parse(&yaml, "test").unwrap();
    let desk = decide::start_with(decide::Scripted::new(decided), &config.decide).unwrap();
    let judge = build(&config.judge).unwrap();
    let assayer = Assayer::new(&config, desk, judge).unwrap();
    let evidence =
        "Footwear may be returned within 30 days.\n  Returns of footwear are free of charge: section 7.";
    let request = CheckRequest {
        context: json!(evidence),
        query: Some("May I return these boots?".to_owned()),
        response: "You may return footwear within 30 days. A return of footwear costs 9 EUR. Boots are footwear, section 8 says.".to_owned(),
        service: None,
    };
    let verdict = assayer.check(&request).await;

    let claims = &verdict.grounding.as_ref().unwrap().claims;
    let by: Vec<(&str, &str)> = claims.iter().map(|claim| (&*claim.text, &*claim.by)).collect();
    assert_eq!(by.iter().map(|(_, by)| *by).collect::<Vec<_>>(), ["local", "judge", "judge"], "{by:?}");
    assert_eq!(
        (verdict.answers["toxicity"].by.as_str(), verdict.answers["answer_relevance"].by.as_str()),
        ("local", "judge")
    );

    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 1, "one request");
    let user = sent[0]["messages"][1]["content"].as_str().unwrap();
    assert!(user.contains(evidence), "the evidence as it was: {user}");
    let questions = user.split("Questions about recorded material").skip(1).collect::<String>();
    assert!(questions.contains("costs 9 EUR") && questions.contains("section 8 says"), "{questions}");
    assert!(!questions.contains("\"You may return footwear within 30 days.\""), "{questions}");
    let keys: Vec<&String> =
        sent[0]["response_format"]["json_schema"]["schema"]["properties"]["answers"]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
    assert_eq!(keys, ["q1", "q2", "q3"], "two claims and one evaluator are left over");
    assert!(!sent[0].to_string().contains("0.97"), "no probability goes out");
}
