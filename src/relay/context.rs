//! What librdkafka tells of the gateway's producer.

use rdkafka::Statistics;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use crate::metrics;

/// How often the connection is looked at, in milliseconds.
pub(super) const STATISTICS: &str = "2000";

pub(super) struct Context;

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // What matters comes with the deliveries; this is for those who look closer.
        tracing::debug!(target: "librdkafka", ?level, facility, message);
    }

    fn stats(&self, statistics: Statistics) {
        metrics::relay_connected(statistics.brokers.values().any(|broker| broker.state == "UP"));
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}
