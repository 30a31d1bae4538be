//! The spool with real files, processes and kills.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use assayd::domain::ByteSize;
use assayd::spool::{Config, Recovery, Replay, Spool, SpoolError, SpoolId};
use bytes::Bytes;

fn small() -> Config {
    Config { max_bytes: ByteSize::mib(4), segment_bytes: ByteSize(64 << 10) }
}

fn open(path: &Path) -> (Spool, Replay) {
    Spool::open(path, &small()).unwrap()
}

async fn append(spool: &Spool, text: &str) -> SpoolId {
    spool.append(7, Bytes::copy_from_slice(text.as_bytes())).await.unwrap()
}

/// What a process that starts now would replay, without touching the original.
async fn replayed(path: &Path) -> (Vec<String>, Recovery) {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(path).unwrap() {
        let file = file.unwrap().path();
        std::fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    let (_spool, mut replay) = open(copy.path());
    let mut texts = Vec::new();
    while let Some(entry) = replay.next().await {
        let (_, entry) = entry.unwrap();
        assert_eq!(entry.kind, 7);
        texts.push(String::from_utf8(entry.bytes.to_vec()).unwrap());
    }
    (texts, replay.recovery().clone())
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    let mut segments: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "spool")).collect();
    segments.sort();
    segments
}

#[tokio::test]
async fn what_is_appended_is_replayed_in_order_until_it_is_settled() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, replay) = open(folder.path());
    assert_eq!(replay.recovery(), &Recovery::default());
    let one = append(&spool, "one").await;
    let _two = append(&spool, "two").await;
    let _three = append(&spool, "three").await;
    assert_eq!(spool.read(&one).unwrap().bytes, "one");
    assert_eq!(replayed(folder.path()).await.0, ["one", "two", "three"]);
    spool.settled(one);
    spool.close().await;
    assert_eq!(replayed(folder.path()).await.0, ["two", "three"]);
}

#[tokio::test]
async fn shares_that_are_settled_outlive_the_segments_in_which_that_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    let long = append(&spool, "long").await;
    let settle = spool.share_settler(&long);
    // The notes come to stand in a later segment, which then goes.
    for round in 0..50 {
        if round == 10 {
            [7, 9].into_iter().for_each(&settle);
        }
        let id = append(&spool, &"x".repeat(10_000)).await;
        spool.settled(id);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = append(&spool, "last").await;
    spool.settled(id);
    assert!(segments(folder.path()).len() < 5, "segments that are done go");
    spool.close().await;
    drop((spool, settle));
    let (_spool, mut replay) = open(folder.path());
    let (id, entry) = replay.next().await.unwrap().unwrap();
    let mut shares = replay.shares(&id);
    shares.sort_unstable();
    assert_eq!((&entry.bytes[..], shares), (&b"long"[..], vec![7, 9]));
    assert!(replay.next().await.is_none());
}

#[tokio::test]
async fn a_replayed_entry_can_be_settled_and_a_spool_without_live_entries_leaves_no_segments() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    append(&spool, "left over").await;
    spool.close().await;
    drop(spool);
    let (spool, mut replay) = open(folder.path());
    let (id, entry) = replay.next().await.unwrap().unwrap();
    assert_eq!(entry.bytes, "left over");
    assert!(replay.next().await.is_none());
    spool.settled(id);
    spool.close().await;
    assert!(segments(folder.path()).is_empty());
    assert!(matches!(spool.append(7, Bytes::new()).await, Err(SpoolError::Closed)));
}

#[tokio::test]
async fn many_callers_share_few_syncs_and_get_their_own_entries() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    let appends = (0..300).map(|number| {
        let spool = spool.clone();
        async move { (number, append(&spool, &format!("entry {number} {}", "x".repeat(number))).await) }
    });
    for (number, id) in futures::future::join_all(appends).await {
        let entry = spool.read(&id).unwrap();
        assert!(entry.bytes.starts_with(format!("entry {number} ").as_bytes()));
        spool.settled(id);
    }
    spool.close().await;
    assert!(segments(folder.path()).is_empty());
}

#[tokio::test]
async fn a_full_spool_refuses_and_takes_again_when_something_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    let chunk = Bytes::from(vec![1; 64 << 10]);
    let mut ids = Vec::new();
    let error = loop {
        match spool.append(7, chunk.clone()).await {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert_eq!(error, SpoolError::Full { max_bytes: ByteSize::mib(4) });
    assert!(ids.len() > 60 && spool.used() <= ByteSize::mib(4), "{} {}", ids.len(), spool.used());
    ids.into_iter().for_each(|id| spool.settled(id));
    while spool.append(7, chunk.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let too_large = spool.append(7, Bytes::from(vec![0; 5 << 20])).await.unwrap_err();
    assert!(matches!(too_large, SpoolError::TooLarge { .. }));
}

#[tokio::test]
async fn a_caller_that_goes_away_gives_its_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    for _ in 0..500 {
        let append = spool.append(7, Bytes::from(vec![1; 60 << 10]));
        if let Ok(Ok(id)) = tokio::time::timeout(Duration::ZERO, append).await {
            spool.settled(id);
        }
    }
    let _last = append_when_there_is_room(&spool, 60 << 10).await;
    spool.close().await;
    assert_eq!(replayed(folder.path()).await.0.len(), 1);
}

async fn append_when_there_is_room(spool: &Spool, size: usize) -> SpoolId {
    loop {
        match spool.append(7, Bytes::from(vec![b'x'; size])).await {
            Ok(id) => return id,
            Err(SpoolError::Full { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_spool, _) = open(folder.path());
    assert!(matches!(Spool::open(folder.path(), &small()), Err(SpoolError::InUse { .. })));
}

#[tokio::test]
async fn a_torn_end_loses_nothing_that_was_acknowledged_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    let _id = append(&spool, "acknowledged").await;
    spool.close().await;
    let segment = &segments(folder.path())[0];
    let mut bytes = std::fs::read(segment).unwrap();
    let whole = bytes.len();
    bytes.extend_from_within(32..whole - 3);
    std::fs::write(segment, &bytes).unwrap();
    let (texts, recovery) = replayed(folder.path()).await;
    assert_eq!(texts, ["acknowledged"]);
    assert_eq!((recovery.torn_bytes, recovery.damaged_places), ((bytes.len() - whole) as u64, 0));
}

#[tokio::test]
async fn damage_in_the_middle_costs_that_entry_only_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    for text in ["first", "in the middle", "last"] {
        append(&spool, text).await;
    }
    spool.close().await;
    let segment = &segments(folder.path())[0];
    let mut bytes = std::fs::read(segment).unwrap();
    let at = bytes.windows(6).position(|window| window == b"middle").unwrap();
    bytes[at] ^= 1;
    std::fs::write(segment, &bytes).unwrap();
    let (texts, recovery) = replayed(folder.path()).await;
    assert_eq!(texts, ["first", "last"]);
    assert_eq!((recovery.damaged_places, recovery.damaged_bytes, recovery.torn_bytes), (1, 24 + 13, 0));
}

#[tokio::test]
async fn a_segment_without_its_header_is_set_aside_and_the_others_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    let large = "x".repeat(64 << 10);
    append(&spool, &large).await;
    append(&spool, "second segment").await;
    spool.close().await;
    drop(spool);
    let broken = &segments(folder.path())[0];
    let mut bytes = std::fs::read(broken).unwrap();
    bytes[10] ^= 1;
    std::fs::write(broken, &bytes).unwrap();
    let (_spool, mut replay) = open(folder.path());
    assert_eq!((replay.recovery().damaged_places, replay.recovery().entries), (1, 1));
    assert_eq!(replay.next().await.unwrap().unwrap().1.bytes, "second segment");
    assert!(broken.with_extension("damaged").exists() && !broken.exists());
}

/// Not a test: the process that the next test kills. Appends, settles every second entry, and says what it did.
#[tokio::test]
#[ignore = "the child process of the test below"]
async fn child() {
    let Ok(path) = std::env::var("ASSAYD_TEST_SPOOL") else { return };
    let (spool, mut replay) = open(Path::new(&path));
    while let Some(entry) = replay.next().await {
        spool.settled(entry.unwrap().0);
    }
    let writers = (0..8_u64).map(|writer| {
        let spool = spool.clone();
        async move {
            for number in 0..u64::MAX {
                let text = format!("{writer}-{number} {}", "x".repeat((number % 50) as usize * 40));
                let id = append_text(&spool, &text).await;
                say(&format!("stored {writer}-{number}"));
                if number % 2 == 0 {
                    say(&format!("settling {writer}-{number}"));
                    spool.settled(id);
                }
            }
        }
    });
    futures::future::join_all(writers).await;
}

async fn append_text(spool: &Spool, text: &str) -> SpoolId {
    loop {
        match spool.append(7, Bytes::copy_from_slice(text.as_bytes())).await {
            Ok(id) => return id,
            Err(SpoolError::Full { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_acknowledged() {
    for round in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child", "--nocapture"])
            .env("ASSAYD_TEST_SPOOL", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        // true: stored and not settled; false: perhaps settled.
        let mut stored = BTreeMap::new();
        let mut note = |line: String| match line.split_once(' ') {
            Some(("stored", id)) => drop(stored.insert(id.to_owned(), true)),
            Some(("settling", id)) => drop(stored.insert(id.to_owned(), false)),
            _ => {}
        };
        lines.by_ref().take(200 + round * 150).for_each(&mut note);
        process.kill().unwrap();
        lines.for_each(&mut note);
        process.wait().unwrap();
        let (texts, recovery) = replayed(folder.path()).await;
        assert_eq!(recovery.damaged_places, 0);
        let found: BTreeMap<&str, usize> =
            texts.iter().filter_map(|text| text.split(' ').next()).map(|id| (id, 1)).collect();
        assert_eq!(found.len(), texts.len(), "nothing is replayed twice");
        for (id, live) in &stored {
            assert!(!live || found.contains_key(id.as_str()), "round {round}: {id} is lost");
        }
        assert!(stored.len() > 50);
    }
}
