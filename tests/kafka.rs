//! Kafka as a source, and a gateway in front of it. In `cargo test` on librdkafka's mock of a cluster; with `ASSAYD_TEST_BROKERS=host:port` on real brokers.

#[path = "kafka/gateway.rs"]
mod gateway;
#[path = "common/running.rs"]
mod running;
#[path = "kafka/secure.rs"]
mod secure;
#[path = "kafka/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use assayd::domain::{ByteSize, Outcome as Ending, Period};
use assayd::receive::{self, DeadLetters, Kafka, RetryConfig, WithoutTopic};
use assayd::ticket::Outcome;
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use support::{Brokers, House, Record, Source, header, settle, small, until};

const SILENCE: Duration = Duration::from_millis(1500);

fn names(prefix: &str, range: std::ops::Range<u32>) -> BTreeSet<String> {
    range.map(|number| format!("{prefix}{number}")).collect()
}

fn numbered(partition: i32, prefix: &str, range: std::ops::Range<u32>) -> Vec<Record> {
    range.map(|number| Record::new(partition, small(&format!("{prefix}{number}")))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_in_every_encoding_and_codec_become_verdicts_and_their_offsets_are_committed() {
    let brokers = Brokers::start();
    let (spans, more) = (brokers.topic("spans", 2).await, brokers.topic("more", 1).await);
    let group = brokers.unique("group");
    let mut sent = BTreeSet::new();
    for (number, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let (id, record) = Record::trace(number as u32);
        brokers.send_compressed(&spans, &[record], codec);
        sent.insert(id);
    }
    let json = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
        {"traceId":"5b8efff798038103d269b633813fc60c","body":{"stringValue":"hello"}}]}]}]}"#;
    brokers.send(&more, &[Record::new(0, json.to_vec())]);
    sent.insert("5b8efff798038103d269b633813fc60c".to_owned());

    let source = Kafka { topics: vec![spans.clone(), more.clone()], ..brokers.source(&spans, &group) };
    let house = House::open(|config| config.receive.kafka = Some(source)).await;
    until("all verdicts", || house.verdicts().len() >= sent.len()).await;
    brokers.wait_committed(&group, &more, 1, |found| found == [Some(1)]).await;
    brokers.wait_committed(&group, &spans, 2, |found| found.iter().flatten().sum::<i64>() == 5).await;
    // All is done, so nothing lags; looked at every two seconds.
    let no_lag = format!("assayd_receive_kafka_lag_records{{topic=\"{more}\",partition=\"0\"}} 0\n");
    let deadline = tokio::time::Instant::now() + support::PATIENCE;
    let mut page = house.metrics().await;
    while !page.contains(&no_lag) {
        assert!(tokio::time::Instant::now() < deadline, "the lag is not shown: {page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        page = house.metrics().await;
    }
    let (_, verdicts) = house.close().await;
    let seen: BTreeSet<String> = verdicts.iter().map(|v| v.trace_id.unwrap().to_string()).collect();
    assert_eq!(seen, sent);
    assert_eq!(verdicts.len(), sent.len(), "one each");
    assert_eq!(verdicts.iter().filter(|verdict| verdict.outcome == Ending::Scored).count(), 5);
    assert_eq!(assayd::metrics::strays(&page), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_share_the_partitions_and_each_trace_has_one_verdict() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 4).await;
    let group = brokers.unique("group");
    let source = || brokers.source(&topic, &group);
    let first = House::open(|config| config.receive.kafka = Some(source())).await;
    let second = House::open(|config| config.receive.kafka = Some(source())).await;
    // Traces for each partition, until both replicas have had some: by then the group has settled.
    let mut sent = 0;
    let rounds = tokio::time::Instant::now() + support::PATIENCE;
    while first.verdicts().is_empty() || second.verdicts().is_empty() {
        assert!(tokio::time::Instant::now() < rounds, "one replica got nothing");
        let records: Vec<Record> = (0..4)
            .map(|partition| Record {
                partition: Some(partition),
                ..Record::trace(sent + partition as u32).1
            })
            .collect();
        brokers.send(&topic, &records);
        sent += 4;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    until("all verdicts", || first.verdicts().len() + second.verdicts().len() >= sent as usize).await;
    let (_, mut verdicts) = first.close().await;
    verdicts.extend(second.close().await.1);
    let traces: BTreeSet<String> = verdicts.iter().map(|v| v.trace_id.unwrap().to_string()).collect();
    assert_eq!(traces.len(), sent as usize);
    let ids: BTreeSet<&str> = verdicts.iter().map(|verdict| verdict.verdict_id.as_str()).collect();
    assert_eq!(ids.len(), sent as usize, "a trace that was read twice has the same verdict id");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_reads_on_where_the_last_one_was_done() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 1).await;
    let group = brokers.unique("group");
    brokers.send(&topic, &numbered(0, "s", 0..10));
    let mut source = Source::start(&brokers.source(&topic, &group));
    let mut stakes = source.take(10).await;
    for done in [0, 1, 2, 3, 5, 7] {
        stakes.remove(&format!("s{done}")).unwrap().settle(Outcome::Done);
    }
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(4)]).await;
    // s4 is done while the source stops: the last commit has it.
    source.running.stop();
    stakes.remove("s4").unwrap().settle(Outcome::Done);
    source.leave().await;
    assert_eq!(brokers.committed(&group, &topic, 1), [Some(6)]);
    drop(stakes);

    let mut heir = Source::start(&brokers.source(&topic, &group));
    let again = heir.take(3).await;
    let mut undone = names("s", 6..10);
    undone.remove("s7");
    assert_eq!(
        again.keys().cloned().collect::<BTreeSet<_>>(),
        undone,
        "what is done above the offset is known"
    );
    settle(again, Outcome::Done);
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(10)]).await;
    heir.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_brokers_did_not_take_is_repeated_even_if_only_its_note_is_new() {
    let brokers = Brokers::start();
    let Some(mock) = brokers.mock() else { return };
    let topic = brokers.topic("spans", 1).await;
    let group = brokers.unique("group");
    brokers.send(&topic, &numbered(0, "s", 0..3));
    let mut source = Source::start(&brokers.source(&topic, &group));
    let mut stakes = source.take(3).await;
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(0)]).await;
    assert_eq!(brokers.note(&group, &topic), "");
    let failure = RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
    mock.request_errors(RDKafkaApiKey::OffsetCommit, &[failure, failure]);
    stakes.remove("s1").unwrap().settle(Outcome::Done);
    until("the note of s1", || !brokers.note(&group, &topic).is_empty()).await;
    assert_eq!(brokers.committed(&group, &topic, 1), [Some(0)]);
    settle(stakes, Outcome::Done);
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(3)]).await;
    source.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_that_is_too_long_for_the_brokers_becomes_shorter_and_its_offset_is_committed() {
    let brokers = Brokers::start();
    let Some(mock) = brokers.mock() else { return };
    let topic = brokers.topic("spans", 1).await;
    let group = brokers.unique("group");
    brokers.send(&topic, &numbered(0, "s", 0..400));
    // All is settled between two commits, so that one note says all of it.
    let kafka = Kafka { commit: Period::seconds(3), ..brokers.source(&topic, &group) };
    let mut source = Source::start(&kafka);
    let stakes = source.take(400).await;
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(0)]).await;
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE;
    mock.request_errors(RDKafkaApiKey::OffsetCommit, &[refusal]);
    let is_open = |name: &str| name[1..].parse::<u32>().unwrap() % 3 == 1;
    let (open, done): (Vec<_>, Vec<_>) = stakes.into_iter().partition(|(name, _)| is_open(name));
    settle(done, Outcome::Done);
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(1)]).await;
    // Whole, the note of 133 runs has a hundred characters.
    let note = brokers.note(&group, &topic);
    assert!((9..=60).contains(&note.len()), "{} characters", note.len());
    source.leave().await;

    // Nothing is lost by it: whoever comes next reads what is open, and some of what is done.
    let mut heir = Source::start(&kafka);
    let mut next = Some(heir.next().await);
    let mut again = BTreeSet::new();
    while let Some((name, stake)) = next {
        again.insert(name);
        stake.settle(Outcome::Done);
        next = heir.next_within(SILENCE).await;
    }
    let missing: Vec<_> = open.iter().filter(|(name, _)| !again.contains(name)).collect();
    assert!(missing.is_empty() && again.len() < 400, "{} were read again", again.len());
    heir.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_goes_to_the_dead_letters_and_does_not_stop_its_partition() {
    let brokers = Brokers::start();
    let (topic, dead) = (brokers.topic("spans", 1).await, brokers.topic("dead", 1).await);
    let group = brokers.unique("group");
    let own = OwnedHeaders::new().insert(Header { key: "tenant", value: Some("blue") });
    let poison = Record {
        key: Some(b"a key".to_vec()),
        headers: Some(own),
        ..Record::new(0, &b"\xff\xfenot OTLP"[..])
    };
    let tombstone = Record { partition: Some(0), key: Some(b"k".to_vec()), ..Record::default() };
    let large = Record::new(0, small(&"x".repeat(300_000)));
    let mut records = numbered(0, "s", 0..1);
    records.extend([poison, tombstone, large]);
    records.extend(numbered(0, "s", 1..3));
    brokers.send(&topic, &records);

    let dead_letters = DeadLetters { topic: Some(dead.clone()), ..DeadLetters::default() };
    let kafka = Kafka { dead_letters, ..brokers.source(&topic, &group) };
    let config = receive::Config { max_message: ByteSize(200_000), ..receive::Config::default() };
    let mut source = Source::with(&kafka, &config);
    let stakes = source.take(3).await;
    assert_eq!(stakes.keys().cloned().collect::<BTreeSet<_>>(), names("s", 0..3));
    settle(stakes, Outcome::Done);
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(6)]).await;
    source.leave().await;

    let letters = brokers.read_until(&dead, 1, |letters| letters.len() >= 2);
    let unreadable = &letters[0];
    assert_eq!(unreadable.key(), Some(&b"a key"[..]));
    assert_eq!(unreadable.payload(), Some(&b"\xff\xfenot OTLP"[..]));
    let text = |name: &str| header(unreadable, &format!("assayd.dead_letter.{name}")).unwrap();
    assert_eq!(header(unreadable, "tenant").as_deref(), Some("blue"));
    assert_eq!((text("topic"), text("partition"), text("offset")), (topic, "0".into(), "1".into()));
    assert_eq!(text("reason"), "unreadable");
    assert!(text("error").contains("OTLP"), "{}", text("error"));
    assert_eq!(header(&letters[1], "assayd.dead_letter.reason").as_deref(), Some("too_large"));
    assert!(letters[1].payload().unwrap().len() > 300_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_topic_for_dead_letters_one_is_passed_over_or_waited_for_as_configured() {
    let brokers = Brokers::start();
    for (without_topic, committed) in [(WithoutTopic::Skip, 3), (WithoutTopic::Retry, 1)] {
        let topic = brokers.topic("spans", 1).await;
        let group = brokers.unique("group");
        let mut records = numbered(0, "s", 0..1);
        records.push(Record::new(0, &b"junk"[..]));
        records.extend(numbered(0, "s", 1..2));
        brokers.send(&topic, &records);
        let dead_letters = DeadLetters { without_topic, ..DeadLetters::default() };
        let mut source = Source::start(&Kafka { dead_letters, ..brokers.source(&topic, &group) });
        settle(source.take(2).await, Outcome::Done);
        brokers.wait_committed(&group, &topic, 1, |found| found == [Some(committed)]).await;
        source.leave().await;
        assert_eq!(brokers.committed(&group, &topic, 1), [Some(committed)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_got_no_verdict_is_read_again_after_a_while_and_what_is_done_is_not() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 1).await;
    let group = brokers.unique("group");
    brokers.send(&topic, &numbered(0, "s", 0..6));
    let retry = RetryConfig { first: Period::millis(300), ..RetryConfig::default() };
    let mut source = Source::start(&Kafka { retry, ..brokers.source(&topic, &group) });
    let mut stakes = source.take(6).await;
    // A panic, a sink that is away: dropped without a word.
    drop(stakes.remove("s1").unwrap());
    stakes.remove("s3").unwrap().settle(Outcome::Retry);
    let under_way = stakes.remove("s5").unwrap();
    settle(stakes, Outcome::Done);
    let again = source.take(2).await;
    assert_eq!(again.keys().cloned().collect::<Vec<_>>(), ["s1", "s3"]);
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(1)]).await;
    // Once more for one of them.
    for (name, stake) in again {
        stake.settle(if name == "s3" { Outcome::Retry } else { Outcome::Done });
    }
    let (name, stake) = source.next().await;
    assert_eq!(name, "s3");
    brokers.send(&topic, &numbered(0, "s", 6..7));
    let (name, newest) = source.next().await;
    assert_eq!(name, "s6", "reading goes on behind it");
    for stake in [stake, newest, under_way] {
        stake.settle(Outcome::Done);
    }
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(7)]).await;
    assert!(source.next_within(SILENCE).await.is_none(), "nothing comes twice without need");
    source.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_gets_no_verdict_for_too_long_goes_to_the_dead_letters() {
    let brokers = Brokers::start();
    let (topic, dead) = (brokers.topic("spans", 1).await, brokers.topic("dead", 1).await);
    let group = brokers.unique("group");
    brokers.send(&topic, &numbered(0, "s", 0..1));
    let dead_letters =
        DeadLetters { topic: Some(dead.clone()), max_age: Period::millis(400), ..DeadLetters::default() };
    let retry = RetryConfig { first: Period::millis(300), ..RetryConfig::default() };
    let mut source = Source::start(&Kafka { retry, dead_letters, ..brokers.source(&topic, &group) });
    let trying = tokio::spawn(async move {
        loop {
            source.next().await.1.settle(Outcome::Retry);
        }
    });
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(1)]).await;
    trying.abort();
    let letter = brokers.read_until(&dead, 1, |letters| !letters.is_empty()).remove(0);
    assert_eq!(header(&letter, "assayd.dead_letter.reason").as_deref(), Some("over_age"));
    assert_eq!(letter.payload(), Some(&small("s0")[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_house_pauses_reading_stays_in_the_group_and_reads_on_when_there_is_room() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 2).await;
    let group = brokers.unique("group");
    let mut records = numbered(0, "a", 0..40);
    records.extend(numbered(1, "b", 0..40));
    brokers.send(&topic, &records);
    let mut kafka = brokers.source(&topic, &group);
    // Who does not poll for so long is thrown out, and then reads everything again.
    kafka.properties.insert("max.poll.interval.ms".to_owned(), "6000".to_owned());
    let config = receive::Config {
        max_bytes: ByteSize(100_000),
        max_message: ByteSize(90_000),
        ..receive::Config::default()
    };
    let mut source = Source::with(&kafka, &config);
    let mut held = Vec::new();
    while let Some(next) = source.next_within(Duration::from_secs(9)).await {
        assert!(source.door.held_bytes() <= 100_000);
        held.push(next);
    }
    assert!(held.len() > 4 && held.len() < 80, "{} of 80 fit", held.len());
    let mut seen: BTreeSet<String> = BTreeSet::new();
    while seen.len() < 80 {
        for (name, stake) in held.drain(..) {
            assert!(seen.insert(name.clone()), "{name} came twice");
            stake.settle(Outcome::Done);
        }
        if seen.len() < 80 {
            held.push(source.next().await);
        }
    }
    brokers.wait_committed(&group, &topic, 2, |found| found == [Some(40), Some(40)]).await;
    source.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_before_a_rebalance_settles_nothing_after_it() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 2).await;
    let group = brokers.unique("group");
    let mut records = numbered(0, "a", 0..5);
    records.extend(numbered(1, "b", 0..5));
    brokers.send(&topic, &records);
    let mut first = Source::start(&brokers.source(&topic, &group));
    let mut old = first.take(10).await;
    for (partition, count) in [("a", 2), ("b", 2)] {
        for number in 0..count {
            old.remove(&format!("{partition}{number}")).unwrap().settle(Outcome::Done);
        }
    }
    // A commit may be refused in the middle of a rebalance, which costs a repeat and no record: here it is to be there before.
    brokers.wait_committed(&group, &topic, 2, |found| found == [Some(2), Some(2)]).await;
    let mut second = Source::start(&brokers.source(&topic, &group));
    // One partition moves; its new owner reads on from there.
    let moved = second.take(3).await;
    let prefix = moved.keys().next().unwrap()[..1].to_owned();
    assert_eq!(moved.keys().cloned().collect::<BTreeSet<_>>(), names(&prefix, 2..5));
    let (mut fenced, kept): (Vec<_>, Vec<_>) =
        old.into_iter().partition(|(name, _)| name.starts_with(&prefix));
    assert!(
        fenced.iter().all(|(_, stake)| stake.is_fenced()) && !kept.iter().any(|(_, stake)| stake.is_fenced())
    );
    // The old owner is late: neither word counts, and nobody reads anything again because of it.
    fenced.remove(0).1.settle(Outcome::Retry);
    settle(fenced, Outcome::Done);
    settle(kept, Outcome::Done);
    let is_moved = usize::from(prefix == "b");
    let found = brokers.wait_committed(&group, &topic, 2, |found| found[1 - is_moved] == Some(5)).await;
    assert_eq!(found[is_moved], Some(2));
    assert!(first.next_within(SILENCE).await.is_none());
    settle(moved, Outcome::Done);
    brokers.wait_committed(&group, &topic, 2, |found| found == [Some(5), Some(5)]).await;
    first.leave().await;
    second.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_replica_leaves_its_open_traces_to_the_next_one() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 1).await;
    let group = brokers.unique("group");
    let (id, record) = Record::trace(1);
    brokers.send(&topic, &[record]);
    let patient = |config: &mut assayd::config::Config| {
        config.receive.kafka = Some(brokers.source(&topic, &group));
        config.assemble.root_grace = Period::seconds(600);
        config.assemble.idle = Period::seconds(600);
    };
    let house = House::open(patient).await;
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(0)]).await;
    let (_, verdicts) = house.close().await;
    assert_eq!(verdicts, [], "half a trace is not judged");
    assert_eq!(brokers.committed(&group, &topic, 1), [Some(0)]);

    let heir = House::open(|config| config.receive.kafka = Some(brokers.source(&topic, &group))).await;
    until("the heir's verdict", || !heir.verdicts().is_empty()).await;
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(1)]).await;
    let (_, verdicts) = heir.close().await;
    assert_eq!(verdicts[0].trace_id.unwrap().to_string(), id);
    assert_eq!(verdicts[0].span_ids.len(), verdicts[0].span_ids.iter().collect::<BTreeSet<_>>().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_are_away_at_the_start_and_in_between_are_waited_for() {
    let brokers = Brokers::start();
    let Some(mock) = brokers.mock() else { return };
    let topic = brokers.topic("spans", 1).await;
    let group = brokers.unique("group");
    mock.broker_down(1).unwrap();
    let house = House::open(|config| config.receive.kafka = Some(brokers.source(&topic, &group))).await;
    let ready = format!("http://{}/readyz", house.daemon.at.admin);
    let deadline = tokio::time::Instant::now() + support::PATIENCE;
    while !reqwest::get(&ready).await.unwrap().status().is_success() {
        assert!(tokio::time::Instant::now() < deadline, "readiness does not wait for brokers");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    mock.broker_up(1).unwrap();
    brokers.send(&topic, &[Record::trace(1).1]);
    until("the first verdict", || house.verdicts().len() == 1).await;
    mock.broker_down(1).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    mock.broker_up(1).unwrap();
    brokers.send(&topic, &[Record::trace(2).1]);
    until("the second verdict", || house.verdicts().len() >= 2).await;
    house.close().await;
}
