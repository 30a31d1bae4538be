//! The documents hold together: every relative link leads to a file, and every anchor to a heading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Markdown files that are the project's own.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str())
            {
                open.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text without code, which holds brackets of other kinds.
fn prose(text: &str) -> String {
    let fenced: String = text.split("```").step_by(2).collect();
    fenced.lines().map(|line| line.split('`').step_by(2).collect::<String>() + "\n").collect()
}

/// Where `](…)` leads to.
fn links(prose: &str) -> Vec<String> {
    let ends = prose.split("](").skip(1);
    ends.filter_map(|rest| Some(rest.split_once(')')?.0.split_whitespace().next()?.to_owned())).collect()
}

/// The anchors of headings, as they are made where Markdown is shown: lower case, letters, digits, `-` and `_`, blanks as
/// hyphens, numbered when they repeat.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    let unfenced: String = text.split("```").step_by(2).collect();
    for line in unfenced.lines().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim();
        let anchor: String = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let times = seen.entry(anchor.clone()).or_default();
        found.insert(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
        *times += 1;
    }
    found
}

/// Without `.` and `..`, so that a link cannot leave the repository unseen.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// What is wrong with a link in a document, if anything.
fn problem(document: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target =
        if path.is_empty() { document.to_owned() } else { plain(&document.parent().unwrap().join(path)) };
    if !target.starts_with(root()) || !target.exists() {
        return Some(format!("there is no {}", target.display()));
    }
    let anchor = anchor?;
    let text = std::fs::read_to_string(&target).unwrap_or_default();
    (!anchors(&text).contains(anchor)).then(|| format!("{} has no heading for #{anchor}", target.display()))
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in links(&prose(&text)) {
            seen += 1;
            let problem = problem(&document, &link);
            wrong.extend(problem.map(|problem| format!("{}: {link}: {problem}", document.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 50, "only {seen} links were found");
}

#[test]
fn the_index_in_the_readme_names_every_page() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let linked: BTreeSet<PathBuf> = links(&prose(&readme)).iter().map(|link| root().join(link)).collect();
    let pages = documents().into_iter().filter(|path| path.parent() == Some(&root().join("docs")));
    let missing: Vec<PathBuf> = pages.filter(|page| !linked.contains(page)).collect();
    assert!(missing.is_empty(), "not in the README: {missing:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let readme = root().join("README.md");
    assert!(problem(&readme, "docs/no-such-page.md").is_some());
    assert!(problem(&readme, "docs/guide.md#no-such-heading").is_some());
    assert!(problem(&readme, "../outside.md").is_some());
    assert_eq!(problem(&readme, "docs/guide.md#run-it"), None);
    assert_eq!(problem(&readme, "https://example.org/nothing#here"), None);
    assert_eq!(
        links(&prose("[a](b.md#c \"title\") `[x](y)`\n```\n[no](no.md)\n```\n![i](i.png)")),
        ["b.md#c", "i.png"]
    );
    let twice = anchors("# A `b`, c!\n## A b c\n# A b c\n```\n# no\n```\n");
    assert_eq!(twice.into_iter().collect::<Vec<_>>(), ["a-b-c", "a-b-c-1", "a-b-c-2"]);
}
