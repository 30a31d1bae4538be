//! A daemon that is killed again and again does not spend the judge's budget again and again.

use std::net::TcpListener;
use std::time::Duration;

use wiremock::MockServer;

use super::daemon::{Daemon, settings};
use super::judge::{Mood, asked, serve_judge};
use super::traffic::{Sender, trace};

/// One call is reserved at 1 USD and costs 1 USD: a prompt that costs nothing, and replies of as many tokens as are asked for.
const BUDGET: &str = "prices: { judge-large: { usd_per_million_input: 0, usd_per_million_output: 100000 } }, max_output_tokens: 10, usd_per_day: 5";

/// A judge that takes this money, and the section that names it.
async fn dear_judge() -> (MockServer, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let section = format!(
        "{{ openai: {{ url: 'http://{address}/v1', model: judge-large }}, cache: {{ max_bytes: 0B }}, {BUDGET} }}"
    );
    (serve_judge(listener, Mood::Sound).await, section)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_killed_again_and_again_stays_within_its_budget() {
    let (server, judge) = dear_judge().await;
    let folder = tempfile::tempdir().unwrap();
    // What the daemon does not get to evaluate is not given back to it: each life sees new traces only.
    let receive = "{ grpc: { listen: 127.0.0.1:0 }, http: null, acknowledge: admitted }";
    let sections = [("judge", judge.as_str()), ("decide", "{ min_confidence: 1.0 }"), ("receive", receive)];
    let settings = settings(folder.path(), &sections);
    let mut number = 0;
    for life in 0..4 {
        let daemon = Daemon::start(folder.path(), &settings);
        let mut sender = Sender::new(daemon.grpc());
        let before = asked(&server).await;
        for _ in 0..3 {
            sender.deliver(&trace(number).1).await;
            number += 1;
        }
        // Lives end as soon as the judge was asked, or when it can be asked no more.
        for _ in 0..100 {
            if asked(&server).await > before || before >= 5 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        daemon.kill();
        let all = asked(&server).await;
        assert!(all <= 5, "{all} calls of 1 USD in life {life}");
    }
    let all = asked(&server).await;
    assert!(all >= 2, "the judge was asked at all: {all}");

    // The next life knows it too, and says so.
    let daemon = Daemon::start(folder.path(), &settings);
    let kept = std::fs::read_to_string(folder.path().join("data/judge/budget.json")).unwrap();
    assert!(kept.contains("nano_usd"), "{kept}");
    let status = daemon.status().await;
    let spent = status["judge"]["budget"][0]["spent_usd"].as_f64().unwrap();
    assert!(spent >= all as f64 && spent <= 5.0, "{spent} of {all} calls");
    daemon.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_and_a_start_change_nothing_of_what_was_spent() {
    let (server, judge) = dear_judge().await;
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), &[("judge", &judge), ("decide", "{ min_confidence: 1.0 }")]);
    let daemon = Daemon::start(folder.path(), &settings);
    let mut sender = Sender::new(daemon.grpc());
    sender.deliver(&trace(1).1).await;
    for _ in 0..200 {
        if asked(&server).await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    daemon.terminate();
    let all = asked(&server).await;
    assert!(all > 0);
    let daemon = Daemon::start(folder.path(), &settings);
    let status = daemon.status().await;
    assert_eq!(status["judge"]["budget"][0]["spent_usd"].as_f64(), Some(all as f64));
    daemon.terminate();
}
