//! What takes the verdicts fails, or is slow, and comes back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::mocking::MockCluster;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use serde_json::Value;

use super::daemon::{Daemon, PATIENCE, settings};
use super::traffic::{Sender, all_have_verdicts, repeats_agree, trace, traces_of, written};

const PARTITIONS: i32 = 2;
/// Verdicts that a daemon tries again soon.
const RETRY: &str = "retry: { first: 50ms, longest: 500ms }";

async fn deliver(sender: &mut Sender, numbers: std::ops::Range<u32>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for number in numbers {
        let (id, request) = trace(number);
        sender.deliver(&request).await;
        ids.insert(id);
    }
    ids
}

#[tokio::test]
async fn a_file_that_cannot_be_written_gets_its_verdicts_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let emit = format!("{{ jsonl: {{ path: {}/verdicts.jsonl }}, {RETRY} }}", out.display());
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &[("emit", &emit)]));
    let mut sender = Sender::new(daemon.grpc());
    let mut acknowledged = deliver(&mut sender, 0..3).await;
    all_have_verdicts(folder.path(), &acknowledged).await;

    // A file where the folder was: even root cannot write there.
    std::fs::rename(&out, folder.path().join("before")).unwrap();
    std::fs::write(&out, "in the way").unwrap();
    acknowledged.extend(deliver(&mut sender, 3..9).await);
    let deadline = Instant::now() + PATIENCE;
    while daemon.metric("assayd_emit_writes_total", "retried").await == 0.0 {
        assert!(Instant::now() < deadline, "nothing was tried; the log:\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(traces_of(&written(folder.path())).len(), 3, "nothing is written, and nothing is lost");
    std::fs::remove_file(&out).unwrap();

    let verdicts = all_have_verdicts(folder.path(), &acknowledged).await;
    daemon.terminate();
    assert_eq!(verdicts.len(), 9, "no kill, no repetition");
    repeats_agree(&verdicts);
}

struct Topic {
    consumer: BaseConsumer,
    verdicts: Vec<Value>,
}

impl Topic {
    fn read(brokers: &str, name: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("group.id", "test");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(name, partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&list).unwrap();
        Self { consumer, verdicts: Vec::new() }
    }

    /// Reads until every one of `wanted` is there.
    async fn until(&mut self, wanted: &BTreeSet<String>, daemon: &Daemon) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted.is_subset(&traces_of(&self.verdicts)) {
            if Instant::now() >= deadline {
                let missing = wanted.len() - traces_of(&self.verdicts).len();
                let written = daemon.metric("assayd_emit_writes_total", "ok").await;
                panic!(
                    "{missing} of {} verdicts are missing, and {written} were written; the log:\n{}",
                    wanted.len(),
                    daemon.log()
                );
            }
            // Outages of the brokers are errors here, too, and no matter.
            if let Some(Ok(message)) = self.consumer.poll(Duration::ZERO) {
                self.verdicts.push(serde_json::from_slice(message.payload().unwrap()).unwrap());
            } else {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_away_slow_or_failing_gets_its_verdicts_when_it_is_back() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("verdicts", PARTITIONS, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let emit =
        format!("{{ kafka: {{ brokers: ['{brokers}'], topic: verdicts, delivery_timeout: 1s }}, {RETRY} }}");
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &[("emit", &emit)]));
    let mut sender = Sender::new(daemon.grpc());
    let mut topic = Topic::read(&brokers, "verdicts");
    let mut acknowledged = deliver(&mut sender, 0..3).await;
    topic.until(&acknowledged, &daemon).await;

    cluster.broker_down(1).unwrap();
    acknowledged.extend(deliver(&mut sender, 3..6).await);
    let deadline = Instant::now() + PATIENCE;
    while daemon.metric("assayd_emit_writes_total", "retried").await == 0.0 {
        assert!(Instant::now() < deadline, "nothing was tried; the log:\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.broker_up(1).unwrap();
    topic.until(&acknowledged, &daemon).await;

    cluster.broker_round_trip_time(1, Duration::from_millis(400)).unwrap();
    acknowledged.extend(deliver(&mut sender, 6..9).await);
    topic.until(&acknowledged, &daemon).await;
    cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();

    let failures = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    ];
    cluster.request_errors(RDKafkaApiKey::Produce, &failures);
    acknowledged.extend(deliver(&mut sender, 9..12).await);
    topic.until(&acknowledged, &daemon).await;

    daemon.terminate();
    repeats_agree(&topic.verdicts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_hangs_does_not_spoil_the_stop_and_gets_its_verdict_after_the_next_start() {
    // Connections are taken by the system and never by anybody else.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hanging.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display();
    let emit = format!(
        "{{ jsonl: {{ path: {out}/verdicts.jsonl }}, webhook: {{ url: 'http://{address}/', timeout: 1m, \
         labels: [faithful, hallucination, unsure] }}, {RETRY} }}"
    );
    let hasty = settings(folder.path(), &[("emit", &emit), ("flow", "{ drain: 4s }")]);
    let daemon = Daemon::start(folder.path(), &hasty);
    let acknowledged = deliver(&mut Sender::new(daemon.grpc()), 0..2).await;
    all_have_verdicts(folder.path(), &acknowledged).await;
    // Exit code 0, as it is checked there: the spool has what the webhook does not.
    daemon.terminate();

    // What waits there unread is not for the next receiver.
    drop(hanging);
    let listener = std::net::TcpListener::bind(address).unwrap();
    let server = wiremock::MockServer::builder().listener(listener).start().await;
    let taken = wiremock::Mock::given(wiremock::matchers::method("POST"));
    taken.respond_with(wiremock::ResponseTemplate::new(204)).mount(&server).await;
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &[("emit", &emit)]));
    let deadline = Instant::now() + PATIENCE;
    let posted = loop {
        let requests = server.received_requests().await.unwrap();
        let posted: Vec<Value> =
            requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
        if acknowledged.is_subset(&traces_of(&posted)) {
            break posted;
        }
        assert!(Instant::now() < deadline, "{} were posted; the log:\n{}", posted.len(), daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    daemon.terminate();
    let mut verdicts = written(folder.path());
    verdicts.extend(posted);
    repeats_agree(&verdicts);
}
