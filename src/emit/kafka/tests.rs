//! Against librdkafka's own mock of a cluster: real sockets, real consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{DefaultProducerContext, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::domain::{ByteSize, EvidenceRef, Period};
use crate::emit::config::{RecentConfig, RetryConfig, VerdictLetters};
use crate::emit::{Recent, Sinks, sample};
#[cfg(feature = "kafka-tls")]
use crate::kafka::TlsConfig;
use crate::kafka::{Compression, Mechanism, SaslConfig};
use crate::secret::Secret;

const PARTITIONS: i32 = 3;

struct Cluster(MockCluster<'static, DefaultProducerContext>);

impl Cluster {
    fn start() -> Self {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("verdicts", PARTITIONS, 1).unwrap();
        cluster.create_topic("letters", PARTITIONS, 1).unwrap();
        Self(cluster)
    }

    fn config(&self) -> KafkaConfig {
        let quick =
            [("reconnect.backoff.ms", "10"), ("reconnect.backoff.max.ms", "100"), ("retry.backoff.ms", "10")];
        KafkaConfig {
            brokers: vec![self.0.bootstrap_servers()],
            linger: Period::millis(1),
            properties: quick.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..KafkaConfig::default()
        }
    }

    /// Reads the topic from its beginning until `count` messages are there.
    fn read(&self, count: usize) -> Vec<OwnedMessage> {
        self.read_until(|messages| messages.len() >= count)
    }

    /// The first dead letter.
    fn letter(&self) -> OwnedMessage {
        self.read_topic("letters", |messages| !messages.is_empty()).remove(0)
    }

    /// Reads the topic from its beginning until that is enough.
    fn read_until(&self, is_enough: impl Fn(&[OwnedMessage]) -> bool) -> Vec<OwnedMessage> {
        self.read_topic("verdicts", is_enough)
    }

    fn read_topic(&self, topic: &str, is_enough: impl Fn(&[OwnedMessage]) -> bool) -> Vec<OwnedMessage> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.0.bootstrap_servers())
            .set("group.id", "reader")
            .create()
            .unwrap();
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&partitions).unwrap();
        let mut messages = Vec::new();
        let mut silent = 0;
        while !is_enough(&messages) {
            match consumer.poll(Duration::from_millis(500)) {
                Some(Ok(message)) => messages.push(message.detach()),
                Some(Err(_)) | None => silent += 1,
            }
            assert!(silent < 60, "only {} messages came", messages.len());
        }
        messages
    }
}

fn header(message: &OwnedMessage, name: &str) -> String {
    let headers = message.headers().unwrap();
    let found = headers.iter().find(|header| header.key == name).unwrap();
    String::from_utf8(found.value.unwrap().to_vec()).unwrap()
}

fn by_id(verdicts: impl IntoIterator<Item = Verdict>) -> BTreeMap<String, Verdict> {
    verdicts.into_iter().map(|verdict| (verdict.verdict_id.clone(), verdict)).collect()
}

fn large() -> Verdict {
    let mut verdict = sample::full();
    for claim in &mut verdict.grounding.as_mut().unwrap().claims {
        claim.evidence = vec![EvidenceRef { step: 1, span_id: None, range: [0, 9] }; 2_000];
    }
    verdict
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_arrive_as_json_keyed_by_their_trace() {
    let cluster = Cluster::start();
    let sink = Kafka::open(cluster.config()).unwrap();
    let sent: Vec<Verdict> = (0..20).map(sample::numbered).collect();
    for verdict in &sent {
        sink.write(verdict).await.unwrap();
    }
    let messages = cluster.read(20);
    for message in &messages {
        let verdict: Verdict = serde_json::from_slice(message.payload().unwrap()).unwrap();
        assert_eq!(message.key().unwrap(), verdict.trace_id.unwrap().to_string().as_bytes());
        assert_eq!(header(message, "content-type"), "application/json");
        assert_eq!(header(message, "assayd-schema"), "1");
    }
    let got = messages.iter().map(|message| serde_json::from_slice(message.payload().unwrap()).unwrap());
    assert_eq!(by_id(got), by_id(sent));
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_of_a_trace_arrive_in_order_in_one_partition_as_protobuf() {
    let cluster = Cluster::start();
    let config =
        KafkaConfig { format: ValueFormat::Protobuf, compression: Compression::Lz4, ..cluster.config() };
    let sink = Kafka::open(config).unwrap();
    for revision in 0..5 {
        sink.write(&Verdict { revision, ..sample::full() }).await.unwrap();
    }
    let messages = cluster.read(5);
    let revisions: Vec<u32> =
        messages.iter().map(|message| proto::decode(message.payload().unwrap()).unwrap().revision).collect();
    assert_eq!(revisions, [0, 1, 2, 3, 4]);
    assert!(messages.iter().all(|message| message.partition() == messages[0].partition()));
    assert!(header(&messages[0], "content-type").starts_with("application/x-protobuf"));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_broker_is_down_verdicts_wait_and_none_is_lost() {
    let cluster = Cluster::start();
    let mut config = cluster.config();
    config.delivery_timeout = Period::seconds(1);
    let sink = Arc::new(Kafka::open(config).unwrap());
    // The first connection may take longer than an attempt on a machine that does other things.
    while let Err(error) = sink.write(&sample::numbered(0)).await {
        assert_eq!(error.fault, Fault::Transient, "{error}");
    }

    cluster.0.broker_down(1).unwrap();
    // An attempt ends after its timeout and says that trying again is worth it.
    let error = sink.write(&sample::numbered(1)).await.unwrap_err();
    assert_eq!(error.fault, Fault::Transient, "{error}");

    let retry = RetryConfig { first: Period::millis(10), longest: Period::millis(100) };
    let recent = Recent::new(&RecentConfig::default());
    let mut sinks = Sinks::none(retry, recent, CancellationToken::new());
    sinks.add(SINK, Shared(Arc::clone(&sink)));
    let sinks = Arc::new(sinks);
    let writes: Vec<_> = (1..=10)
        .map(|number| {
            let sinks = Arc::clone(&sinks);
            tokio::spawn(async move { sinks.write(&sample::numbered(number)).await })
        })
        .collect();
    // One more attempt has failed by now; all ten are still waiting.
    assert!(sink.write(&sample::numbered(11)).await.is_err());
    assert!(writes.iter().all(|write| !write.is_finished()));

    cluster.0.broker_up(1).unwrap();
    for write in writes {
        write.await.unwrap().unwrap();
    }
    // At least once: an attempt that was given up may have arrived all the same.
    let wanted: BTreeSet<String> = (0..=10).map(|number| format!("verdict-{number}")).collect();
    cluster.read_until(|messages| {
        let ids = messages
            .iter()
            .map(|message| serde_json::from_slice::<Verdict>(message.payload().unwrap()).unwrap().verdict_id);
        wanted.is_subset(&ids.collect())
    });
}

/// A sink that the test keeps a hand on.
struct Shared(Arc<Kafka>);

impl Sink for Shared {
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
        self.0.write(verdict)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_buffer_makes_writers_wait() {
    let cluster = Cluster::start();
    let mut config = cluster.config();
    config.properties.insert("queue.buffering.max.messages".into(), "2".into());
    let sink = Kafka::open(config).unwrap();
    cluster.0.broker_round_trip_time(1, Duration::from_millis(50)).unwrap();
    let sent: Vec<Verdict> = (0..12).map(sample::numbered).collect();
    let results = futures::future::join_all(sent.iter().map(|verdict| sink.write(verdict))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(cluster.read(12).len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_beyond_the_limit_arrives_cut_and_says_so() {
    let cluster = Cluster::start();
    let sink = Kafka::open(KafkaConfig { max_message_bytes: ByteSize(8_192), ..cluster.config() }).unwrap();
    sink.write(&large()).await.unwrap();
    let message = cluster.read(1).remove(0);
    let verdict: Verdict = serde_json::from_slice(message.payload().unwrap()).unwrap();
    assert!(message.payload().unwrap().len() < 8_192);
    assert_eq!(verdict.label, large().label);
    assert!(verdict.truncated.iter().any(|note| note.starts_with("emit: ")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_takes_less_than_we_thought_gets_a_smaller_verdict() {
    let cluster = Cluster::start();
    let sink = Kafka::open(cluster.config()).unwrap();
    let too_large = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE];
    cluster.0.request_errors(RDKafkaApiKey::Produce, &too_large);
    sink.write(&large()).await.unwrap();
    let message = cluster.read(1).remove(0);
    let verdict: Verdict = serde_json::from_slice(message.payload().unwrap()).unwrap();
    assert!(verdict.truncated.iter().any(|note| note.starts_with("emit: ")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_fit_is_poison() {
    let cluster = Cluster::start();
    let sink = Kafka::open(KafkaConfig { max_message_bytes: ByteSize(4_096), ..cluster.config() }).unwrap();
    let verdict = Verdict { session_id: Some("s".repeat(10_000)), ..sample::full() };
    assert_eq!(sink.write(&verdict).await.unwrap_err().fault, Fault::Poison);
    sink.write(&sample::numbered(1)).await.unwrap();
}

fn with_letters(config: KafkaConfig) -> KafkaConfig {
    KafkaConfig { dead_letters: VerdictLetters { topic: Some("letters".to_owned()) }, ..config }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_fit_leaves_a_letter_that_the_brokers_have_before_it_is_set_aside() {
    let cluster = Cluster::start();
    for format in [ValueFormat::Json, ValueFormat::Protobuf] {
        let config = KafkaConfig { max_message_bytes: ByteSize(4_096), format, ..cluster.config() };
        let sink = Kafka::open(with_letters(config)).unwrap();
        let verdict = Verdict { session_id: Some("s".repeat(10_000)), ..sample::full() };
        let error = sink.write(&verdict).await.unwrap_err();
        assert_eq!(error.fault, Fault::Poison);
        assert!(error.message.contains("the topic letters"), "{error}");
        sink.write(&sample::numbered(1)).await.unwrap();
    }

    let letters = cluster.read_topic("letters", |messages| messages.len() >= 2);
    let whole = Verdict { session_id: Some("s".repeat(10_000)), ..sample::full() };
    for letter in &letters {
        let value = letter.payload().unwrap();
        assert!(value.len() < 4_096);
        let remains: Verdict = match header(letter, "content-type").as_str() {
            "application/json" => serde_json::from_slice(value).unwrap(),
            _ => proto::decode(value).unwrap(),
        };
        assert_eq!((remains.verdict_id, remains.label), (whole.verdict_id.clone(), whole.label));
        assert!(remains.truncated[0].starts_with("emit: all but ids"), "{:?}", remains.truncated);
        let trace_id = whole.trace_id.unwrap().to_string();
        assert_eq!(letter.key().unwrap(), trace_id.as_bytes());
        for (name, value) in [
            ("topic", "verdicts"),
            ("reason", "too_large"),
            ("verdict_id", &whole.verdict_id),
            ("revision", "2"),
            ("trace_id", &trace_id),
        ] {
            assert_eq!(header(letter, &format!("assayd.dead_letter.{name}")), value);
        }
        assert!(header(letter, "assayd.dead_letter.bytes").parse::<usize>().unwrap() > 10_000);
        assert!(header(letter, "assayd.dead_letter.error").contains("does not fit"));
    }
    assert_eq!(letters.len(), 2);
    assert_eq!(cluster.read(2).len(), 2, "the topic goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_too_large_for_its_topic_goes_as_headers_alone() {
    let cluster = Cluster::start();
    let config = KafkaConfig { max_message_bytes: ByteSize(4_096), ..cluster.config() };
    let sink = Kafka::open(with_letters(config)).unwrap();
    let verdict = Verdict { session_id: Some("s".repeat(10_000)), ..sample::full() };
    // The verdict itself never leaves, so that the first one to be refused is its letter.
    cluster.0.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    assert_eq!(sink.write(&verdict).await.unwrap_err().fault, Fault::Poison);
    let letter = cluster.letter();
    assert_eq!(letter.payload(), None);
    assert_eq!(header(&letter, "assayd.dead_letter.verdict_id"), verdict.verdict_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_whose_letter_cannot_be_written_is_not_set_aside_yet() {
    let cluster = Cluster::start();
    let mut config = KafkaConfig { max_message_bytes: ByteSize(4_096), ..cluster.config() };
    config.delivery_timeout = Period::seconds(1);
    let sink = Kafka::open(with_letters(config)).unwrap();
    let verdict = Verdict { session_id: Some("s".repeat(10_000)), ..sample::full() };
    cluster.0.broker_down(1).unwrap();
    let error = sink.write(&verdict).await.unwrap_err();
    assert_eq!(error.fault, Fault::Transient, "{error}");
    assert!(error.message.contains("its dead letter"), "{error}");
    cluster.0.broker_up(1).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while sink.write(&verdict).await.unwrap_err().fault != Fault::Poison {
        assert!(std::time::Instant::now() < deadline, "the letter does not arrive");
    }
    assert_eq!(header(&cluster.letter(), "assayd.dead_letter.reason"), "too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_the_brokers_call_invalid_leaves_a_letter() {
    let cluster = Cluster::start();
    let sink = Kafka::open(with_letters(cluster.config())).unwrap();
    cluster.0.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD]);
    assert_eq!(sink.write(&sample::full()).await.unwrap_err().fault, Fault::Poison);
    let letter = cluster.letter();
    assert_eq!(header(&letter, "assayd.dead_letter.reason"), "refused");
    assert_eq!(header(&letter, "assayd.dead_letter.trace_id"), sample::full().trace_id.unwrap().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_we_may_not_write_to_is_fatal() {
    let cluster = Cluster::start();
    let sink = Kafka::open(cluster.config()).unwrap();
    let denied = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED];
    cluster.0.request_errors(RDKafkaApiKey::Produce, &denied);
    assert_eq!(sink.write(&sample::full()).await.unwrap_err().fault, Fault::Fatal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_died_is_replaced() {
    let cluster = Cluster::start();
    let sink = Kafka::open(cluster.config()).unwrap();
    sink.write(&sample::numbered(1)).await.unwrap();
    let producer = sink.current();
    let reason = std::ffi::CString::new("a death that this test wants").unwrap();
    // SAFETY: the handle is alive as long as `producer`, and the reason is copied.
    unsafe {
        rdkafka::bindings::rd_kafka_test_fatal_error(
            producer.client().native_ptr(),
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
            reason.as_ptr(),
        );
    }
    assert_eq!(sink.write(&sample::numbered(2)).await.unwrap_err().fault, Fault::Transient);
    sink.write(&sample::numbered(2)).await.unwrap();
    assert_eq!(cluster.read(2).len(), 2);
}

#[test]
fn logins_become_properties_and_their_password_is_in_no_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\n").unwrap();
    let sasl = |password| SaslConfig { mechanism: Mechanism::Plain, username: "me".into(), password };
    let config =
        KafkaConfig { sasl: Some(sasl(Secret::File(file.path().to_owned()))), ..KafkaConfig::default() };
    let found = properties(&config).unwrap();
    assert_eq!(found.get("security.protocol"), Some("sasl_plaintext"));
    assert_eq!(found.get("sasl.password"), Some("hunter2"));
    assert!(Kafka::open(config).is_ok());

    let missing =
        KafkaConfig { sasl: Some(sasl(Secret::File("/no/such/file".into()))), ..KafkaConfig::default() };
    let error = Kafka::open(missing).err().unwrap();
    assert_eq!(error.fault, Fault::Fatal);
    assert!(error.message.contains("/no/such/file"), "{error}");
}

#[test]
fn a_property_that_librdkafka_does_not_know_is_told() {
    let properties = BTreeMap::from([("no.such.property".to_owned(), "1".to_owned())]);
    let error = Kafka::open(KafkaConfig { properties, ..KafkaConfig::default() }).err().unwrap();
    assert_eq!(error.fault, Fault::Fatal);
    assert!(error.message.contains("no.such.property"), "{error}");
}

#[cfg(feature = "kafka-tls")]
#[test]
fn a_build_with_tls_takes_tls_and_scram() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "hunter2\n").unwrap();
    let password = Secret::File(file.path().to_owned());
    let config = KafkaConfig {
        tls: Some(TlsConfig::default()),
        sasl: Some(SaslConfig { mechanism: Mechanism::ScramSha512, username: "me".into(), password }),
        ..KafkaConfig::default()
    };
    assert_eq!(properties(&config).unwrap().get("security.protocol"), Some("sasl_ssl"));
    Kafka::open(config).map(drop).unwrap();
}
