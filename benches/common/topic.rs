//! A topic of a bench: made anew, and filled.

use std::time::Duration;

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const PARTITIONS: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(300);

fn client(brokers: &str) -> ClientConfig {
    ClientConfig::new().set("bootstrap.servers", brokers).clone()
}

/// Makes it, with four partitions.
pub async fn make(brokers: &str, topic: &str) -> anyhow::Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
    for made in admin.create_topics([&new], &AdminOptions::new()).await? {
        made.map_err(|(topic, code)| anyhow::anyhow!("cannot make the topic {topic}: {code}"))?;
    }
    Ok(())
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
