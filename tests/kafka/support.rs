//! Brokers, records and daemons for tests of Kafka. The brokers are librdkafka's own mock of a cluster, or, with
//! `ASSAYD_TEST_BROKERS=host:port`, real ones; the same tests run against both.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use assayd::config::Config;
use assayd::decide::{self, Reply, Scripted};
use assayd::domain::{Decision, Inquiry, Period, Verdict};
use assayd::emit::JsonlConfig;
use assayd::pipeline::Ended;
use assayd::receive::{self, Delivery, Kafka, KafkaSource, RunningKafka, Stake};
use assayd::ticket::Outcome;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::mpsc;

use crate::running::Running;

/// The variable that names real brokers.
pub const BROKERS: &str = "ASSAYD_TEST_BROKERS";
/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of brokers.
pub struct Brokers {
    servers: String,
    mock: Option<MockCluster<'static, DefaultProducerContext>>,
}

impl Brokers {
    /// The brokers of this run.
    pub fn start() -> Self {
        if let Ok(filter) = std::env::var(assayd::logging::VARIABLE) {
            // Another test may have done it.
            let _ = assayd::logging::init(&assayd::logging::Config::default(), Some(&filter));
        }
        match std::env::var(BROKERS) {
            Ok(servers) => Self { servers, mock: None },
            Err(_) => {
                let mock = MockCluster::new(1).unwrap();
                Self { servers: mock.bootstrap_servers(), mock: Some(mock) }
            }
        }
    }

    /// The mock, for faults that only it can make; none if the brokers are real.
    pub fn mock(&self) -> Option<&MockCluster<'static, DefaultProducerContext>> {
        self.mock.as_ref()
    }

    /// Where they listen.
    pub fn servers(&self) -> &str {
        &self.servers
    }

    /// A name that no other test and no earlier run has.
    pub fn unique(&self, name: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        format!("{name}-{now}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// A new topic.
    pub async fn topic(&self, name: &str, partitions: i32) -> String {
        let topic = self.unique(name);
        if let Some(mock) = &self.mock {
            mock.create_topic(&topic, partitions, 1).unwrap();
            return topic;
        }
        let admin: AdminClient<DefaultClientContext> = self.client().create().unwrap();
        let new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(1));
        for result in admin.create_topics([&new], &AdminOptions::new()).await.unwrap() {
            result.unwrap();
        }
        topic
    }

    /// A client's first properties.
    pub fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", &self.servers);
        client
    }

    /// Writes records and waits until the brokers have them.
    pub fn send(&self, topic: &str, records: &[Record]) {
        self.send_compressed(topic, records, "none");
    }

    /// The same with a codec.
    pub fn send_compressed(&self, topic: &str, records: &[Record], codec: &str) {
        let producer: BaseProducer =
            self.client().set("compression.type", codec).set("linger.ms", "5").create().unwrap();
        for record in records {
            let mut message: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
            message.partition = record.partition;
            message.headers = record.headers.clone();
            let message = match &record.key {
                Some(key) => message.key(key),
                None => message,
            };
            let message = match &record.value {
                Some(value) => message.payload(value),
                None => message,
            };
            producer.send(message).map_err(|(error, _)| error).unwrap();
            producer.poll(Duration::ZERO);
        }
        producer.flush(PATIENCE).unwrap();
    }

    /// Reads a topic from its beginning until that is enough.
    pub fn read_until(
        &self,
        topic: &str,
        partitions: i32,
        is_enough: impl Fn(&[OwnedMessage]) -> bool,
    ) -> Vec<OwnedMessage> {
        let consumer: BaseConsumer = self.client().set("group.id", self.unique("reader")).create().unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        let mut messages = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while !is_enough(&messages) {
            if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
                messages.push(message.detach());
            }
            assert!(Instant::now() < deadline, "only {} messages came", messages.len());
        }
        messages
    }

    /// What the group has committed for each partition.
    pub fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<Option<i64>> {
        let consumer: BaseConsumer = self.client().set("group.id", group).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, partitions - 1);
        let deadline = Instant::now() + PATIENCE;
        // Brokers that have just started move coordinators about.
        let found = loop {
            match consumer.committed_offsets(list.clone(), PATIENCE) {
                Ok(found) => break found,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        let elements = found.elements();
        let offsets = elements.iter().map(|element| match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        });
        offsets.collect()
    }

    /// What the group has committed beside the offset of a topic's first partition.
    pub fn note(&self, group: &str, topic: &str) -> String {
        let consumer: BaseConsumer = self.client().set("group.id", group).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, 0);
        let found = consumer.committed_offsets(list, PATIENCE).unwrap();
        found.elements()[0].metadata().to_owned()
    }

    /// Waits until the group's committed offsets are as wanted.
    pub async fn wait_committed(
        &self,
        group: &str,
        topic: &str,
        partitions: i32,
        is_right: impl Fn(&[Option<i64>]) -> bool,
    ) -> Vec<Option<i64>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.committed(group, topic, partitions);
            if is_right(&found) {
                return found;
            }
            assert!(Instant::now() < deadline, "committed are {found:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The section `receive.kafka` for a topic, with short waits.
    pub fn source(&self, topic: &str, group: &str) -> Kafka {
        let quick = [
            ("reconnect.backoff.ms", "10"),
            ("reconnect.backoff.max.ms", "200"),
            ("retry.backoff.ms", "20"),
            ("topic.metadata.refresh.interval.ms", "1000"),
            ("fetch.wait.max.ms", "50"),
        ];
        Kafka {
            brokers: vec![self.servers.clone()],
            topics: vec![topic.to_owned()],
            group: group.to_owned(),
            session: Period::seconds(6),
            commit: Period::millis(100),
            properties: quick.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Kafka::default()
        }
    }
}

/// A record to write.
#[derive(Debug, Clone, Default)]
pub struct Record {
    pub partition: Option<i32>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Option<OwnedHeaders>,
}

impl Record {
    /// A record in this partition.
    pub fn new(partition: i32, value: impl Into<Vec<u8>>) -> Self {
        Self { partition: Some(partition), value: Some(value.into()), ..Self::default() }
    }

    /// A recorded trace under the id of this number, keyed by it.
    pub fn trace(number: u32) -> (String, Self) {
        let (id, request) = trace(number);
        let key = Some(id.clone().into_bytes());
        (id, Self { key, value: Some(request.encode_to_vec()), ..Self::default() })
    }
}

/// A recorded trace under another id.
pub fn trace(number: u32) -> (String, ExportTraceServiceRequest) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces/strands/s01.otlp.pb");
    let mut request = ExportTraceServiceRequest::decode(&std::fs::read(path).unwrap()[..]).unwrap();
    let mut id = [0xa5u8; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    for resource in &mut request.resource_spans {
        for span in resource.scope_spans.iter_mut().flat_map(|scope| &mut scope.spans) {
            span.trace_id = id.to_vec();
        }
    }
    (id.iter().map(|byte| format!("{byte:02x}")).collect(), request)
}

/// A request of one span, which says by its name where it is.
pub fn small(name: &str) -> Vec<u8> {
    let mut request = trace(7).1;
    request.resource_spans.truncate(1);
    let resource = &mut request.resource_spans[0];
    resource.scope_spans.truncate(1);
    resource.scope_spans[0].spans.truncate(1);
    resource.scope_spans[0].spans[0].name = name.to_owned();
    request.encode_to_vec()
}

/// A header's text.
pub fn header(message: &OwnedMessage, name: &str) -> Option<String> {
    let found = message.headers()?.iter().find(|header| header.key == name)?;
    Some(String::from_utf8(found.value?.to_vec()).unwrap())
}

/// A consumer whose deliveries the test itself settles.
pub struct Source {
    pub running: RunningKafka,
    pub door: assayd::receive::Door,
    deliveries: mpsc::Receiver<Delivery>,
}

impl Source {
    /// Joins the group.
    pub fn start(kafka: &Kafka) -> Self {
        Self::with(kafka, &receive::Config::default())
    }

    /// The same with settings of the door.
    pub fn with(kafka: &Kafka, config: &receive::Config) -> Self {
        let (door, deliveries) = receive::open(config);
        let running = KafkaSource::open(kafka, config).unwrap().start(door.clone()).unwrap();
        Self { running, door, deliveries }
    }

    /// The next delivery: the name of its first span, and what to settle it with.
    pub async fn next(&mut self) -> (String, Stake) {
        let delivery = tokio::time::timeout(PATIENCE, self.deliveries.recv());
        taken(delivery.await.expect("no record came in time").expect("the source has ended"))
    }

    /// So many deliveries, by name.
    pub async fn take(&mut self, count: usize) -> BTreeMap<String, Stake> {
        let mut found = BTreeMap::new();
        while found.len() < count {
            let (name, stake) = self.next().await;
            assert!(found.insert(name.clone(), stake).is_none(), "{name} was delivered twice");
        }
        found
    }

    /// A delivery, if one comes within that time.
    pub async fn next_within(&mut self, wait: Duration) -> Option<(String, Stake)> {
        tokio::time::timeout(wait, self.deliveries.recv()).await.ok().flatten().map(taken)
    }

    /// Commits and leaves.
    pub async fn leave(self) {
        self.running.leave(PATIENCE).await;
    }
}

fn taken(delivery: Delivery) -> (String, Stake) {
    let (spans, _, mut stakes) = delivery.into_parts();
    let name = spans.first().map(|span| span.name.clone()).unwrap_or_default();
    let bytes = spans.iter().map(|span| span.weight()).sum();
    (name, stakes.cut(bytes))
}

/// Settles all of them.
pub fn settle(stakes: impl IntoIterator<Item = (String, Stake)>, outcome: Outcome) {
    stakes.into_iter().for_each(|(_, stake)| stake.settle(outcome));
}

/// A whole daemon in this process, with a decision model that finds everything grounded.
pub struct House {
    pub daemon: Running,
    folder: tempfile::TempDir,
}

fn all_is_grounded(inquiry: &Inquiry) -> Result<Reply, decide::DecideError> {
    let decisions = inquiry.questions.iter().map(|question| {
        let labels = question.kind.labels();
        let rest = 0.02 / (labels.len() - 1) as f64;
        let probabilities = labels.iter().map(|label| if label == "grounded" { 0.98 } else { rest });
        Ok(Decision { probabilities: probabilities.collect(), tokens: 7 })
    });
    Ok(Reply { decisions: decisions.collect(), input_tokens: 100, truncated: false })
}

impl House {
    /// A daemon without OTLP listeners, whose traces close quickly.
    pub async fn open(adjust: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.receive.grpc = None;
        config.receive.http = None;
        config.receive.acknowledge = receive::Acknowledge::Admitted;
        config.serve.listen = "127.0.0.1:0".parse().unwrap();
        config.assemble.root_grace = Period::millis(200);
        config.assemble.idle = Period::millis(1500);
        config.data_dir = folder.path().to_owned();
        let path = folder.path().join("verdicts.jsonl");
        config.emit.jsonl = Some(JsonlConfig { path, ..JsonlConfig::default() });
        adjust(&mut config);
        let desk = decide::start_with(Scripted::new(all_is_grounded), &decide::Config::default()).unwrap();
        Self { daemon: Running::start(config, desk).await, folder }
    }

    /// The verdicts so far.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let text = std::fs::read_to_string(self.folder.path().join("verdicts.jsonl")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The page of metrics.
    pub async fn metrics(&self) -> String {
        reqwest::get(format!("http://{}/metrics", self.daemon.at.admin)).await.unwrap().text().await.unwrap()
    }

    /// Stops the daemon; gives how it ended and its verdicts.
    pub async fn close(self) -> (Ended, Vec<Verdict>) {
        let ended = self.daemon.stop().await;
        let text = std::fs::read_to_string(self.folder.path().join("verdicts.jsonl")).unwrap_or_default();
        (ended, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }
}

/// Waits until that holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
