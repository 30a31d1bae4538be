//! What librdkafka tells beside records. It all happens within a poll, on the reader's thread; the reader acts when the poll is
//! over, so that nobody else touches what it owns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use rdkafka::Statistics;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

use super::commits::{self, Answer};
use crate::receive::ledger::Place;

/// Something to act on.
#[derive(Debug)]
pub(super) enum Event {
    /// The group gives us these partitions.
    Assigned(Vec<Place>),
    /// The group takes these partitions away.
    Revoked(Vec<Place>),
    /// The brokers have answered a commit.
    Answered(Vec<Answer>),
    /// What is known of the partitions, and whether any broker can be reached.
    Seen { ends: Vec<End>, is_connected: bool },
}

/// Where a partition ends for readers of committed records.
#[derive(Debug)]
pub(super) struct End {
    pub place: Place,
    pub end: i64,
    /// What the group has committed; below zero if nothing.
    pub committed: i64,
    /// The oldest record.
    pub begin: i64,
}

/// Collects events.
pub(super) struct Context {
    events: mpsc::Sender<Event>,
    /// Nobody acts on events any more: what must be done is done here.
    is_closing: AtomicBool,
}

impl Context {
    /// Bounded by what one poll brings: events are taken after each.
    pub fn new() -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel();
        (Self { events, is_closing: AtomicBool::new(false) }, receiver)
    }

    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    fn tell(&self, event: Event) -> bool {
        !self.is_closing.load(Ordering::Relaxed) && self.events.send(event).is_ok()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // What matters comes as an error or an event, too; this is for those who look closer.
        tracing::debug!(target: "librdkafka", ?level, facility, message);
    }

    fn stats(&self, statistics: Statistics) {
        let is_connected = statistics.brokers.values().any(|broker| broker.state == "UP");
        let partitions = statistics
            .topics
            .values()
            .flat_map(|topic| topic.partitions.values().map(|partition| (topic.topic.as_str(), partition)));
        let known = partitions.filter(|(_, partition)| partition.partition >= 0 && partition.ls_offset >= 0);
        let ends = known.map(|(topic, partition)| End {
            place: Place::new(topic, partition.partition),
            end: partition.ls_offset,
            committed: partition.committed_offset,
            begin: partition.lo_offset,
        });
        self.tell(Event::Seen { ends: ends.collect(), is_connected });
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // The poll gives the same error.
        tracing::debug!(target: "librdkafka", %error, reason);
    }
}

impl ConsumerContext for Context {
    /// Only notes what happened: whoever acts on it later must assign or unassign.
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let places = places(partitions);
        let event = match error {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Event::Assigned(places),
            _ => Event::Revoked(places),
        };
        if self.tell(event) {
            return;
        }
        if let Err(error) = unassign(consumer, partitions) {
            tracing::warn!(%error, "cannot give partitions back while leaving the group");
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        self.tell(Event::Answered(commits::answers(&result, offsets)));
    }
}

/// Takes partitions, in the words of the group's protocol.
pub(super) fn assign(consumer: &BaseConsumer<Context>, partitions: &TopicPartitionList) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_assign(partitions),
        RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(partitions),
    }
}

/// Gives partitions back.
pub(super) fn unassign(consumer: &BaseConsumer<Context>, partitions: &TopicPartitionList) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
        RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
    }
}

fn places(partitions: &TopicPartitionList) -> Vec<Place> {
    let elements = partitions.elements();
    elements.iter().map(|element| Place::new(element.topic(), element.partition())).collect()
}
