//! What the benches on Kafka have in common: what they are asked for, and a topic that is made anew, and filled.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const PARTITIONS: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(300);
/// Traces of a run that only shows that the bench works.
const TRACES_OF_A_TEST: u64 = 500;

/// Brings a span of `load::trace` to about 1 KB.
pub const PADDING: usize = 760;

/// The brokers from the environment, and how many traces the command line asks for; none where there are no brokers, which is said.
#[expect(clippy::print_stdout, reason = "a bench prints its figures")]
pub fn asked(bench: &str, traces: u64) -> anyhow::Result<Option<(String, u64)>> {
    let Ok(brokers) = std::env::var("ASSAYD_TEST_BROKERS") else {
        println!(
            "no brokers: say tests/kafka/run -- cargo bench --bench {bench}, or set ASSAYD_TEST_BROKERS"
        );
        return Ok(None);
    };
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let is_test = flags.iter().any(|flag| flag == "--test");
    let traces = match words.first() {
        Some(text) => text.parse().with_context(|| format!("how many traces is {text}?"))?,
        None if is_test => TRACES_OF_A_TEST,
        None => traces,
    };
    Ok(Some((brokers, traces)))
}

fn client(brokers: &str) -> ClientConfig {
    ClientConfig::new().set("bootstrap.servers", brokers).clone()
}

/// Makes one with four partitions; gives its name.
pub async fn make(brokers: &str, kind: &str) -> anyhow::Result<String> {
    let started = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let topic = format!("bench-{kind}-{started}");
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
    for made in admin.create_topics([&new], &AdminOptions::new()).await? {
        made.map_err(|(topic, code)| anyhow::anyhow!("cannot make the topic {topic}: {code}"))?;
    }
    Ok(topic)
}

/// Writes these records, keyed by their number, compressed with lz4; gives their bytes.
pub fn fill(brokers: &str, topic: &str, records: impl Iterator<Item = Bytes>) -> anyhow::Result<u64> {
    let producer: BaseProducer =
        client(brokers).set("linger.ms", "20").set("compression.type", "lz4").create()?;
    let mut bytes = 0;
    for (number, record) in records.enumerate() {
        bytes += record.len() as u64;
        let key = number.to_string();
        let mut message = BaseRecord::to(topic).key(&key).payload(&record[..]);
        while let Err((error, back)) = producer.send(message) {
            let is_full = error == KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            anyhow::ensure!(is_full, "cannot write to {topic}: {error}");
            producer.poll(Duration::from_millis(20));
            message = back;
        }
        producer.poll(Duration::ZERO);
    }
    producer.flush(PATIENCE)?;
    Ok(bytes)
}
