use rdkafka::ClientConfig;

use super::{Compression, Connection};
use crate::domain::{ByteSize, Period};
use crate::secret::SecretError;

/// Properties that a producer's section sets itself, or on which its promises rest.
const OWN_PROPERTIES: [&str; 14] = [
    "acks",
    "request.required.acks",
    "compression.type",
    "compression.codec",
    "linger.ms",
    "queue.buffering.max.ms",
    "message.max.bytes",
    "batch.size",
    "queue.buffering.max.kbytes",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "transactional.id",
    "partitioner",
    "delivery.report.only.error",
];

/// The part of a section that says how records go to a topic: all in-sync replicas have what was delivered.
#[derive(Debug, Clone, Copy)]
pub struct Producer<'a> {
    /// Which brokers.
    pub connection: Connection<'a>,
    /// Of batches.
    pub compression: Compression,
    /// How long a record may wait for company.
    pub linger: Period,
    /// Largest record before compression.
    pub max_message_bytes: ByteSize,
    /// Memory for records that were not delivered yet.
    pub buffer: ByteSize,
    /// How long a delivery may take.
    pub delivery_timeout: Period,
}

impl Producer<'_> {
    /// Adds what is wrong. `own` are the properties that the section sets itself beyond those of every producer.
    pub fn check(&self, own: &[&str], problems: &mut Vec<String>) {
        let section = self.connection.section;
        self.connection.check(&[&OWN_PROPERTIES, own].concat(), problems);
        if !(4_096..=1_000_000_000).contains(&self.max_message_bytes.0) {
            problems.push(format!(
                "{section}.max_message_bytes ({}) must be between 4KiB and 1GB",
                self.max_message_bytes
            ));
        }
        if self.buffer < self.max_message_bytes {
            problems.push(format!(
                "{section}.buffer ({}) must not be below {section}.max_message_bytes ({})",
                self.buffer, self.max_message_bytes
            ));
        }
        if self.delivery_timeout <= self.linger {
            problems.push(format!(
                "{section}.delivery_timeout ({}) must be longer than {section}.linger ({})",
                self.delivery_timeout, self.linger
            ));
        }
    }

    /// librdkafka's properties for it. Reads the secrets.
    pub fn client(&self) -> Result<ClientConfig, SecretError> {
        let mut client = self.connection.client()?;
        client
            .set("acks", "all")
            // The Java clients' choice, so that other producers' records of a trace share its partition.
            .set("partitioner", "murmur2_random")
            .set("compression.type", self.compression.as_str())
            .set("linger.ms", millis(self.linger))
            .set("message.max.bytes", self.max_message_bytes.0.to_string())
            // Brokers hold a batch, not a record, to the topic's limit.
            .set("batch.size", self.max_message_bytes.0.min(1_000_000).to_string())
            .set("queue.buffering.max.kbytes", (self.buffer.0 / 1024).clamp(1, 2_147_483_647).to_string())
            .set("message.timeout.ms", millis(self.delivery_timeout));
        Ok(client)
    }
}

fn millis(period: Period) -> String {
    period.0.as_millis().to_string()
}
