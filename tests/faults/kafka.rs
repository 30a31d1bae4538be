//! Kafka in, Kafka out, and everything between that can break. With `ASSAYD_TEST_BROKERS=host:port` on real brokers
//! (`tests/kafka/run` starts one), else on librdkafka's mock of them.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;

use super::daemon::{Daemon, PATIENCE, settings};
use super::traffic::{Heard, Sender, each_has_one_verdict, halves, repeats_agree, thinner, trace, traces_of};

const PARTITIONS: i32 = 6;
/// How long a worker may be silent before its partitions go to others.
const SESSION: Duration = Duration::from_secs(3);

/// Brokers, a topic of spans, a topic of verdicts, and what was sent and found so far.
struct Lab {
    servers: String,
    spans: String,
    verdicts: String,
    group: String,
    folder: tempfile::TempDir,
    producer: BaseProducer,
    reader: BaseConsumer,
    sent: BTreeSet<String>,
    found: Vec<Value>,
    number: u32,
    seed: u32,
    /// Last: clients that close after their brokers are gone may wait for them for ever.
    mock: Option<MockCluster<'static, DefaultProducerContext>>,
}

fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    format!("{name}-{started}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn real_brokers() -> Option<String> {
    std::env::var("ASSAYD_TEST_BROKERS").ok().filter(|servers| !servers.is_empty())
}

/// A client's first properties.
fn client(servers: &str) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", servers).set("reconnect.backoff.max.ms", "500");
    client
}

impl Lab {
    async fn new() -> Self {
        match real_brokers() {
            Some(servers) => Self::with(servers, None).await,
            None => {
                let mock = MockCluster::new(2).unwrap();
                Self::with(mock.bootstrap_servers(), Some(mock)).await
            }
        }
    }

    async fn with(servers: String, mock: Option<MockCluster<'static, DefaultProducerContext>>) -> Self {
        let (spans, verdicts) = (unique("spans"), unique("verdicts"));
        for topic in [&spans, &verdicts] {
            match &mock {
                Some(mock) => mock.create_topic(topic, PARTITIONS, 1).unwrap(),
                None => {
                    let admin: AdminClient<DefaultClientContext> = client(&servers).create().unwrap();
                    let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
                    let made = admin.create_topics([&new], &AdminOptions::new()).await.unwrap();
                    made.into_iter().for_each(|result| drop(result.unwrap()));
                }
            }
        }
        let reader: BaseConsumer = client(&servers).set("group.id", unique("reader")).create().unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(&verdicts, partition, Offset::Beginning).unwrap();
        }
        reader.assign(&list).unwrap();
        Self {
            producer: client(&servers).set("enable.idempotence", "true").create().unwrap(),
            servers,
            mock,
            spans,
            verdicts,
            group: unique("group"),
            folder: tempfile::tempdir().unwrap(),
            reader,
            sent: BTreeSet::new(),
            found: Vec::new(),
            number: 0,
            seed: 0x2545_f491,
        }
    }

    /// Not random, but spread: from 0 to below `end`.
    fn spread(&mut self, end: u32) -> u32 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        self.seed % end
    }

    fn settings(&self) -> String {
        let session = SESSION.as_secs();
        let receive = format!(
            "{{ grpc: null, http: null, acknowledge: admitted, kafka: {{ brokers: ['{}'], topics: [{}], group: {}, \
             session: {session}s, commit: 200ms, retry: {{ first: 200ms, longest: 2s }}, \
             properties: {{ reconnect.backoff.max.ms: '500' }} }} }}",
            self.servers, self.spans, self.group
        );
        let emit = format!(
            "{{ kafka: {{ brokers: ['{}'], topic: {}, delivery_timeout: 5s, \
             properties: {{ reconnect.backoff.max.ms: '500' }} }}, retry: {{ first: 50ms, longest: 500ms }} }}",
            self.servers, self.verdicts
        );
        // So long that what is read again comes together again on any machine.
        let assemble = "{ root_grace: 100ms, idle: 3s }";
        settings(self.folder.path(), &[("receive", &receive), ("emit", &emit), ("assemble", assemble)])
    }

    fn worker(&self) -> Daemon {
        Daemon::start(self.folder.path(), &self.settings())
    }

    /// Writes so many traces, every second one as two records with others between them, and waits until the brokers have them.
    fn send(&mut self, count: u32) {
        let mut records = Vec::new();
        let mut later = Vec::new();
        for number in self.number..self.number + count {
            if number % 2 == 0 {
                let (id, request) = trace(number);
                records.push((id, request));
            } else {
                let (id, [first, second]) = halves(number);
                records.push((id.clone(), first));
                later.push((id, second));
            }
        }
        self.number += count;
        for (id, request) in records.into_iter().chain(later) {
            let value = request.encode_to_vec();
            let record = BaseRecord::to(&self.spans).key(&id).payload(&value);
            self.producer.send(record).map_err(|(error, _)| error).unwrap();
            self.sent.insert(id);
        }
        self.producer.flush(PATIENCE).unwrap();
    }

    /// Takes the verdicts that have come.
    fn look(&mut self) {
        // Outages are errors here, and no matter.
        while let Some(polled) = self.reader.poll(Duration::from_millis(20)) {
            if let Ok(message) = polled {
                self.found.push(serde_json::from_slice(message.payload().unwrap()).unwrap());
            }
        }
    }

    /// Waits until every trace that was sent has a verdict and every record is committed; then checks the verdicts.
    async fn all_is_done(&mut self, watched: &[&Daemon]) {
        let logs = || watched.iter().map(|daemon| daemon.log()).collect::<Vec<_>>().join("\n---\n");
        let mut deadline = Instant::now() + PATIENCE;
        let mut fewest = usize::MAX;
        loop {
            self.look();
            let missing: Vec<String> = self.sent.difference(&traces_of(&self.found)).cloned().collect();
            if missing.is_empty() {
                break;
            }
            if missing.len() < fewest {
                fewest = missing.len();
                deadline = Instant::now() + PATIENCE;
            }
            let (count, of) = (missing.len(), self.sent.len());
            assert!(
                Instant::now() < deadline,
                "{count} of {of} traces have no verdict: {missing:?}\n{}",
                logs()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        while self.lag() > 0 {
            assert!(Instant::now() < deadline, "{} records are not committed\n{}", self.lag(), logs());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.look();
        repeats_agree(&self.found);
        let (traces, verdicts) = (self.sent.len(), self.found.len());
        println!(
            "{traces} traces, {verdicts} verdicts, {} of them on fewer spans than one before",
            thinner(&self.found).len()
        );
    }

    /// Records that the group has not committed.
    fn lag(&self) -> i64 {
        let group: BaseConsumer = client(&self.servers).set("group.id", &self.group).create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.spans, 0, PARTITIONS - 1);
        let Ok(committed) = group.committed_offsets(list, Duration::from_secs(10)) else { return i64::MAX };
        let lags = committed.elements().into_iter().map(|element| {
            let (_, end) = group
                .fetch_watermarks(&self.spans, element.partition(), Duration::from_secs(10))
                .unwrap_or((0, i64::MAX));
            match element.offset() {
                Offset::Offset(offset) => end - offset,
                _ => end,
            }
        });
        lags.sum()
    }
}

async fn survive(kills: u32) {
    let mut lab = Lab::new().await;
    for round in 0..kills {
        let worker = lab.worker();
        // Somewhere between starting, joining, reading, evaluating, writing and committing.
        let until = Instant::now() + Duration::from_millis(500 + u64::from(lab.spread(4_000)));
        while Instant::now() < until {
            lab.send(4);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        worker.kill();
        lab.look();
        println!(
            "kill {} of {kills}: {} traces sent, {} verdicts",
            round + 1,
            lab.sent.len(),
            lab.found.len()
        );
    }
    let worker = lab.worker();
    lab.all_is_done(&[&worker]).await;
    each_has_one_verdict(&lab.found);
    worker.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_loses_nothing_when_the_worker_is_killed() {
    survive(3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes; run it before a release"]
async fn kafka_loses_nothing_when_the_worker_is_killed_fifty_times() {
    survive(50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_gives_the_share_of_a_dead_and_of_a_frozen_worker_to_the_others() {
    let mut lab = Lab::new().await;
    let (first, second, third) = (lab.worker(), lab.worker(), lab.worker());
    for _ in 0..10 {
        lab.send(6);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    first.kill();
    lab.send(20);
    // Past its session: the group goes on without it. Then it wakes up, with traces and offsets that are no longer its own.
    second.signal("STOP");
    lab.send(20);
    tokio::time::sleep(3 * SESSION).await;
    lab.send(20);
    second.signal("CONT");
    lab.send(20);
    lab.all_is_done(&[&second, &third]).await;
    third.terminate();
    lab.send(20);
    lab.all_is_done(&[&second]).await;
    second.terminate();
}

/// Of three workers one is always frozen past its session; it wakes up with traces and offsets that are no longer its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes; tests/kafka/run has it"]
async fn kafka_loses_nothing_when_one_worker_after_the_other_is_frozen() {
    let mut lab = Lab::new().await;
    let workers = [lab.worker(), lab.worker(), lab.worker()];
    for round in 0..12 {
        let frozen = &workers[round % workers.len()];
        lab.send(6);
        let wait = lab.spread(600);
        tokio::time::sleep(Duration::from_millis(u64::from(wait))).await;
        frozen.signal("STOP");
        lab.send(6);
        tokio::time::sleep(SESSION + Duration::from_secs(2)).await;
        lab.send(6);
        frozen.signal("CONT");
        let wait = lab.spread(2_000);
        tokio::time::sleep(Duration::from_millis(u64::from(wait))).await;
        lab.look();
        println!("freeze {} of 12: {} traces sent, {} verdicts", round + 1, lab.sent.len(), lab.found.len());
    }
    lab.all_is_done(&[&workers[0], &workers[1], &workers[2]]).await;
    for worker in workers {
        worker.terminate();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a minute; tests/kafka/run has it"]
async fn kafka_loses_nothing_in_a_storm_of_rebalances() {
    let mut lab = Lab::new().await;
    let stayer = lab.worker();
    for round in 0..6 {
        let passer = lab.worker();
        for _ in 0..5 {
            lab.send(2);
            let wait = lab.spread(400);
            tokio::time::sleep(Duration::from_millis(u64::from(wait))).await;
        }
        if round % 2 == 0 {
            passer.kill();
        } else {
            passer.terminate();
        }
    }
    lab.all_is_done(&[&stayer]).await;
    each_has_one_verdict(&lab.found);
    stayer.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_loses_nothing_when_the_groups_coordinator_moves() {
    let mock = MockCluster::new(2).unwrap();
    let mut lab = Lab::with(mock.bootstrap_servers(), Some(mock)).await;
    let (first, second) = (lab.worker(), lab.worker());
    for round in 0..4 {
        lab.send(10);
        let group = MockCoordinator::Group(lab.group.clone());
        lab.mock.as_ref().unwrap().coordinator(group, 1 + round % 2).unwrap();
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    lab.all_is_done(&[&first, &second]).await;
    first.terminate();
    second.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_has_what_a_gateway_acknowledged_before_it_was_killed() {
    let mut lab = Lab::new().await;
    let worker = lab.worker();
    let folder = tempfile::tempdir().unwrap();
    let relay = format!("{{ brokers: ['{}'], topic: {} }}", lab.servers, lab.spans);
    let settings = format!(
        "role: gateway\nreceive: {{ grpc: {{ listen: 127.0.0.1:0 }}, http: null }}\nrelay: {relay}\n\
         serve: {{ listen: 127.0.0.1:0 }}\n"
    );
    for _ in 0..2 {
        let gateway = Daemon::start(folder.path(), &settings);
        let mut sender = Sender::hasty(gateway.grpc(), Duration::from_secs(5));
        let until = Instant::now() + Duration::from_millis(1_500 + u64::from(lab.spread(1_000)));
        while Instant::now() < until {
            let (id, request) = trace(lab.number);
            lab.number += 1;
            if sender.send(request).await == Heard::Acknowledged {
                lab.sent.insert(id);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        gateway.kill();
    }
    assert!(lab.sent.len() > 10, "the test sent too little to mean anything");
    lab.all_is_done(&[&worker]).await;
    worker.terminate();
}

/// Says words to the script that keeps the broker.
fn broker(words: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kafka/broker");
    let output = Command::new(script).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "stops and starts the real broker of tests/kafka/run"]
async fn alone_kafka_loses_nothing_when_the_broker_is_stopped_killed_and_frozen() {
    assert!(real_brokers().is_some(), "this needs the broker that tests/kafka/run starts");
    let mut lab = Lab::new().await;
    let (first, second) = (lab.worker(), lab.worker());
    lab.send(20);
    for (down, up) in [("stop", "up"), ("kill", "up"), ("freeze", "thaw"), ("kill", "up")] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        broker(&[down]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        broker(&[up]);
        lab.send(20);
    }
    lab.all_is_done(&[&first, &second]).await;
    assert!(first.is_ready().await && second.is_ready().await);
    first.terminate();
    second.terminate();
}

/// A broker with its own properties again when dropped, whatever became of the test.
struct Changed;

impl Changed {
    fn to(properties: &[&str]) -> Self {
        broker(&[&["with"], properties].concat());
        Self
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        broker(&["with"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts the real broker of tests/kafka/run with another property"]
async fn alone_kafka_commits_where_the_broker_takes_no_notes_beside_offsets() {
    assert!(real_brokers().is_some(), "this needs the broker that tests/kafka/run starts");
    let changed = Changed::to(&["offset.metadata.max.bytes=8"]);
    let mut lab = Lab::new().await;
    // One trace stays open below many that are done.
    let patient = lab.settings().replace("idle: 3s", "idle: 5m");
    let worker = Daemon::start(lab.folder.path(), &patient);
    let (held, [first, second]) = halves(1_000_000);
    let write = |lab: &Lab, id: &str, request: &ExportTraceServiceRequest| {
        let value = request.encode_to_vec();
        let record = BaseRecord::to(&lab.spans).partition(0).key(id).payload(&value);
        lab.producer.send(record).map_err(|(error, _)| error).unwrap();
        lab.producer.flush(PATIENCE).unwrap();
    };
    for number in 0..20 {
        if number == 3 {
            write(&lab, &held, &first);
        }
        let (id, request) = trace(number);
        write(&lab, &id, &request);
        lab.sent.insert(id);
    }
    let deadline = Instant::now() + PATIENCE;
    // Below the open one are three records, at it and above are eighteen.
    while lab.lag() != 18 {
        assert!(Instant::now() < deadline, "the offset is not committed\n{}", worker.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    while worker.metric("assayd_receive_kafka_commits_total", "result=\"note_refused\"").await == 0.0 {
        assert!(Instant::now() < deadline, "no note was refused\n{}", worker.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(worker.log().matches("offset.metadata.max.bytes").count(), 1, "{}", worker.log());
    write(&lab, &held, &second);
    lab.sent.insert(held);
    lab.all_is_done(&[&worker]).await;
    each_has_one_verdict(&lab.found);
    worker.terminate();
    drop(changed);
}

/// A worker that reaches the brokers by `security`, in the words of both sections.
async fn through(servers: &str, security: &str) {
    let mut lab = Lab::new().await;
    let secured = lab
        .settings()
        .replace(&format!("brokers: ['{}']", lab.servers), &format!("brokers: ['{servers}'], {security}"));
    let worker = Daemon::start(lab.folder.path(), &secured);
    lab.send(10);
    lab.all_is_done(&[&worker]).await;
    worker.terminate();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real broker of tests/kafka/run, and its other listeners"]
async fn kafka_is_reached_by_scram_plain_and_tls() {
    let variable = |name: &str| std::env::var(format!("ASSAYD_TEST_BROKERS_{name}")).ok();
    let sasl = variable("SASL").expect("tests/kafka/run says where");
    let user = variable("USER").unwrap();
    let login = |mechanism: &str| {
        format!(
            "sasl: {{ mechanism: {mechanism}, username: {user}, password: {{ env: ASSAYD_TEST_BROKERS_PASSWORD }} }}"
        )
    };
    for mechanism in ["scram-sha-256", "scram-sha-512", "plain"] {
        through(&sasl, &login(mechanism)).await;
        println!("reached by {mechanism}");
    }
    let (Some(tls), Some(both), Some(ca)) = (variable("TLS"), variable("SASL_TLS"), variable("CA")) else {
        println!("SKIPPED: the broker has no TLS listener, since openssl was not there");
        return;
    };
    through(&tls, &format!("tls: {{ ca: {ca} }}")).await;
    println!("reached by TLS");
    through(&both, &format!("tls: {{ ca: {ca} }}, {}", login("scram-sha-512"))).await;
    println!("reached by SCRAM over TLS");
}
