//! Login and encryption, against real brokers only (`tests/kafka/broker` says where they are): the mock has neither.

use assayd::domain::Period;
use assayd::kafka::{Mechanism, SaslConfig, TlsConfig};
use assayd::receive::{DeadLetters, Kafka};
use assayd::secret::Secret;
use assayd::ticket::Outcome;

use crate::support::{Brokers, Record, Source, settle, small};

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("ASSAYD_TEST_BROKERS_{name}")).ok()
}

fn login(mechanism: Mechanism) -> Option<SaslConfig> {
    let password = Secret::Env("ASSAYD_TEST_BROKERS_PASSWORD".into());
    Some(SaslConfig { mechanism, username: variable("USER")?, password })
}

fn tls() -> Option<TlsConfig> {
    Some(TlsConfig { ca: Some(variable("CA")?.into()), ..TlsConfig::default() })
}

/// Reads a record and sends a dead letter over `servers`; records are written in the clear.
async fn read_over(servers: Option<String>, sasl: Option<SaslConfig>, tls: Option<TlsConfig>) {
    let Some(servers) = servers else {
        eprintln!("no real brokers with login or encryption: not tested");
        return;
    };
    let brokers = Brokers::start();
    let (topic, dead) = (brokers.topic("spans", 1).await, brokers.topic("dead", 1).await);
    let group = brokers.unique("group");
    brokers.send(&topic, &[Record::new(0, small("s0")), Record::new(0, &b"junk"[..])]);
    let kafka = Kafka {
        brokers: vec![servers],
        sasl,
        tls,
        dead_letters: DeadLetters {
            topic: Some(dead.clone()),
            max_age: Period::seconds(60),
            ..Default::default()
        },
        ..brokers.source(&topic, &group)
    };
    let mut source = Source::start(&kafka);
    settle([source.next().await], Outcome::Done);
    brokers.wait_committed(&group, &topic, 1, |found| found == [Some(2)]).await;
    brokers.read_until(&dead, 1, |letters| !letters.is_empty());
    source.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_the_clear_lets_us_in() {
    read_over(variable("SASL"), login(Mechanism::Plain), None).await;
}

#[cfg_attr(not(feature = "kafka-tls"), ignore = "needs --features kafka-tls")]
#[tokio::test(flavor = "multi_thread")]
async fn scram_over_tls_lets_us_in() {
    read_over(variable("SASL_TLS"), login(Mechanism::ScramSha512), tls()).await;
}

#[cfg_attr(not(feature = "kafka-tls"), ignore = "needs --features kafka-tls")]
#[tokio::test(flavor = "multi_thread")]
async fn tls_alone_lets_us_in() {
    read_over(variable("TLS"), None, tls()).await;
}
