//! Reads a configuration file, with messages that say where the mistake is and what would be right.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Config, Role};

/// Why a configuration cannot be used. The process ends with exit code 64.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not a configuration; the message holds line, column and the accepted names.
    #[error("{place}: {message}")]
    Parse {
        /// The file, or `configuration`.
        place: String,
        /// What is wrong and where.
        message: String,
    },
    /// Values that do not go together; all of them.
    #[error("{place}: {}", problems.join("\n  "))]
    Check {
        /// The file, or `configuration`.
        place: String,
        /// One sentence each.
        problems: Vec<String>,
    },
}

/// What a configuration's text says of the OTLP listeners; all else is left to [`Config`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Mentioned {
    receive: MentionedListeners,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MentionedListeners {
    grpc: Option<IgnoredAny>,
    http: Option<IgnoredAny>,
}

/// Reads and checks the file at `path`; without one, the defaults.
pub fn load(path: Option<&Path>) -> Result<Config, ConfigError> {
    load_as(path, None)
}

/// The same for a process in that role, whatever the file says.
pub fn load_as(path: Option<&Path>, role: Option<Role>) -> Result<Config, ConfigError> {
    let Some(path) = path else { return parse_as("", "the configuration", role) };
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse_as(&text, &path.display().to_string(), role)
}

/// Reads and checks YAML `text`; `place` names it in messages.
pub fn parse(text: &str, place: &str) -> Result<Config, ConfigError> {
    parse_as(text, place, None)
}

fn parse_as(text: &str, place: &str, role: Option<Role>) -> Result<Config, ConfigError> {
    let is_blank = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    let mut config: Config = if is_blank {
        Config::default()
    } else {
        serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Parse { place: place.to_owned(), message: error.to_string() })?
    };
    config.role = role.unwrap_or(config.role);
    if config.role == Role::Worker {
        // A worker listens only where it is told to. The text is a configuration, so it can be read once more.
        let mentioned: Mentioned =
            if is_blank { Mentioned::default() } else { serde_saphyr::from_str(text).unwrap_or_default() };
        config.receive.grpc = config.receive.grpc.filter(|_| mentioned.receive.grpc.is_some());
        config.receive.http = config.receive.http.filter(|_| mentioned.receive.http.is_some());
    }
    let problems = config.problems();
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigError::Check { place: place.to_owned(), problems })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(yaml: &str) -> String {
        parse(yaml, "assayd.yaml").expect_err("this configuration is wrong").to_string()
    }

    #[test]
    fn no_text_at_all_is_a_working_configuration() {
        assert_eq!(parse("", "x").unwrap(), Config::default());
        assert_eq!(parse("# only a comment\n\n", "x").unwrap(), Config::default());
        assert_eq!(parse("{}", "x").unwrap(), Config::default());
    }

    #[test]
    fn a_worker_listens_only_where_it_is_told_to() {
        let kafka = "kafka: { brokers: [a:9092] }";
        let worker = |text: &str| parse(text, "x").unwrap().receive;
        let receive = worker(&format!("{{ role: worker, receive: {{ {kafka} }} }}"));
        assert!(receive.grpc.is_none() && receive.http.is_none());
        let receive = worker(&format!(
            "{{ role: worker, receive: {{ {kafka}, http: {{ listen: 127.0.0.1:4318 }} }} }}"
        ));
        assert!(receive.grpc.is_none() && receive.http.is_some());
        let receive = parse_as(&format!("receive: {{ {kafka} }}"), "x", Some(Role::Worker)).unwrap().receive;
        assert!(receive.grpc.is_none());
    }

    #[test]
    fn the_files_for_kafka_are_a_worker_and_a_gateway() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
        let worker = load(Some(&folder.join("kafka.yaml"))).unwrap();
        let gateway = load(Some(&folder.join("gateway.yaml"))).unwrap();
        assert_eq!((worker.role, gateway.role), (Role::Worker, Role::Gateway));
        assert_eq!(worker.receive.kafka.unwrap().topics, [gateway.relay.topic]);
        assert!(worker.receive.grpc.is_none() && gateway.receive.grpc.is_some());
    }

    #[test]
    fn a_role_without_what_it_needs_is_refused() {
        let missing = parse_as("", "the configuration", Some(Role::Worker)).unwrap_err().to_string();
        assert!(missing.contains("receive.kafka is not set"), "{missing}");
        assert!(message("{ role: gateway, receive: { grpc: null, http: null } }").contains("both"));
        assert!(message("{ role: gateway, receive: { kafka: {} } }").contains("relay"));
        assert!(parse("role: gateway", "x").is_ok());
    }

    #[test]
    fn an_unknown_key_is_told_with_its_line_and_the_accepted_names() {
        let message = message("assemble:\n  root_grace: 2s\n  idel: 30s\n");
        assert!(message.contains("assayd.yaml") && message.contains("idel"), "{message}");
        assert!(message.contains("3:3") || message.contains("line 3"), "{message}");
        assert!(message.contains("idle"), "{message}");
    }

    #[test]
    fn a_duplicate_key_and_a_wrong_type_are_told_with_their_line() {
        assert!(message("data_dir: a\ndata_dir: b\n").contains("data_dir"));
        let message = message("assemble:\n  idle: soon\n");
        assert!(message.contains("2:") || message.contains("line 2"), "{message}");
        assert!(message.contains("30s") || message.contains("duration"), "{message}");
    }

    #[test]
    fn all_cross_field_problems_are_told_at_once() {
        let message = message("score: { proceed: 0.6, regenerate: 0.7, contradiction_penalty: 3 }\n");
        assert!(message.contains("regenerate") && message.contains("contradiction_penalty"), "{message}");
    }

    #[test]
    fn a_secret_is_a_place_and_never_a_text() {
        let message = message("judge: { openai: { url: 'https://j/v1', model: m, key: sk-12345 } }\n");
        assert!(message.contains("key") || message.contains("env"), "{message}");
    }

    #[test]
    fn what_a_deployment_would_write_is_accepted() {
        let yaml = "\
receive:  { grpc: { listen: 127.0.0.1:4317 }, http: { listen: 127.0.0.1:4318 }, acknowledge: stored, max_bytes: 256MiB }
assemble: { root_grace: 2s, idle: 30s, max_age: 10m, max_traces: 20000 }
decide:   { model: embedded, min_confidence: 0.9 }
judge:    { openai: { url: https://judge.internal/v1, model: judge-large, key: { env: JUDGE_KEY } }, usd_per_day: 20 }
score:    { proceed: 0.80, regenerate: 0.65, contradiction_penalty: 0.5 }
emit:     { jsonl: { path: verdicts.jsonl }, kafka: { brokers: [kafka:9092], topic: verdicts } }
serve:    { listen: 127.0.0.1:8321 }
data_dir: ./assayd-data
";
        let config = parse(yaml, "assayd.yaml").unwrap();
        assert_eq!(config.judge.model(), Some("judge-large"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Some(Path::new("/nowhere/assayd.yaml"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/assayd.yaml"));
    }
}
