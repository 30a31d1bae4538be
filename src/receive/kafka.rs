//! Kafka as a source: OTLP requests from topics, at least once.
//!
//! One thread owns the consumer and the [`Ledger`](super::ledger::Ledger). It reads records, admits their spans at the door,
//! and commits an offset only when everything below it is done. While the door is full it pauses its partitions and keeps
//! polling, so that the group never takes it for dead.

mod commits;
mod complaints;
mod config;
mod context;
mod letters;
mod reader;
mod value;

use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub use self::config::{DeadLetters, Kafka, RetryConfig, StartAt, ValueEncoding, WithoutTopic};

use self::reader::Reader;
use super::{Config, Door};
use crate::secret::SecretError;

/// Why the Kafka source cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum KafkaFailure {
    /// A password cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// librdkafka refuses a property, or met an error after which this consumer never works again.
    #[error("kafka: {0}")]
    Client(#[from] KafkaError),
    /// The thread cannot be started.
    #[error("cannot start the thread of the kafka receiver: {0}")]
    Thread(std::io::Error),
    /// The thread panicked.
    #[error("the thread of the kafka receiver panicked; the log says where")]
    Panicked,
}

/// A consumer that is set up and has not joined its group.
pub struct KafkaSource {
    reader: Reader,
    signals: Signals,
}

/// A consumer at work.
#[derive(Debug)]
pub struct RunningKafka {
    signals: Signals,
    ended: oneshot::Receiver<Result<(), KafkaFailure>>,
}

/// How the thread is told to end.
#[derive(Debug, Clone, Default)]
struct Signals {
    /// Take nothing more, but stay in the group.
    stop: CancellationToken,
    /// Commit and leave.
    leave: CancellationToken,
}

impl KafkaSource {
    /// Sets the consumer up. The brokers need not be there yet; a wrong property or a missing secret shows here.
    pub fn open(config: &Kafka, receive: &Config) -> Result<Self, KafkaFailure> {
        let signals = Signals::default();
        let reader = Reader::new(config, receive.max_message.as_usize(), signals.clone())?;
        Ok(Self { reader, signals })
    }

    /// Joins the group and brings what it reads to the door.
    pub fn start(self, door: Door) -> Result<RunningKafka, KafkaFailure> {
        let Self { reader, signals } = self;
        let (report, ended) = oneshot::channel();
        let run = move || {
            // Nobody listens once the daemon has given up on us.
            let _ = report.send(reader.run(door));
        };
        let thread = std::thread::Builder::new().name("kafka".to_owned()).spawn(run);
        thread.map_err(KafkaFailure::Thread)?;
        Ok(RunningKafka { signals, ended })
    }
}

impl RunningKafka {
    /// Takes nothing more and lets go of the door. It stays in the group, so that what is under way can still be committed.
    pub fn stop(&self) {
        self.signals.stop.cancel();
    }

    /// Ends when the source does, which without [`leave`](Self::leave) is a failure.
    pub async fn failed(&mut self) -> KafkaFailure {
        match (&mut self.ended).await {
            Ok(Err(failure)) => failure,
            Ok(Ok(())) | Err(_) => KafkaFailure::Panicked,
        }
    }

    /// Commits what is done and leaves the group. Gives up after `patience`, when the brokers do not answer: the group finds
    /// out by itself, and what was not committed is read again.
    pub async fn leave(mut self, patience: Duration) {
        self.signals.stop.cancel();
        self.signals.leave.cancel();
        match tokio::time::timeout(patience, &mut self.ended).await {
            Ok(Ok(Ok(()))) => tracing::info!("left the kafka group"),
            Ok(Ok(Err(error))) => tracing::warn!(%error, "left the kafka group after an error"),
            Ok(Err(_)) => {}
            Err(_) => tracing::warn!("the kafka brokers did not answer in time; left without a last commit"),
        }
    }
}

impl Drop for RunningKafka {
    /// Nobody is left to say when to leave.
    fn drop(&mut self) {
        self.signals.stop.cancel();
        self.signals.leave.cancel();
    }
}

impl std::fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSource").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::{Mechanism, SaslConfig};
    use crate::secret::Secret;

    fn open(adjust: impl FnOnce(&mut Kafka)) -> Result<KafkaSource, KafkaFailure> {
        let mut config = Kafka { brokers: vec!["127.0.0.1:1".to_owned()], ..Kafka::default() };
        adjust(&mut config);
        KafkaSource::open(&config, &Config::default())
    }

    #[test]
    fn each_way_to_log_in_makes_a_consumer_and_a_producer_of_dead_letters() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let mechanisms: &[Mechanism] = if cfg!(feature = "kafka-tls") {
            &[Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512]
        } else {
            &[Mechanism::Plain]
        };
        for mechanism in mechanisms {
            let password = Secret::File(file.path().to_owned());
            let made = open(|config| {
                config.sasl = Some(SaslConfig { mechanism: *mechanism, username: "me".into(), password });
                config.tls = cfg!(feature = "kafka-tls").then(Default::default);
                config.dead_letters.topic = Some("dead".to_owned());
                config.instance = Some(Secret::File(file.path().to_owned()));
            });
            made.unwrap();
        }
    }

    #[test]
    fn a_property_that_librdkafka_does_not_know_and_a_missing_password_are_told_at_the_start() {
        let error = open(|config| {
            config.properties.insert("no.such.property".to_owned(), "1".to_owned());
        });
        assert!(error.unwrap_err().to_string().contains("no.such.property"));
        let error = open(|config| {
            let password = Secret::File("/no/such/file".into());
            config.sasl = Some(SaslConfig { mechanism: Mechanism::Plain, username: "me".into(), password });
        });
        assert!(error.unwrap_err().to_string().contains("/no/such/file"));
    }
}
