//! The engine against the reference's recorded answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::encoder::Work;
use super::engine::Strands;
use super::json::Node;
use super::load::{Options, load};
use super::readback::{expected_level, legend, reference_confidence, round4};
use super::shards::{Rounding, Shard};
use super::torso::{After, CpuTorso, Segment, Torso};
use super::window::Refusal;
use crate::decide::kernels::Precision;
use crate::decide::{Decider, Encoded, Reply};
use crate::domain::{Inquiry, Json, Kind, Nobody, Question, Subject};

/// The reference's two paths differ by a tenth of this.
const TOLERANCE: f64 = 1e-4;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decider")
}

fn model(name: &str, options: &Options) -> Strands<CpuTorso> {
    load(&fixtures().join("checkpoints").join(name), options).unwrap()
}

fn lines(file: &str) -> Vec<Node> {
    lines_of(&fixtures().join("golden").join(file))
}

fn lines_of(path: &Path) -> Vec<Node> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| Node::read(line).unwrap()).collect()
}

fn json_of(node: &Node, key: &str) -> Json {
    node.member(key).cloned().unwrap_or(Node::Null).into_json()
}

/// A request's inquiry, by the rules of the wire format; only for valid requests.
fn inquiry(request: &Node) -> Inquiry {
    let Some(Node::Object(questions)) = request.member("questions") else { panic!("no questions") };
    let questions = questions.iter().map(|(id, question)| Question {
        id: id.clone(),
        kind: kind(question),
        instructions: json_of(question, "instructions"),
        subject: Subject::General,
    });
    Inquiry::new(Arc::new(json_of(request, "state")), questions.collect())
}

fn kind(question: &Node) -> Kind {
    let criteria = question.member("criteria").cloned().unwrap_or(Node::Null);
    let told = match question.member("type") {
        Some(Node::String(told)) => told.clone(),
        _ => match &criteria {
            Node::Array(_) => "score".to_owned(),
            Node::Object(members) if members.iter().any(|(key, _)| key != "true" && key != "false") => {
                "choice".to_owned()
            }
            _ => "noul".to_owned(),
        },
    };
    match (told.as_str(), criteria) {
        ("score", Node::Array(levels)) => {
            Kind::Score { levels: levels.into_iter().map(Node::into_json).collect() }
        }
        ("choice", Node::Object(options)) => Kind::Choice {
            options: options.into_iter().map(|(name, node)| (name, node.into_json())).collect(),
        },
        ("noul", criteria) => {
            let side = |key: &str| criteria.member(key).cloned().map(Node::into_json);
            Kind::Noul { if_true: side("true"), if_false: side("false") }
        }
        other => panic!("{other:?}"),
    }
}

fn answer(model: &mut Strands<CpuTorso>, inquiry: &Inquiry) -> Reply {
    match model.encoder().encode(inquiry.clone()).unwrap() {
        Encoded::Work { work, .. } => model.decide(&[work]).unwrap().remove(0),
        Encoded::Done(reply) => reply,
    }
}

/// The body that the reference would answer, without its model's name.
fn body(inquiry: &Inquiry, reply: &Reply, smoothing: f64) -> Json {
    let mut answers = serde_json::Map::new();
    for (question, decision) in inquiry.questions.iter().zip(&reply.decisions) {
        let decision = decision.as_ref().unwrap();
        let p = &decision.probabilities;
        let labels = question.kind.labels();
        let confidence = reference_confidence(&question.kind, p, smoothing).map(round4);
        let probabilities: serde_json::Map<String, Json> =
            labels.iter().zip(p).map(|(label, p)| (label.clone(), json!(round4(*p)))).collect();
        let answer = match &question.kind {
            Kind::Noul { .. } => json!({"type": "noul", "noul": round4(p[1])}),
            Kind::Choice { .. } => json!({"type": "choice", "choice": labels[decision.pick()],
                "probabilities": probabilities, "confidence": confidence}),
            Kind::Score { levels } => json!({"type": "score", "score": round4(expected_level(p)),
                "legend": Json::Object(legend(levels).into_iter().map(|(i, text)| (i, json!(text))).collect()),
                "probabilities": probabilities, "confidence": confidence}),
        };
        answers.insert(question.id.clone(), answer);
    }
    json!({"answers": answers,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": reply.decisions.len()}})
}

/// Equal but for numbers within the tolerance, and key order counts. The pick may differ where the top two are that close.
fn assert_like(ours: &Json, theirs: &Json, place: &str) {
    match (ours, theirs) {
        (Json::Object(a), Json::Object(b)) => {
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{place}");
            a.iter().for_each(|(key, value)| assert_like(value, &b[key], &format!("{place}.{key}")));
        }
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            // Rounded numbers may land on neighbouring sides of a rounding boundary.
            assert!((a - b).abs() <= 2.1 * TOLERANCE, "{place}: {a} {b}");
        }
        _ => assert_eq!(ours, theirs, "{place}"),
    }
}

fn ids(node: &Node) -> Vec<usize> {
    let Node::Array(items) = node else { panic!("no array") };
    let number = |item: &Node| match item {
        Node::Number(text) => text.parse().unwrap(),
        other => panic!("{other:?}"),
    };
    items.iter().map(number).collect()
}

fn check_golden(name: &str) {
    let smoothing = if name == "tiny-legacy" { 0.0 } else { 0.1 };
    let lines = lines(&format!("{name}.jsonl"));
    assert_eq!(check_lines(&mut model(name, &Options::default()), &lines, smoothing, name), 134);
}

/// Gives the number of questions.
fn check_lines(model: &mut Strands<CpuTorso>, lines: &[Node], smoothing: f64, place: &str) -> usize {
    let mut worst = 0.0_f64;
    let mut questions = 0;
    for line in lines {
        let id = format!("{place} {}", json_of(line, "id"));
        let inquiry = inquiry(line.member("request").unwrap());
        if let Json::String(theirs) = json_of(line, "detail") {
            let reply = answer(model, &inquiry);
            let first = reply.decisions.into_iter().find_map(Result::err);
            assert_eq!(first, Some(Nobody::Refused(theirs)), "{id}");
            continue;
        }
        let work = model.encoder.work(&inquiry).unwrap();
        check_tokens(&id, &work, &inquiry, line);
        let reply = answer(model, &inquiry);
        for (question, decision) in inquiry.questions.iter().zip(&reply.decisions) {
            let recorded = line.member("questions").unwrap().member(&question.id).unwrap();
            let Json::Array(theirs) = json_of(recorded, "probabilities") else { panic!("no probabilities") };
            let ours = &decision.as_ref().unwrap().probabilities;
            assert_eq!(ours.len(), theirs.len());
            for (a, b) in ours.iter().zip(theirs) {
                worst = worst.max((a - b.as_f64().unwrap()).abs());
            }
            questions += 1;
        }
        assert!(worst <= TOLERANCE, "{id}: {worst}");
        let mut theirs = json_of(line, "response");
        theirs.as_object_mut().unwrap().shift_remove("model");
        assert_like(&body(&inquiry, &reply, smoothing), &theirs, &id);
    }
    questions
}

fn check_tokens(id: &str, work: &Work, inquiry: &Inquiry, line: &Node) {
    let Some(Node::Array(chunks)) = line.member("chunks") else { panic!("no chunks") };
    assert_eq!(work.chunks.len(), chunks.len(), "{id}");
    for (ours, theirs) in work.chunks.iter().zip(chunks) {
        let state: Vec<usize> = ours.state.iter().map(|token| *token as usize).collect();
        assert_eq!(state, ids(theirs.member("state_token_ids").unwrap()), "{id}");
    }
    let prompts = work.chunks.iter().flat_map(|chunk| &chunk.questions);
    for (question, prompt) in inquiry.questions.iter().zip(prompts) {
        let recorded = line.member("questions").unwrap().member(&question.id).unwrap();
        let prompt = prompt.as_ref().unwrap();
        let tokens: Vec<usize> = prompt.tokens.iter().map(|token| *token as usize).collect();
        assert_eq!(tokens, ids(recorded.member("token_ids").unwrap()), "{id} {}", question.id);
        assert_eq!(prompt.options, ids(recorded.member("option_token_idx").unwrap()), "{id} {}", question.id);
    }
}

#[test]
fn tiny_lora_answers_as_the_reference_did() {
    check_golden("tiny-lora");
}

#[test]
fn tiny_legacy_answers_as_the_reference_did() {
    check_golden("tiny-legacy");
}

#[test]
fn tiny_merged_answers_as_the_reference_did() {
    check_golden("tiny-merged");
}

/// Checkpoints of other shapes than the shared ones, made and answered by `tests/decider/vary.py`; more of them lie where
/// `ASSAYD_VARIED` says.
#[test]
fn checkpoints_of_many_shapes_answer_as_the_reference_did() {
    let elsewhere = std::env::var_os("ASSAYD_VARIED").map(PathBuf::from);
    let enough = if elsewhere.is_some() { (1, 1) } else { (5, 50) };
    let folder = elsewhere.unwrap_or_else(|| fixtures().join("varied"));
    let mut cases: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let mut questions = 0;
    for case in &cases {
        let mut model = load(&case.join("model"), &Options::default()).unwrap();
        let smoothing = model.encoder.ordinal_smoothing();
        let lines = lines_of(&case.join("golden.jsonl"));
        questions += check_lines(&mut model, &lines, smoothing, &case.display().to_string());
    }
    assert!((cases.len(), questions) >= enough, "{} checkpoints, {questions} questions", cases.len());
}

/// At least 99 of 100 golden questions must keep their pick in int8. These models are too narrow for rounding to be worth
/// anything, so their products stay in f32 whatever is configured, and all questions keep their probabilities.
#[test]
fn every_golden_question_is_answered_alike_when_int8_is_configured() {
    for (name, smoothing) in [("tiny-lora", 0.1), ("tiny-legacy", 0.0), ("tiny-merged", 0.1)] {
        let mut model = model(name, &Options { precision: Precision::Int8, ..Options::default() });
        assert_eq!(check_lines(&mut model, &lines(&format!("{name}.jsonl")), smoothing, name), 134);
    }
}

#[test]
fn what_the_engine_of_the_reference_refused_is_refused_in_its_words() {
    for name in ["tiny-lora", "tiny-legacy", "tiny-merged"] {
        let mut model = model(name, &Options::default());
        let mut seen = 0;
        for line in lines(&format!("{name}.refused.jsonl")) {
            let id = json_of(&line, "id");
            if !id.as_str().unwrap().starts_with("option_truncated_away") {
                continue;
            }
            let reply = answer(&mut model, &inquiry(line.member("request").unwrap()));
            let first = reply.decisions.iter().find_map(|decision| decision.as_ref().err());
            let theirs = json_of(line.member("body").unwrap(), "detail");
            assert_eq!(first, Some(&Nobody::Refused(theirs.as_str().unwrap().to_owned())), "{id}");
            seen += 1;
        }
        assert_eq!(seen, 2);
    }
}

#[test]
fn a_model_says_of_itself_what_the_reference_said() {
    for name in ["tiny-lora", "tiny-legacy", "tiny-merged"] {
        let theirs = fs::read_to_string(fixtures().join(format!("golden/{name}.health.json"))).unwrap();
        let theirs: serde_json::Map<String, Json> = serde_json::from_str(&theirs).unwrap();
        let info = model(name, &Options::default()).info();
        assert_eq!(theirs["model"], info.name);
        for (key, value) in &info.facts {
            // The reference was started beside its checkpoints.
            if key != "checkpoint" {
                assert_eq!(value, &theirs[key], "{name} {key}");
            }
        }
    }
}

#[test]
fn odd_json_reads_as_in_the_reference() {
    for name in ["tiny-lora", "tiny-legacy", "tiny-merged"] {
        let mut model = model(name, &Options::default());
        for line in lines(&format!("{name}.refused.jsonl")) {
            let id = json_of(&line, "id");
            if !matches!(id.as_str(), Some("nan_state" | "duplicate_keys")) {
                continue;
            }
            let raw = json_of(&line, "request_raw");
            let inquiry = inquiry(&Node::read(raw.as_str().unwrap()).unwrap());
            let reply = answer(&mut model, &inquiry);
            let mut theirs = json_of(&line, "body");
            theirs.as_object_mut().unwrap().shift_remove("model");
            assert_like(&body(&inquiry, &reply, 0.1), &theirs, &id.to_string());
        }
    }
}

#[test]
fn a_strict_window_refuses_what_the_reference_refused() {
    let meta = fs::read_to_string(fixtures().join("golden/meta.json")).unwrap();
    let meta: Json = serde_json::from_str(&meta).unwrap();
    for name in ["tiny-lora", "tiny-legacy"] {
        let model = model(name, &Options { strict_window: true, ..Options::default() });
        let requests = lines(&format!("{name}.jsonl"));
        for outcome in meta[name]["strict_window"].as_array().unwrap() {
            let line = requests.iter().find(|line| json_of(line, "id") == outcome["id"]).unwrap();
            let work = model.encoder.work(&inquiry(line.member("request").unwrap())).unwrap();
            let first = work.chunks[0].questions.iter().find_map(|prompt| prompt.as_ref().err());
            assert_eq!(first.map(Refusal::to_string).as_deref(), outcome["detail"].as_str(), "{outcome}");
        }
    }
}

#[test]
fn every_layer_gives_what_the_reference_s_gave() {
    for name in ["tiny-lora", "tiny-legacy", "tiny-merged"] {
        check_trace(name);
    }
}

fn check_trace(name: &str) {
    let mut model = model(name, &Options::default());
    let trace = Shard::open(&fixtures().join(format!("golden/{name}.trace.safetensors"))).unwrap();
    let facts = fs::read_to_string(fixtures().join(format!("golden/{name}.trace.json"))).unwrap();
    let inquiry = inquiry(Node::read(&facts).unwrap().member("request").unwrap());
    let work = model.encoder.work(&inquiry).unwrap();
    let prompt = work.chunks[0].questions[0].as_ref().unwrap();
    let tokens: Vec<u32> = work.chunks[0].state.iter().chain(&prompt.tokens).copied().collect();
    let seen: Arc<Mutex<BTreeMap<String, Vec<f32>>>> = Arc::default();
    let sink = Arc::clone(&seen);
    model.torso.set_probe(Box::new(move |name, values| {
        sink.lock().unwrap().insert(name.to_owned(), values.to_vec());
    }));
    let wanted = (0..tokens.len()).collect();
    let segment = Segment { tokens: &tokens, after: After::Nothing, wanted, keep: true };
    let pass = model.torso.forward(&[segment]).unwrap();
    let seen = seen.lock().unwrap();
    let recorded = |name: &str| {
        let shape = trace.shape(name).unwrap().to_vec();
        trace.values(name, &shape, Rounding::F32).unwrap()
    };
    let mut compared = 0;
    for tensor in trace.names() {
        if let Some(ours) = seen.get(&tensor) {
            assert_close(ours, &recorded(&tensor), &format!("{name} {tensor}"));
            compared += 1;
        }
    }
    // embed and final_norm; input_layernorm and out of 8 layers; out, final_state and gated norm of layer 0; two of layer 3.
    assert_eq!(compared, 2 + 16 + 3 + 2);
    let input = [recorded("layer.0.in_proj_qkv"), recorded("layer.0.in_proj_z")];
    assert_close(&seen["layer.0.in_proj"], &beside(&input, tokens.len()), "layer.0.in_proj");
    let gates = [recorded("layer.0.in_proj_b"), recorded("layer.0.in_proj_a")];
    assert_close(&seen["layer.0.gates"], &beside(&gates, tokens.len()), "layer.0.gates");
    let (shape, keys) = (trace.shape("layer.3.k_rope").unwrap(), recorded("layer.3.k_rope"));
    let heads: Vec<Vec<f32>> = keys.chunks(shape[1] * shape[2]).map(<[f32]>::to_vec).collect();
    assert_close(&seen["layer.3.k_turned"], &beside(&heads, tokens.len()), "layer.3.k_rope");
    let state = work.chunks[0].state.len();
    let hidden = model.torso.hidden();
    let rows = prompt.options.iter().map(|option| state + option).chain([tokens.len() - 1]);
    let rows: Vec<f32> = rows.flat_map(|row| pass.rows[row * hidden..][..hidden].to_vec()).collect();
    assert_close(&model.head.logits(&rows), &recorded("head.logits"), "head.logits");
}

/// Matrices of equally many rows, side by side.
fn beside(parts: &[Vec<f32>], rows: usize) -> Vec<f32> {
    let part_of_row =
        |part: &Vec<f32>, row: usize| part[part.len() / rows * row..part.len() / rows * (row + 1)].to_vec();
    (0..rows).flat_map(|row| parts.iter().flat_map(move |part| part_of_row(part, row))).collect()
}

/// Within 1e-4 of the tensor's scale. The reference keeps its adapter unmerged, and these random nets amplify the rounding.
fn assert_close(ours: &[f32], theirs: &[f32], place: &str) {
    assert_eq!(ours.len(), theirs.len(), "{place}");
    let scale = theirs.iter().map(|value| value.abs()).fold(1.0, f32::max);
    for (index, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= 1e-4 * scale, "{place}[{index}]: {a} {b}, scale {scale}");
    }
}
