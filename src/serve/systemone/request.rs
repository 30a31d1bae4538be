//! From a body to an inquiry, or to all that is wrong with it; its questions one by one in `question`. Pure.
//!
//! Two dialects meet here. TypeSafe's requests name a `model` and give every question a `type`; instructions may be left out.
//! Those of the Strands server need no `model`, and then a `type` may be left out: the criteria tell it; instructions may not.
//! In that dialect what the Strands server refuses is refused, with the entries of its list that speak of the form that was meant.

mod question;

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use serde_json::json;

use super::Problem;
use super::flaw::{Flaw, Place};
use crate::decide::Node;
use crate::domain::{Inquiry, Json, Question};
use crate::serve::reply::Refusal;

/// Most questions of one request.
const MAX_QUESTIONS: usize = 2_000;
/// Further flaws of one body are not told.
const MAX_FLAWS: usize = 100;
/// The reference's words.
const NO_VISION: &str = "this engine has no vision tower; serve with --vision for images";

/// What a body asks.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    /// State and questions.
    pub(super) inquiry: Inquiry,
    /// The model that it names, in TypeSafe's dialect.
    pub(super) model: Option<String>,
}

/// Reads a body.
pub(super) fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Asked, Problem> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => return Err(invalid(Flaw::no_json(error.valid_up_to(), "the body is not UTF-8"))),
    };
    match media_type(headers).as_deref() {
        None => {}
        Some("multipart/form-data") => return Err(Problem::Refused(NO_VISION.to_owned())),
        Some(media_type) if is_json(media_type) => {}
        Some(_) => return Err(invalid(Flaw::no_object(Node::String(text.to_owned())))),
    }
    if text.trim().is_empty() {
        return Err(invalid(Flaw::missing(&Place::body(), &Node::Null)));
    }
    let node = Node::read(text).map_err(|error| invalid(Flaw::no_json(error.position, error.message)))?;
    Reader::default().asked(node)
}

fn invalid(flaw: Flaw) -> Problem {
    Problem::Invalid(vec![flaw])
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json"
        || media_type.starts_with("application/") && media_type.ends_with("+json")
}

/// Collects what is wrong on the way.
#[derive(Default)]
struct Reader {
    flaws: Vec<Flaw>,
}

impl Reader {
    fn asked(mut self, body: Node) -> Result<Asked, Problem> {
        let place = Place::body();
        for name in ["state", "questions"] {
            if body.member(name).is_none() {
                self.flaw(Flaw::missing(&place.at(name), &body));
            }
        }
        let dialect = if body.member("model").is_some() { Dialect::TypeSafe } else { Dialect::Strands };
        let has_images = self.has_images(&body, dialect);
        let (mut state, mut questions, mut named) = (Json::Null, Vec::new(), None);
        let Node::Object(members) = body else { return Err(invalid(Flaw::no_object(body))) };
        for (name, value) in members {
            let at = place.at(name.clone());
            match name.as_str() {
                "state" => state = self.state(value, &at),
                "questions" => questions = self.questions(value, dialect, &at),
                "model" => match value {
                    Node::String(model) => named = Some(model),
                    other => self.flaw(Flaw::no_string(&at, &other)),
                },
                _ => {}
            }
        }
        if !self.flaws.is_empty() {
            return Err(Problem::Invalid(self.flaws));
        }
        if has_images {
            return Err(Problem::Refused(NO_VISION.to_owned()));
        }
        if questions.len() > MAX_QUESTIONS {
            let message =
                format!("{} questions: at most {MAX_QUESTIONS} fit in one request", questions.len());
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).into());
        }
        Ok(Asked { inquiry: Inquiry::new(Arc::new(state), questions), model: named })
    }

    fn flaw(&mut self, flaw: Flaw) {
        if self.flaws.len() < MAX_FLAWS {
            self.flaws.push(flaw);
        }
    }

    fn state(&mut self, state: Node, place: &Place) -> Json {
        if !is_text(&state) {
            self.no_text(place, &state);
        }
        state.into_json()
    }

    /// Images in either dialect: they must not be left out of what is asked without a word.
    fn has_images(&mut self, body: &Node, dialect: Dialect) -> bool {
        let place = Place::body().at("images");
        let given = match body.member("images") {
            None => false,
            Some(Node::Null) if dialect == Dialect::TypeSafe => false,
            Some(Node::Array(images)) => {
                for (index, image) in images.iter().enumerate() {
                    if !matches!(image, Node::String(_)) {
                        self.flaw(Flaw::no_string(&place.at(index), image));
                    }
                }
                !images.is_empty()
            }
            Some(other) => {
                self.flaw(Flaw::no_list(&place, other));
                true
            }
        };
        given || matches!(body.member("assets"), Some(Node::Object(assets)) if !assets.is_empty())
    }

    fn questions(&mut self, questions: Node, dialect: Dialect, place: &Place) -> Vec<Question> {
        let Node::Object(members) = questions else {
            self.flaw(Flaw::no_map(place, &questions));
            return Vec::new();
        };
        if members.is_empty() {
            let msg = "Dictionary should have at least 1 item after validation, not 0";
            let ctx = json!({"field_type": "Dictionary", "min_length": 1, "actual_length": 0});
            self.flaw(Flaw::new("too_short", place, msg, &Node::Object(members)).with(ctx));
            return Vec::new();
        }
        let read = |(id, question)| self.question(id, question, dialect, place);
        members.into_iter().filter_map(read).collect()
    }

    fn no_text(&mut self, place: &Place, found: &Node) {
        Flaw::no_text(place, found).into_iter().for_each(|flaw| self.flaw(flaw));
    }
}

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    TypeSafe,
    Strands,
}

/// Whether this is one of the types in which the contract takes text.
fn is_text(node: &Node) -> bool {
    matches!(node, Node::String(_) | Node::Object(_) | Node::Array(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Kind, Subject};

    fn read_text(body: &str) -> Result<Inquiry, Problem> {
        read(&HeaderMap::new(), body.as_bytes()).map(|asked| asked.inquiry)
    }

    fn flaws(body: &Json) -> Vec<String> {
        match read_text(&body.to_string()) {
            Err(Problem::Invalid(flaws)) => flaws
                .iter()
                .map(|flaw| format!("{}: {}", serde_json::to_string(&flaw.loc).unwrap(), flaw.msg))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    fn question(body: Json) -> Question {
        read_text(&json!({"state": "s", "questions": {"q": body}}).to_string()).unwrap().questions.remove(0)
    }

    #[test]
    fn a_flaw_is_told_for_the_form_that_was_meant_and_all_are_told_at_once() {
        let body = json!({"state": 3, "questions": {
            "a": {"type": "choice", "instructions": "?", "criteria": {"x": 1, "y": null}},
            "b": {"type": "score", "instructions": "?", "criteria": {"0": "low", "1": "high"}},
        }});
        assert_eq!(
            flaws(&body),
            [
                r#"["body","state","str"]: Input should be a valid string"#,
                r#"["body","state","dict[str,any]"]: Input should be a valid dictionary"#,
                r#"["body","state","list[any]"]: Input should be a valid list"#,
                r#"["body","questions","a","ChoiceQuestion","criteria","x","str"]: Input should be a valid string"#,
                r#"["body","questions","a","ChoiceQuestion","criteria","x","dict[str,any]"]: Input should be a valid dictionary"#,
                r#"["body","questions","a","ChoiceQuestion","criteria","x","list[any]"]: Input should be a valid list"#,
                r#"["body","questions","b","ScoreQuestion","criteria"]: Input should be a valid list"#,
            ]
        );
    }

    #[test]
    fn a_type_may_be_left_out_only_in_the_dialect_without_a_model() {
        let body = |model: Option<&str>| json!({"state": "s", "model": model, "questions": {"q": {"instructions": "Ok?"}}});
        let mut without = body(None);
        without.as_object_mut().unwrap().remove("model");
        assert!(matches!(read_text(&without.to_string()).unwrap().questions[0].kind, Kind::Noul { .. }));
        assert_eq!(flaws(&body(Some("jev-latest"))), [r#"["body","questions","q","type"]: Field required"#]);
        let kind = |criteria: Json| question(json!({"instructions": "Which?", "criteria": criteria})).kind;
        assert!(matches!(kind(json!(["a", "b"])), Kind::Score { .. }));
        assert!(matches!(kind(json!({"a": null, "b": "x"})), Kind::Choice { .. }));
    }

    #[test]
    fn without_a_model_instructions_are_asked_for_as_by_the_strands_server() {
        for (asked, flaw) in [
            (
                json!({"type": "choice", "criteria": {"a": null, "b": null}}),
                r#"["body","questions","q","ChoiceQuestion","instructions"]: Field required"#,
            ),
            (
                json!({"criteria": ["lo", "hi"]}),
                r#"["body","questions","q","ScoreQuestion","instructions"]: Field required"#,
            ),
            (
                json!({"instructions": null, "criteria": {"true": "x"}}),
                r#"["body","questions","q","NoulQuestion","instructions","str"]: Input should be a valid string"#,
            ),
            (
                json!("Ok?"),
                r#"["body","questions","q","NoulQuestion"]: Input should be a valid dictionary or object to extract fields from"#,
            ),
            (
                json!({"type": "noul", "instructions": "?", "criteria": {"maybe": 1}}),
                r#"["body","questions","q","NoulQuestion","criteria","maybe","str"]: Input should be a valid string"#,
            ),
            (
                json!({"type": "choice", "instructions": "?", "criteria": {"a": 1}}),
                r#"["body","questions","q","ChoiceQuestion","criteria","a","str"]: Input should be a valid string"#,
            ),
        ] {
            let found = flaws(&json!({"state": "s", "questions": {"q": asked}}));
            assert_eq!(found[0], flaw);
            assert!(!found.iter().any(|flaw| flaw.contains("Value error")), "{found:?}");
        }
        assert_eq!(
            flaws(&json!({"state": "s", "questions": {"q": {"instructions": "?"}}, "images": null})),
            [r#"["body","images"]: Input should be a valid list"#]
        );
    }

    #[test]
    fn a_noul_needs_instructions_or_a_described_side() {
        let body = |criteria: Json| json!({"model": "m", "state": "s", "questions": {"q": {"type": "noul", "criteria": criteria}}});
        let described = read_text(&body(json!({"true": "x"})).to_string()).unwrap();
        assert_eq!(described.questions[0].instructions, Json::Null);
        for criteria in [json!(null), json!({}), json!({"true": null})] {
            let body = body(criteria);
            assert_eq!(
                flaws(&body),
                [r#"["body","questions","q","NoulQuestion","instructions"]: Field required"#]
            );
        }
    }

    #[test]
    fn images_are_refused_in_both_dialects_and_never_left_out_silently() {
        let asked = json!({"q": {"type": "noul", "instructions": "Ok?"}});
        for (key, value) in [("images", json!(["aGk="])), ("assets", json!({"a": {"type": "image"}}))] {
            let body = json!({"state": "s", "questions": asked, key: value});
            assert_eq!(read_text(&body.to_string()), Err(Problem::Refused(NO_VISION.to_owned())));
        }
        let none = json!({"state": "s", "questions": asked, "images": [], "assets": {}, "extra": 1});
        assert!(read_text(&none.to_string()).is_ok());
    }

    #[test]
    fn grounding_questions_are_known_by_their_options_or_their_instructions() {
        let options = json!({"grounded": "a", "ungrounded": null, "contradicted": null});
        let claim = |instructions: Json| {
            question(json!({"type": "choice", "instructions": instructions, "criteria": options})).subject
        };
        let grounding = |claim: &str| Subject::Grounding { claim: claim.to_owned() };
        assert_eq!(claim(json!("It rained.")), grounding("It rained."));
        assert_eq!(claim(json!("Only the state counts.\nClaim: It rained.")), grounding("It rained."));
        assert_eq!(claim(json!({"claim": " It rained. "})), grounding("It rained."));
        assert_eq!(claim(json!({"other": 1})), Subject::General);
        let noul =
            |instructions: Json| question(json!({"type": "noul", "instructions": instructions})).subject;
        assert_eq!(noul(json!({"claim": "It rained."})), grounding("It rained."));
        assert_eq!(noul(json!({"query": "weather"})), Subject::Relevance { query: "weather".to_owned() });
        assert_eq!(noul(json!("Did it rain?")), Subject::General);
        let other =
            json!({"type": "choice", "instructions": {"claim": "x"}, "criteria": {"a": null, "b": null}});
        assert_eq!(question(other).subject, Subject::General);
    }

    #[test]
    fn a_body_of_many_flaws_is_answered_with_a_bounded_list() {
        let questions: serde_json::Map<String, Json> =
            (0..1_000).map(|index| (index.to_string(), json!({"type": "rank"}))).collect();
        assert_eq!(flaws(&json!({"state": "s", "questions": questions})).len(), MAX_FLAWS);
    }

    #[test]
    fn a_lone_surrogate_is_no_json() {
        let body = r#"{"state": "a \ud800 b", "questions": {"q": {"type": "noul", "instructions": "Ok?"}}}"#;
        let Err(Problem::Invalid(flaws)) = read_text(body) else { panic!("it was read") };
        assert_eq!((flaws[0].kind, flaws[0].loc[1].as_u64()), ("json_invalid", Some(13)));
    }

    #[test]
    fn too_many_questions_are_too_large() {
        let questions: serde_json::Map<String, Json> = (0..=MAX_QUESTIONS)
            .map(|index| (index.to_string(), json!({"type": "noul", "instructions": "?"})))
            .collect();
        let Err(Problem::House(refusal)) =
            read_text(&json!({"state": "", "questions": questions}).to_string())
        else {
            panic!("it was read")
        };
        assert_eq!(refusal.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
