//! Holds `src/` to the plan of the house in `docs/design.md`: who may import whom, and what the lower floors may not know.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms and their floors. A room imports from floors below its own only.
const ROOMS: &[(&str, u8)] = &[
    ("main", 8),
    ("cli", 7),
    ("fuzzing", 6),
    ("evaluate", 6),
    ("pipeline", 5),
    ("config", 4),
    ("serve", 3),
    ("net", 2),
    ("disk", 2),
    ("receive", 2),
    ("relay", 2),
    ("spool", 2),
    ("decide", 2),
    ("judge", 2),
    ("emit", 2),
    ("feedback", 2),
    ("gsar", 2),
    ("otlp", 1),
    ("assemble", 1),
    ("convert", 1),
    ("ask", 1),
    ("score", 1),
    ("transcript", 1),
    ("measure", 1),
    ("redact", 1),
    ("metrics", 1),
    ("logging", 1),
    ("kafka", 1),
    ("secret", 0),
    ("domain", 0),
    ("ticket", 0),
    ("error", 0),
    ("find", 0),
];

/// What floors 0 and 1 may not name: they get `now` and bytes as arguments.
const OUTSIDE_WORLD: &[&str] = &[
    "tokio::",
    "std::net",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "reqwest::",
    "axum::",
];

/// The two files whose job is the outside world: secrets are read in one place, and logs go to standard error.
const MAY_TOUCH_THE_WORLD: &[&str] = &["secret", "logging"];

/// Rooms that any room may use whatever its floor.
const USED_BY_ALL: &[&str] = &["metrics"];

/// Rooms that the rooms beside them on their floor may use as well: connections, TLS and tokens, and a file that is replaced as a
/// whole, are not each one's own business.
const USED_BESIDE: &[&str] = &["net", "disk"];

#[test]
fn rooms_import_only_downward_and_only_through_the_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut problems = Vec::new();
    for file in rust_files(&root) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        problems.extend(inspect(&name, &text, &|room, inner| {
            root.join(room).join(format!("{inner}.rs")).exists() || root.join(room).join(inner).is_dir()
        }));
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn every_room_has_a_floor_and_every_floor_a_room() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name != "lib")
        .collect();
    found.sort();
    let mut planned: Vec<String> = ROOMS.iter().map(|(name, _)| (*name).to_owned()).collect();
    planned.sort();
    assert_eq!(found, planned);
}

/// A metric that nobody records would be a lie on the page of metrics.
#[test]
fn every_function_of_the_metrics_is_called() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let code = |file: &PathBuf| without_comments(without_tests(&fs::read_to_string(file).unwrap()));
    let files = rust_files(&root);
    let (own, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        files.iter().partition(|file| file.starts_with(root.join("metrics/catalogue")));
    let own: String = own.into_iter().map(code).collect();
    let others: String = others.into_iter().map(code).collect();
    let names: Vec<&str> =
        own.split("\npub fn ").skip(1).map(|rest| rest.split('(').next().unwrap()).collect();
    assert!(names.contains(&"process_started") && names.len() > 80, "{names:?}");
    let is_called = |name: &str| {
        // Its definition is one.
        others.contains(&format!("metrics::{name}(")) || own.matches(&format!(" {name}(")).count() > 1
    };
    let idle: Vec<&&str> = names.iter().filter(|name| !is_called(name)).collect();
    assert!(idle.is_empty(), "nobody calls {idle:?}");
}

#[test]
fn the_inspector_sees_what_it_should() {
    let is_file = |room: &str, inner: &str| room == "convert" && inner == "dialects";
    let upward = inspect("score/gsar.rs", "use crate::decide::Desk;\n", &is_file);
    assert!(upward[0].contains("floor"), "{upward:?}");
    let sideways = inspect("score/gsar.rs", "fn f() { crate::convert::story() }\n", &is_file);
    assert_eq!(sideways.len(), 1);
    let nested = inspect("score/gsar.rs", "use crate::{domain::Story, convert::Skip};\n", &is_file);
    assert_eq!(nested.len(), 1, "{nested:?}");
    let back_door = inspect("pipeline/assay.rs", "use crate::convert::dialects::OpenInference;\n", &is_file);
    assert!(back_door[0].contains("mod.rs"), "{back_door:?}");
    let clock = inspect("assemble/mod.rs", "let now = std::time::Instant::now();\n", &is_file);
    assert!(!clock.is_empty());
    assert!(inspect("otlp/tests.rs", "use std::fs;\n", &is_file).is_empty());
    let test_code = "fn a() {}\n#[cfg(test)]\nmod tests {\n use crate::pipeline::App;\n}\n";
    assert!(inspect("score/gsar.rs", test_code, &is_file).is_empty());
    assert!(
        inspect("score/gsar.rs", "use crate::metrics;\nuse crate::domain::Story;\n", &is_file).is_empty()
    );
}

/// Problems of one file; `is_file(room, inner)` says whether `inner` is a file or folder of `room` rather than an item of it.
fn inspect(name: &str, text: &str, is_file: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
    let floors: BTreeMap<&str, u8> = ROOMS.iter().copied().collect();
    let room = name.split(['/', '\\']).next().unwrap().trim_end_matches(".rs");
    if room == "lib" {
        return Vec::new();
    }
    let Some(floor) = floors.get(room) else { return vec![format!("{name}: no floor for this room")] };
    // A file of tests is what `mod tests` is at the end of another one.
    if Path::new(name).file_name().is_some_and(|file| file == "tests.rs") {
        return Vec::new();
    }
    let code = without_comments(without_tests(text));
    let mut problems = Vec::new();
    for path in crate_paths(&code) {
        let mut segments = path.split("::");
        let target = segments.next().unwrap_or_default();
        let Some(target_floor) = floors.get(target) else { continue };
        if target == room || USED_BY_ALL.contains(&target) {
            continue;
        }
        let is_beside = target_floor == floor && USED_BESIDE.contains(&target);
        if target_floor >= floor && !is_beside {
            problems.push(format!("{name}: floor {floor} imports crate::{path} of floor {target_floor}"));
        }
        let inner = segments.next().unwrap_or_default();
        if segments.next().is_some() && is_file(target, inner) {
            problems.push(format!("{name}: crate::{path} goes past the mod.rs of {target}"));
        }
    }
    if *floor <= 1 && !MAY_TOUCH_THE_WORLD.contains(&room) {
        let known = OUTSIDE_WORLD.iter().filter(|word| code.contains(**word));
        problems.extend(known.map(|word| format!("{name}: floor {floor} knows {word}")));
    }
    problems
}

/// All paths that begin with `crate::`, without that; braces are opened one level.
fn crate_paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut item = String::new();
            for letter in list.chars() {
                match letter {
                    '}' if depth == 0 => break,
                    ',' if depth == 0 => paths.push(std::mem::take(&mut item)),
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ if depth == 0 && !letter.is_whitespace() => item.push(letter),
                    _ => {}
                }
            }
            paths.push(item);
        } else {
            let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'));
            paths.push(rest[..end.unwrap_or(rest.len())].to_owned());
        }
    }
    paths
}

/// Tests stand last in a file; `mod tests;`, for those in a file of their own, may stand anywhere.
fn without_tests(code: &str) -> &str {
    code.split("#[cfg(test)]\nmod tests {").next().unwrap_or(code)
}

fn without_comments(code: &str) -> String {
    code.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
