//! The laws of `assayd::fuzzing` on mutated recordings. `ASSAYD_FUZZ_ROUNDS` sets how many mutants a seed gets (20 by default),
//! `ASSAYD_FUZZ_SEED` where the mutations begin. A failure says how to see it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use assayd::fuzzing;

/// A small generator (xorshift64*): the same seed gives the same mutants everywhere.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

const TOKENS: [&[u8]; 16] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"-1",
    b"1e999",
    b"\\u0000",
    b"\\ud800",
    b"\xff\xfe",
    b"\n",
    b"9223372036854775808",
    "日\u{301}".as_bytes(),
];

fn mutant(seed: &[u8], others: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.below(6) {
        let at = chance.below(bytes.len());
        let end = (at + 1 + chance.below(64)).min(bytes.len());
        match chance.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << chance.below(8),
            1 if !bytes.is_empty() => bytes[at] = chance.next().to_le_bytes()[0],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => bytes.truncate(at),
            5 => drop(bytes.splice(at..at, TOKENS[chance.below(TOKENS.len())].iter().copied())),
            6 => drop(bytes.splice(at..end, TOKENS[chance.below(TOKENS.len())].iter().copied())),
            _ => {
                let other = &others[chance.below(others.len())];
                let from = chance.below(other.len());
                let to = (from + chance.below(256)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

fn hold(name: &str, seeds: &[Vec<u8>], rounds: u64, law: fn(&[u8])) {
    assert!(!seeds.is_empty(), "no seeds for {name}");
    keep(name, seeds);
    let rounds = number("ASSAYD_FUZZ_ROUNDS", rounds);
    let start = number("ASSAYD_FUZZ_SEED", 1);
    for (number, seed) in seeds.iter().enumerate() {
        law(seed);
        for round in 0..rounds {
            let mut chance =
                Chance((start + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number as u64 + 1) << 32);
            let bytes = mutant(seed, seeds, &mut chance);
            if catch_unwind(AssertUnwindSafe(|| law(&bytes))).is_err() {
                let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
                std::fs::create_dir_all(&folder).unwrap();
                let file = folder.join(format!("{name}-{number}-{}", start + round));
                std::fs::write(&file, &bytes).unwrap();
                panic!(
                    "{name}: seed {number}, round {}; the bytes are in {}; again: ASSAYD_FUZZ_SEED={} ASSAYD_FUZZ_ROUNDS=1 cargo test --test fuzz",
                    start + round,
                    file.display(),
                    start + round
                );
            }
        }
    }
}

/// Files below a folder of `tests/fixtures` whose names end so, the small ones first: mutations of those reach more.
fn recordings(folder: &str, end: &str, most: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder), end, &mut found);
    found.sort_by_key(|(size, path)| (*size, path.clone()));
    // Spread over the sizes, without the largest.
    let step = (found.len() * 3 / 4 / most).max(1);
    found.iter().step_by(step).take(most).map(|(_, path)| std::fs::read(path).unwrap()).collect()
}

fn gather(folder: &Path, end: &str, found: &mut Vec<(u64, PathBuf)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, end, found);
        } else if path.to_string_lossy().ends_with(end) {
            found.push((path.metadata().unwrap().len(), path));
        }
    }
}

#[test]
fn any_protobuf_is_read_or_refused_and_tells_a_sound_story() {
    hold("otlp_protobuf", &recordings("traces", ".otlp.pb", 24), 60, fuzzing::otlp_protobuf);
}

#[test]
fn any_json_is_read_or_refused_and_tells_a_sound_story() {
    hold("otlp_json", &recordings("traces", ".otlp.json", 24), 60, fuzzing::otlp_json);
}

#[test]
fn any_configuration_is_taken_or_refused_with_words() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut found = Vec::new();
    gather(&folder, ".yaml", &mut found);
    let seeds: Vec<Vec<u8>> = found.iter().map(|(_, path)| std::fs::read(path).unwrap()).collect();
    hold("configuration", &seeds, 40, fuzzing::configuration);
}

#[test]
fn any_transcript_is_read_and_its_evidence_keeps_to_the_limit() {
    hold("transcript", &recordings("transcripts", ".jsonl", 8), 60, fuzzing::transcript);
}

#[test]
fn any_hook_input_is_read_or_refused() {
    let seeds = [
        r#"{"hook_event_name":"Stop","session_id":"s","transcript_path":"/tmp/t.jsonl","stop_hook_active":false}"#,
        r#"{"type":"agent-turn-complete","last-assistant-message":"done","input-messages":["go"]}"#,
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    hold("hook_input", &seeds, 200, fuzzing::hook_input);
}

#[test]
fn no_order_of_ledger_operations_commits_past_an_open_record() {
    let mut chance = Chance(7);
    let seeds: Vec<Vec<u8>> =
        (0..20).map(|_| (0..400).map(|_| chance.next().to_le_bytes()[0]).collect()).collect();
    hold("offsets", &seeds, 50, fuzzing::offsets);
}

/// Replies as providers send them, whole and as bare texts.
fn replies() -> Vec<Vec<u8>> {
    let answers = r#"{"answers":{"q1":{"reasoning":"It says so.","answer":"grounded"},"q2":{"answer":true},"q3":{"answer":"4"}}}"#;
    let partition = r#"{"partition":{"grounded_claims":[{"claim":"c1","reasoning":"r","evidence_type":"tool_match","refs":["order 7: refunded"]}],"ungrounded_claims":["c2"],"contradicted_claims":[{"claim":"c3","refs":["arrival: Tuesday"]}],"complementary_claims":[],"gaps":["the year"],"contradictions":[],"verification_needed":true,"explanation":"half","is_grounded":false,"grounding_score":0.5,"decision_status":"resolved","decision_reason":"all are spoken of"}}"#;
    let value = r#"{"tone":"kind","level":4}"#;
    let mut all: Vec<String> = Vec::new();
    for text in [answers, partition, value] {
        let inner: serde_json::Value = serde_json::from_str(text).unwrap();
        let usage = serde_json::json!({ "prompt_tokens": 9, "completion_tokens": 3 });
        let said = serde_json::json!({ "role": "assistant", "content": text });
        let called = serde_json::json!({ "role": "assistant", "tool_calls": [
            { "type": "function", "function": { "name": "submit_answers", "arguments": text } },
        ] });
        for message in [said, called] {
            let choice = serde_json::json!({ "index": 0, "finish_reason": "stop", "message": message });
            all.push(serde_json::json!({ "choices": [choice], "usage": usage }).to_string());
        }
        let used = serde_json::json!([{ "type": "tool_use", "name": "submit_answers", "input": inner }]);
        let usage = serde_json::json!({ "input_tokens": 9, "output_tokens": 3 });
        all.push(
            serde_json::json!({ "content": used, "stop_reason": "tool_use", "usage": usage }).to_string(),
        );
        let content = serde_json::json!([{ "text": text }]);
        let message = serde_json::json!({ "role": "assistant", "content": content });
        let usage = serde_json::json!({ "inputTokens": 7, "outputTokens": 3, "totalTokens": 10 });
        all.push(
            serde_json::json!({ "output": { "message": message }, "stopReason": "max_tokens", "usage": usage })
                .to_string(),
        );
        all.push(format!("<think>well</think>Here:\n```json\n{text}\n```"));
        all.push(serde_json::to_string(text).unwrap());
        all.push(text.to_owned());
    }
    all.push(
        r#"{"error":{"type":"invalid_request_error","message":"too long","code":"context_length_exceeded"}}"#
            .into(),
    );
    all.into_iter().map(String::into_bytes).collect()
}

#[test]
fn any_reply_of_a_judge_answers_what_was_offered_or_is_an_error() {
    hold("judge_reply", &replies(), 150, fuzzing::judge_reply);
}

const DECISIONS: &str = r#"{"model":"m","answers":[
    {"type":"predicate","name":"q0","probability":0.7},
    {"type":"choice","name":"q1","probabilities":[{"value":"a","probability":0.2},{"value":"b","probability":0.7},{"value":"c","probability":0.1}]},
    {"type":"score","name":"q2","probabilities":[{"value":0,"probability":0.1},{"value":1,"probability":0.6},{"value":2,"probability":0.2},{"value":3,"probability":0.1}]}
],"usage":{"input_tokens":164}}"#;

#[test]
fn any_reply_of_a_remote_model_is_a_distribution_or_an_error() {
    let seeds = [
        r#"{"model":"m","answers":{"q0":{"type":"noul","noul":0.5},"q1":{"type":"choice","choice":"b","probabilities":{"a":0.2,"b":0.7,"c":0.1}},"q2":{"type":"score","score":1,"probabilities":{"0":0.1,"1":0.6,"2":0.2,"3":0.1}}},"usage":{"input_tokens":80,"output_tokens":3}}"#,
        DECISIONS,
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    hold("decider_reply", &seeds, 600, fuzzing::decider_reply);
}

/// With `ASSAYD_FUZZ_SEEDS=FOLDER` the seeds are written there, a folder for each law: the first corpus of `tests/fuzz/libfuzzer.sh`.
fn keep(name: &str, seeds: &[Vec<u8>]) {
    let Some(folder) = std::env::var_os("ASSAYD_FUZZ_SEEDS") else { return };
    let folder = Path::new(&folder).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    for (number, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(number.to_string()), seed).unwrap();
    }
}
