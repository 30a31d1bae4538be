//! The disk is full. On a small file system in memory, which only root can mount: elsewhere these tests say so and pass.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::daemon::{Daemon, PATIENCE, settings};
use super::traffic::{Heard, Sender, all_have_verdicts, heavy, repeats_agree, trace, traces_of, written};

/// A file system of so many MiB; unmounted when dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={mebibytes}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { folder }),
            Ok(output) => {
                println!(
                    "SKIPPED: no tmpfs can be mounted here: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                None
            }
            Err(error) => {
                println!("SKIPPED: no tmpfs can be mounted here: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes all the space that is left.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("filler");
        let mut file = File::create(&path).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_under_the_spool_refuses_and_takes_again_when_there_is_space() {
    let Some(disk) = SmallDisk::mount(8) else { return };
    let folder = tempfile::tempdir().unwrap();
    let data_dir = format!("{}/data", disk.path().display());
    let settings = settings(folder.path(), &[("data_dir", &data_dir)]);
    let daemon = Daemon::start(folder.path(), &settings);
    let mut sender = Sender::new(daemon.grpc());
    let mut acknowledged = BTreeSet::new();
    let mut number = 0..;
    let mut next = || heavy(number.next().unwrap(), 60_000);
    for _ in 0..5 {
        let (id, request) = next();
        sender.deliver(&request).await;
        acknowledged.insert(id);
    }

    let filler = disk.fill();
    let (mut refused, mut passed) = (0, 0);
    while refused < 5 {
        let (id, request) = next();
        match sender.send(request).await {
            // The segment may have a little room in blocks that it has already.
            Heard::Acknowledged => {
                acknowledged.insert(id);
                passed += 1;
            }
            Heard::Refused { code, come_back } => {
                assert_eq!(
                    (code, come_back),
                    (tonic::Code::Unavailable, true),
                    "senders must keep it and come back"
                );
                refused += 1;
            }
            Heard::Nothing => panic!("no answer; the log:\n{}", daemon.log()),
        }
        assert!(passed < 100, "the disk is not full");
    }
    assert!(daemon.metric("assayd_receive_refused_total", "not_stored").await >= 5.0);

    std::fs::remove_file(filler).unwrap();
    for _ in 0..5 {
        let (id, request) = next();
        sender.deliver(&request).await;
        acknowledged.insert(id);
    }
    let verdicts = all_have_verdicts(folder.path(), &acknowledged).await;
    daemon.terminate();
    repeats_agree(&verdicts);
}

#[tokio::test]
async fn a_full_disk_under_the_verdicts_holds_them_back_and_a_kill_then_loses_none() {
    let Some(disk) = SmallDisk::mount(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let emit = format!(
        "{{ jsonl: {{ path: {}/verdicts.jsonl }}, retry: {{ first: 50ms, longest: 500ms }} }}",
        disk.path().display()
    );
    let settings = settings(folder.path(), &[("emit", &emit)]);
    let daemon = Daemon::start(folder.path(), &settings);
    let mut sender = Sender::new(daemon.grpc());
    let mut acknowledged = BTreeSet::new();
    for number in 0..3 {
        let (id, request) = trace(number);
        sender.deliver(&request).await;
        acknowledged.insert(id);
    }
    all_have_verdicts(disk.path(), &acknowledged).await;
    let filler = disk.fill();
    for number in 3..8 {
        let (id, request) = trace(number);
        sender.deliver(&request).await;
        acknowledged.insert(id);
    }
    let deadline = Instant::now() + PATIENCE;
    while daemon.metric("assayd_emit_writes_total", "retried").await == 0.0 {
        assert!(Instant::now() < deadline, "nothing was tried; the log:\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(traces_of(&written(disk.path())).len() < acknowledged.len(), "the disk is not full");
    daemon.kill();

    // It starts on the full disk, too, and finishes when there is space.
    let daemon = Daemon::start(folder.path(), &settings);
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::remove_file(filler).unwrap();
    let verdicts = all_have_verdicts(disk.path(), &acknowledged).await;
    daemon.terminate();
    repeats_agree(&verdicts);
}
