//! The process is killed, or frozen.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::daemon::{Daemon, settings};
use super::traffic::{
    Heard, Sender, all_have_verdicts, each_has_one_verdict, halves, repeats_agree, trace, traces_of, written,
};

async fn survive(kills: u32) {
    let folder = tempfile::tempdir().unwrap();
    // So long that what is replayed comes together again on any machine.
    let settings = settings(folder.path(), &[("assemble", "{ root_grace: 100ms, idle: 3s }")]);
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    let mut seed = 0x2545_f491_u32;
    for round in 0..kills {
        let daemon = Daemon::start(folder.path(), &settings);
        // Not random, but spread: the kill meets sending, assembling, evaluating and writing.
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        let until = Instant::now() + Duration::from_millis(u64::from(seed % 1200));
        let mut sender = Sender::new(daemon.grpc());
        loop {
            number += 1;
            let (id, requests) = if number % 3 == 0 {
                let (id, halves) = halves(number);
                (id, halves.to_vec())
            } else {
                let (id, request) = trace(number);
                (id, vec![request])
            };
            for request in requests {
                if sender.send(request).await == Heard::Acknowledged {
                    acknowledged.insert(id.clone());
                }
            }
            if Instant::now() >= until {
                break;
            }
        }
        daemon.kill();
        println!("kill {} of {kills}: {} traces acknowledged so far", round + 1, acknowledged.len());
    }
    let daemon = Daemon::start(folder.path(), &settings);
    let verdicts = all_have_verdicts(folder.path(), &acknowledged).await;
    daemon.terminate();
    assert!(acknowledged.len() > kills as usize, "the test sent too little to mean anything");
    let repeated = verdicts.len().saturating_sub(acknowledged.len());
    println!("{} traces acknowledged, {} verdicts ({repeated} repeated)", acknowledged.len(), verdicts.len());
    each_has_one_verdict(&verdicts);
}

#[tokio::test]
async fn what_was_acknowledged_has_a_verdict_after_a_kill() {
    survive(3).await;
}

#[tokio::test]
#[ignore = "minutes; run it before a release"]
async fn what_was_acknowledged_has_a_verdict_after_fifty_kills() {
    survive(50).await;
}

/// Sends while the daemon is frozen again and again; senders give up waiting and send the same again.
async fn thaw(freezes: u32) {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &[]));
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    for _ in 0..freezes {
        let mut sender = Sender::hasty(daemon.grpc(), Duration::from_millis(300));
        let mut give_up = Vec::new();
        for _ in 0..5 {
            number += 1;
            let (id, request) = trace(number);
            sender.deliver(&request).await;
            acknowledged.insert(id);
        }
        daemon.signal("STOP");
        for _ in 0..4 {
            number += 1;
            let (id, request) = trace(number);
            assert_eq!(sender.send(request.clone()).await, Heard::Nothing, "a frozen daemon answers nothing");
            give_up.push((id, request));
        }
        daemon.signal("CONT");
        // What it may have read while nobody waited is sent again, as exporters do.
        for (id, request) in give_up {
            sender.deliver(&request).await;
            acknowledged.insert(id);
        }
    }
    let verdicts = all_have_verdicts(folder.path(), &acknowledged).await;
    assert!(daemon.is_ready().await);
    daemon.terminate();
    repeats_agree(&verdicts);
}

#[tokio::test]
async fn a_daemon_that_is_frozen_and_thawed_goes_on_and_loses_nothing() {
    thaw(2).await;
}

#[tokio::test]
#[ignore = "minutes; run it before a release"]
async fn a_daemon_that_is_frozen_fifty_times_loses_nothing() {
    thaw(50).await;
}

/// A client whose connection is open, idle, and never looked at again: its process is frozen, or its network is gone.
#[test]
fn a_client_that_does_not_let_go_does_not_keep_the_daemon_from_stopping_well() {
    let folder = tempfile::tempdir().unwrap();
    let sections = [
        ("receive", "{ grpc: { listen: 127.0.0.1:0 }, http: null, acknowledge: admitted }"),
        ("assemble", "{ root_grace: 10m, idle: 10m }"),
    ];
    let daemon = Daemon::start(folder.path(), &settings(folder.path(), &sections));
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut sender = Sender::new(daemon.grpc());
    let (id, request) = trace(0);
    client.block_on(sender.deliver(&request));
    // From here on nobody drives the client.
    daemon.terminate();
    let verdicts = written(folder.path());
    assert_eq!(traces_of(&verdicts), BTreeSet::from([id]), "an open trace gets its verdict at a clean stop");
    drop((sender, client));
}
