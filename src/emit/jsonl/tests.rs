//! On a real file system.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::domain::{ByteSize, Period};
use crate::emit::config::RotateConfig;
use crate::emit::sample;

fn config(folder: &tempfile::TempDir, rotate: RotateConfig) -> JsonlConfig {
    JsonlConfig { path: folder.path().join("out/verdicts.jsonl"), fsync: Fsync::Always, rotate }
}

fn never() -> RotateConfig {
    RotateConfig { max_bytes: None, max_age: None, keep: None }
}

fn verdicts(path: &Path) -> Vec<Verdict> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn verdicts_are_appended_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..3 {
        let sink = Jsonl::open(config(&folder, never())).unwrap();
        sink.write(&sample::numbered(number)).await.unwrap();
    }
    assert_eq!(verdicts(&folder.path().join("out/verdicts.jsonl")), [0, 1, 2].map(sample::numbered));
}

#[tokio::test]
async fn verdicts_written_at_once_all_arrive_whole() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Jsonl::open(config(&folder, never())).unwrap();
    let writes = (0..200).map(|number| {
        let sink = &sink;
        async move { sink.write(&sample::numbered(number)).await }
    });
    assert!(futures::future::join_all(writes).await.iter().all(Result::is_ok));
    let mut found: Vec<String> = verdicts(&folder.path().join("out/verdicts.jsonl"))
        .into_iter()
        .map(|verdict| verdict.verdict_id)
        .collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 200);
}

#[test]
fn files_stay_below_the_size_and_the_oldest_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let one = line(&sample::numbered(0)).len() as u64;
    let rotate =
        RotateConfig { max_bytes: Some(ByteSize(one * 2 + 10)), max_age: None, keep: NonZeroUsize::new(2) };
    let mut file = JsonlFile::open(config(&folder, rotate)).unwrap();
    let lines: Vec<Vec<u8>> = (0..9).map(|number| line(&sample::numbered(number))).collect();
    file.append(&lines[..5]).unwrap();
    file.append(&lines[5..]).unwrap();
    assert_eq!(names(&folder), ["verdicts.000003.jsonl", "verdicts.000004.jsonl", "verdicts.jsonl"]);
    let out = folder.path().join("out");
    assert_eq!(verdicts(&out.join("verdicts.000003.jsonl")), [4, 5].map(sample::numbered));
    assert_eq!(verdicts(&out.join("verdicts.000004.jsonl")), [6, 7].map(sample::numbered));
    assert_eq!(verdicts(&out.join("verdicts.jsonl")), [8].map(sample::numbered));
}

#[test]
fn a_verdict_above_the_size_has_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let rotate = RotateConfig { max_bytes: Some(ByteSize(10)), max_age: None, keep: None };
    let mut file = JsonlFile::open(config(&folder, rotate)).unwrap();
    let lines: Vec<Vec<u8>> = (0..2).map(|number| line(&sample::numbered(number))).collect();
    file.append(&lines).unwrap();
    assert_eq!(names(&folder), ["verdicts.000001.jsonl", "verdicts.jsonl"]);
    assert_eq!(verdicts(&folder.path().join("out/verdicts.jsonl")), [sample::numbered(1)]);
}

#[test]
fn an_old_file_is_set_aside_at_the_next_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let rotate = RotateConfig { max_bytes: None, max_age: Some(Period::seconds(3600)), keep: None };
    let mut file = JsonlFile::open(config(&folder, rotate)).unwrap();
    let start = SystemTime::now();
    file.append_at(start, &[line(&sample::numbered(0))]).unwrap();
    file.append_at(start + Duration::from_secs(3000), &[line(&sample::numbered(1))]).unwrap();
    assert_eq!(names(&folder), ["verdicts.jsonl"]);
    file.append_at(start + Duration::from_secs(7200), &[line(&sample::numbered(2))]).unwrap();
    file.append_at(start + Duration::from_secs(7300), &[line(&sample::numbered(3))]).unwrap();
    assert_eq!(names(&folder), ["verdicts.000001.jsonl", "verdicts.jsonl"]);
    assert_eq!(verdicts(&folder.path().join("out/verdicts.jsonl")), [2, 3].map(sample::numbered));
}

#[test]
fn half_a_line_of_a_crash_is_cut_off_and_a_whole_one_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(&folder, never());
    fs::create_dir_all(settings.path.parent().unwrap()).unwrap();
    let whole = String::from_utf8(line(&sample::numbered(0))).unwrap();

    fs::write(&settings.path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    let mut file = JsonlFile::open(settings.clone()).unwrap();
    file.append(&[line(&sample::numbered(1))]).unwrap();
    drop(file);
    assert_eq!(verdicts(&settings.path), [0, 1].map(sample::numbered));

    fs::write(&settings.path, format!("{whole}{}", whole.trim_end())).unwrap();
    let mut file = JsonlFile::open(settings.clone()).unwrap();
    file.append(&[line(&sample::numbered(1))]).unwrap();
    assert_eq!(verdicts(&settings.path), [0, 0, 1].map(sample::numbered));
}

#[test]
fn a_long_torn_line_is_found_across_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(&folder, never());
    fs::create_dir_all(settings.path.parent().unwrap()).unwrap();
    fs::write(&settings.path, format!("{{}}\n{{\"a\":\"{}", "x".repeat(300_000))).unwrap();
    let file = JsonlFile::open(settings.clone()).unwrap();
    assert_eq!(file.length, 3);
    assert_eq!(fs::read_to_string(&settings.path).unwrap(), "{}\n");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn wherever_a_crash_cuts_the_file_all_whole_lines_stay_and_nothing_else(cut in 0usize..6_000) {
        let folder = tempfile::tempdir().unwrap();
        let settings = config(&folder, never());
        fs::create_dir_all(settings.path.parent().unwrap()).unwrap();
        let all: Vec<u8> = (0..3).flat_map(|number| line(&sample::numbered(number))).collect();
        let left = &all[..cut.min(all.len())];
        fs::write(&settings.path, left).unwrap();
        let mut file = JsonlFile::open(settings.clone()).unwrap();
        file.append(&[line(&sample::numbered(9))]).unwrap();
        let one = line(&sample::numbered(0)).len();
        // A line that lacks only its newline is whole.
        let whole = (left.len() + 1) / one;
        let expected: Vec<Verdict> = (0..whole as u64).chain([9]).map(sample::numbered).collect();
        proptest::prop_assert_eq!(verdicts(&settings.path), expected);
    }
}

#[test]
fn pipes_and_devices_are_refused() {
    let device = JsonlConfig { path: "/dev/null".into(), ..JsonlConfig::default() };
    let error = Jsonl::open(device).err().unwrap();
    assert!(error.message.contains("not a regular file"), "{error}");
}

#[test]
fn a_second_writer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Jsonl::open(config(&folder, never())).unwrap();
    let error = Jsonl::open(config(&folder, never())).err().unwrap();
    assert_eq!(error.fault, Fault::Fatal);
    assert!(error.message.contains("another process"), "{error}");
}

#[test]
fn a_file_that_somebody_moved_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(&folder, never());
    let mut file = JsonlFile::open(settings.clone()).unwrap();
    file.append(&[line(&sample::numbered(0))]).unwrap();
    let moved = settings.path.with_file_name("moved");
    fs::rename(&settings.path, &moved).unwrap();
    file.append(&[line(&sample::numbered(1))]).unwrap();
    assert_eq!(verdicts(&moved), [sample::numbered(0)]);
    assert_eq!(verdicts(&settings.path), [sample::numbered(1)]);
}

#[test]
fn a_failed_write_leaves_no_half_line_behind() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(&folder, never());
    let mut file = JsonlFile::open(settings.clone()).unwrap();
    file.append(&[line(&sample::numbered(0))]).unwrap();
    // As after a write that a full disk cut short: bytes behind the last whole line, and a handle that cannot write.
    let mut torn = OpenOptions::new().append(true).open(&settings.path).unwrap();
    torn.write_all(b"{\"schema\":1,\"ver").unwrap();
    file.file = File::open(&settings.path).unwrap();
    assert!(file.append(&[line(&sample::numbered(1))]).is_err());
    assert!(file.suspect);
    file.append(&[line(&sample::numbered(1))]).unwrap();
    assert_eq!(verdicts(&settings.path), [0, 1].map(sample::numbered));
}
