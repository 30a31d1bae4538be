//! The thread that owns consumer and ledger.

mod group;
mod pressure;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message, OwnedMessage};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use self::pressure::{Pressure, Stalled, StalledArrival, StalledLetter};
use super::complaints::Complaints;
use super::context::{Context, Event};
use super::letters::{Letters, Reason, Settlement, is_too_large};
use super::{Kafka, KafkaFailure, Signals, StartAt, ValueEncoding, WithoutTopic, value};
use crate::domain::Time;
use crate::metrics;
use crate::otlp::Decoded;
use crate::receive::Door;
use crate::receive::delivery::{Arrival, Fence, share};
use crate::receive::intake::{count_content, drop_own};
use crate::receive::ledger::{Ledger, Opening, Patience, Place, Receipt, Step};
use crate::ticket::{self, Outcome, Promise};

const RECEIVER: &str = "kafka";
/// How long a poll waits for a record: settlements and signals are looked at in between.
const POLL: Duration = Duration::from_millis(50);
/// The same while partitions are paused.
const PAUSED_POLL: Duration = Duration::from_millis(10);
/// How often the ledger is asked what is due.
const TEND: Duration = Duration::from_millis(20);
/// How long a rewind may take to be taken up.
const SEEK: Duration = Duration::from_secs(5);
/// How often lag and connection are looked at, in milliseconds.
const STATISTICS: &str = "2000";
/// How long an answer to a commit is awaited. The client gives up before and says so; this is for the case that it forgets.
const ANSWER: Duration = Duration::from_secs(300);
/// How long the brokers may take to say what is committed.
const FETCH: Duration = Duration::from_secs(5);
/// How long dead letters may still be on their way when the group is left.
const LAST_LETTERS: Duration = Duration::from_secs(5);

pub(super) struct Reader {
    // Before the consumer: were this thread to panic, the consumer must find nobody to wait for as it closes.
    events: mpsc::Receiver<Event>,
    consumer: Arc<BaseConsumer<Context>>,
    topics: Vec<Arc<str>>,
    encoding: ValueEncoding,
    max_message: usize,
    without_topic: WithoutTopic,
    commit_every: Duration,
    ledger: Ledger,
    /// Partitions that the group gives us, as long as it is not known what is done of them.
    arriving: Option<Vec<Place>>,
    /// One for each partition that is ours; closed when it is given away.
    fences: BTreeMap<Place, Fence>,
    /// Since when the answer to a commit is awaited. The next one goes when it is there, so that none overtakes another.
    asked: Option<Instant>,
    settlements: mpsc::Receiver<Settlement>,
    settle: mpsc::Sender<Settlement>,
    letters: Option<Letters>,
    /// Records whose dead letter has to go without its value.
    bare_letters: Vec<(Place, i64)>,
    pressure: Pressure,
    complaints: Complaints,
    signals: Signals,
    started: Instant,
    tended: Instant,
    committed: Instant,
}

impl Reader {
    pub fn new(config: &Kafka, max_message: usize, signals: Signals) -> Result<Self, KafkaFailure> {
        let (context, events) = Context::new();
        let consumer = consumer(config, max_message, context)?;
        let (settle, settlements) = mpsc::channel();
        let dead = config.dead_letters.topic.as_deref();
        let letters = dead.map(|topic| Letters::open(config, topic, settle.clone())).transpose()?;
        let patience = Patience {
            first: config.retry.first.0,
            longest: config.retry.longest.0,
            max_age: letters.as_ref().map(|_| config.dead_letters.max_age.0),
            most_waiting: config.retry.max_records.get() as usize,
            note: config.commit_metadata.as_usize(),
        };
        let now = Instant::now();
        Ok(Self {
            events,
            consumer: Arc::new(consumer),
            topics: config.topics.iter().map(|topic| topic.as_str().into()).collect(),
            encoding: config.encoding,
            max_message,
            without_topic: config.dead_letters.without_topic,
            commit_every: config.commit.0,
            ledger: Ledger::new(patience),
            arriving: None,
            fences: BTreeMap::new(),
            asked: None,
            settlements,
            settle,
            letters,
            bare_letters: Vec::new(),
            pressure: Pressure::default(),
            complaints: Complaints::default(),
            signals,
            started: now,
            tended: now,
            committed: now,
        })
    }

    /// Reads until it is told to leave, or until the consumer has failed for good.
    pub fn run(mut self, door: Door) -> Result<(), KafkaFailure> {
        let consumer = Arc::clone(&self.consumer);
        let topics: Vec<&str> = self.topics.iter().map(|topic| &**topic).collect();
        consumer.subscribe(&topics)?;
        let mut door = Some(door);
        while !self.signals.leave.is_cancelled() {
            if self.signals.stop.is_cancelled()
                && let Some(closed) = door.take()
            {
                // What is not inside yet is read by whoever comes after us. Paused, we stay in the group without reading.
                self.pressure.stop();
                self.pause();
                drop(closed);
            }
            if let Some(door) = &door {
                self.relieve(door);
            }
            if self.pressure.may_poll() {
                let wait = if self.pressure.is_paused() { PAUSED_POLL } else { POLL };
                match consumer.poll(wait) {
                    Some(Ok(message)) => self.take(&message, door.as_ref()),
                    Some(Err(error)) => self.complain(error)?,
                    None => {}
                }
            } else {
                std::thread::sleep(pressure::BREATH);
            }
            self.serve_events();
            self.take_over();
            self.serve_settlements();
            self.tend();
        }
        self.leave();
        Ok(())
    }

    /// A record was read.
    fn take(&mut self, message: &BorrowedMessage<'_>, door: Option<&Door>) {
        // Without a door it is not opened, and so stays with the group.
        let Some(door) = door else { return };
        let place = self.place(message.topic(), message.partition());
        let now = self.now();
        match self.ledger.open(&place, message.offset(), now) {
            Opening::Known | Opening::Foreign => {}
            Opening::SetAside(receipt) => {
                let age = "it got no verdict within receive.kafka.dead_letters.max_age";
                self.set_aside(message.detach(), receipt, Reason::OverAge, age.to_owned());
            }
            Opening::Deliver(receipt) => {
                if receipt.attempt() > 0 {
                    metrics::receive_kafka_redelivery();
                }
                self.deliver(message, receipt, door);
            }
        }
    }

    fn deliver(&mut self, message: &BorrowedMessage<'_>, receipt: Receipt, door: &Door) {
        // A tombstone: nothing was sent.
        let Some(payload) = message.payload().filter(|payload| !payload.is_empty()) else {
            return self.settled(&receipt, Outcome::Done);
        };
        if payload.len() > self.max_message {
            let (bytes, limit) = (payload.len(), self.max_message);
            let error = format!("its value has {bytes} bytes and receive.max_message is {limit}");
            return self.set_aside(message.detach(), receipt, Reason::TooLarge, error);
        }
        let mut decoded = match value::read(self.encoding, payload, |bytes| door.fits(bytes)) {
            Ok(decoded) => decoded,
            Err(error) => {
                return self.set_aside(message.detach(), receipt, error.reason(), error.to_string());
            }
        };
        let own = drop_own(&mut decoded);
        // For the receipt's owner these do not exist: they have their verdicts.
        let done = self.ledger.shares(&receipt);
        if !done.is_empty() {
            decoded.spans.retain(|span| !done.contains(&share(span.trace_id)));
            decoded.logs.retain(|record| !done.contains(&share(record.trace_id)));
        }
        let signal = if decoded.logs.is_empty() { "traces" } else { "logs" };
        count_content(RECEIVER, signal, &decoded, payload.len(), own);
        if let Err(refusal) = door.fits(decoded.weight()) {
            metrics::receive_refused(RECEIVER, "too_large");
            return self.set_aside(message.detach(), receipt, Reason::TooLarge, refusal.to_string());
        }
        let Decoded { spans, logs, .. } = decoded;
        metrics::receive_request(RECEIVER, signal);
        metrics::receive_spans(RECEIVER, spans.len());
        metrics::receive_logs(RECEIVER, logs.len());
        let promise = self.promise(&receipt);
        let arrival = Arrival { spans, logs, promise, raw: None };
        if arrival.spans.is_empty() && arrival.logs.is_empty() {
            // Dropped, the promise is kept.
            return;
        }
        let fence = self.fences.get(receipt.place()).cloned().unwrap_or_default();
        if let Some(refused) = StalledArrival::new(arrival, receipt, fence).enter(door) {
            self.pressure.stall(Stalled::Arrival(refused));
        }
    }

    /// Reports to the ledger. Never blocks, and is bounded by the records that are open and their traces.
    fn promise(&self, receipt: &Receipt) -> Promise {
        let report = || {
            let (settle, receipt) = (self.settle.clone(), receipt.clone());
            move |outcome, share| {
                // The reader is gone only when nothing is committed any more.
                let _ =
                    settle.send(Settlement { receipt: receipt.clone(), outcome, share, is_too_large: false });
            }
        };
        let (of_share, of_whole) = (report(), report());
        Promise::with_shares(
            move |share| of_share(Outcome::Done, Some(share)),
            move |outcome| of_whole(outcome, None),
        )
    }

    /// Puts a record where a person finds it, or does what is to be done without such a place.
    fn set_aside(&mut self, record: OwnedMessage, receipt: Receipt, reason: Reason, error: String) {
        let (place, offset) = (receipt.place().clone(), receipt.offset());
        metrics::receive_dead_letter(RECEIVER, reason.as_str());
        // As a quoted field: the message may cite the sender's content.
        tracing::error!(
            topic = &*place.topic,
            partition = place.partition,
            offset,
            reason = reason.as_str(),
            ?error,
            "a record is set aside"
        );
        if self.letters.is_some() {
            self.send_letter(StalledLetter { record, receipt, reason, error });
            return;
        }
        let outcome = match self.without_topic {
            WithoutTopic::Skip => Outcome::Done,
            WithoutTopic::Retry => Outcome::Retry,
        };
        self.settled(&receipt, outcome);
    }

    fn send_letter(&mut self, letter: StalledLetter) {
        let Some(letters) = &self.letters else { return self.settled(&letter.receipt, Outcome::Retry) };
        let at = (letter.receipt.place().clone(), letter.receipt.offset());
        let is_bare = self.bare_letters.contains(&at);
        let mut sent = letters.send(&letter.record, &letter.receipt, letter.reason, &letter.error, !is_bare);
        if sent.as_ref().is_err_and(is_too_large) {
            sent = letters.send(&letter.record, &letter.receipt, letter.reason, &letter.error, false);
        }
        match sent {
            // The outcome comes with the delivery report.
            Ok(true) => {}
            Ok(false) => self.pressure.stall(Stalled::Letter(letter)),
            Err(error) => {
                tracing::warn!(%error, "a dead letter cannot be sent; its record is tried again");
                self.settled(&letter.receipt, Outcome::Retry);
            }
        }
    }

    fn settled(&mut self, receipt: &Receipt, outcome: Outcome) {
        let now = self.now();
        self.ledger.settled(receipt, outcome, now);
    }

    fn serve_settlements(&mut self) {
        while let Ok(Settlement { receipt, outcome, share, is_too_large }) = self.settlements.try_recv() {
            if let Some(share) = share {
                self.ledger.share_done(&receipt, share);
                continue;
            }
            let at = (receipt.place().clone(), receipt.offset());
            if is_too_large && !self.bare_letters.contains(&at) {
                self.bare_letters.push(at);
            } else if !self.bare_letters.is_empty() && outcome == Outcome::Done {
                self.bare_letters.retain(|bare| *bare != at);
            }
            self.settled(&receipt, outcome);
        }
    }

    /// Before something is committed: of each verdict, all that it settles, or nothing.
    fn serve_whole_settlements(&mut self) {
        ticket::apart(|| self.serve_settlements());
    }

    /// Does what the ledger says is due, and commits once in a while.
    fn tend(&mut self) {
        if self.tended.elapsed() >= TEND {
            self.tended = Instant::now();
            let now = self.now();
            for step in self.ledger.steps(now) {
                self.step(step);
            }
            for (place, offset) in self.ledger.take_vanished() {
                metrics::receive_kafka_vanished();
                tracing::error!(
                    topic = &*place.topic,
                    partition = place.partition,
                    offset,
                    "a record that was to be read again is gone from its topic; it gets no verdict"
                );
            }
        }
        if self.committed.elapsed() >= self.commit_every {
            self.committed = Instant::now();
            self.commit();
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Hold(place) => {
                tracing::warn!(%place, "too many records wait to be read again; the partition stands still");
                self.pressure.hold(place);
                self.pause();
            }
            Step::Release(place) => {
                self.pressure.release(&place);
                self.resume();
            }
            Step::Rewind { place, offset } => {
                tracing::debug!(%place, offset, "reading again");
                let target = Offset::Offset(offset);
                if let Err(error) = self.consumer.seek(&place.topic, place.partition, target, SEEK) {
                    tracing::warn!(%place, offset, %error, "cannot read again now");
                    let now = self.now();
                    self.ledger.rewind_failed(&place, now);
                }
            }
        }
    }

    fn complain(&mut self, error: KafkaError) -> Result<(), KafkaFailure> {
        if let KafkaError::MessageConsumptionFatal(_) = error {
            metrics::receive_kafka_connected(false);
            return Err(KafkaFailure::Client(error));
        }
        self.complaints.met(&error);
        Ok(())
    }

    /// The ledger's time: it never jumps, and only differences matter.
    fn now(&self) -> Time {
        Time(1) + self.started.elapsed()
    }

    /// A partition, without a new copy of its topic's name.
    fn place(&self, topic: &str, partition: i32) -> Place {
        match self.topics.iter().find(|known| &***known == topic) {
            Some(known) => Place { topic: Arc::clone(known), partition },
            None => Place::new(topic, partition),
        }
    }
}

fn list<'a>(places: impl IntoIterator<Item = &'a Place>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for place in places {
        list.add_partition(&place.topic, place.partition);
    }
    list
}

fn consumer(
    config: &Kafka,
    max_message: usize,
    context: Context,
) -> Result<BaseConsumer<Context>, KafkaFailure> {
    let mut client = config.connection().client()?;
    let session = config.session.0.as_millis().max(1);
    let start = match config.start {
        StartAt::Earliest => "earliest",
        StartAt::Latest => "latest",
    };
    // A fetch may hold one record of any size, and some beside it.
    let response = (max_message as u64).saturating_mul(2).clamp(100_000_000, 2_000_000_000);
    for (name, value) in [
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("topic.metadata.refresh.interval.ms", "30000"),
        // The client's default is a second: after each moment in which `prefetch` is full, nothing would come for so long.
        ("fetch.queue.backoff.ms", "20"),
    ] {
        if !config.properties.contains_key(name) {
            client.set(name, value);
        }
    }
    client
        .set("group.id", &config.group)
        .set("auto.offset.reset", start)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("isolation.level", "read_committed")
        .set("check.crcs", "true")
        .set("queued.max.messages.kbytes", (config.prefetch.0 / 1024).max(64).to_string())
        .set("receive.message.max.bytes", response.to_string())
        .set("statistics.interval.ms", STATISTICS);
    // With KIP-848's protocol these are the broker's to say.
    if config.properties.get("group.protocol").is_none_or(|protocol| protocol != "consumer") {
        client
            .set("session.timeout.ms", session.to_string())
            .set("heartbeat.interval.ms", (session / 6).clamp(1, 3_000).to_string());
    }
    if let Some(instance) = &config.instance {
        client.set("group.instance.id", instance.reveal()?.expose());
    }
    if !config.properties.contains_key("fetch.max.bytes") {
        client.set("fetch.max.bytes", (config.prefetch.0.max(1 << 20)).to_string());
    }
    Ok(client.create_with_context(context)?)
}
