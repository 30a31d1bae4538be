//! What `deploy/` ships holds together with the code: configurations load, rules and dashboard name metrics that exist, every
//! alert has a page and is tested both ways, and nothing runs with more rights than it needs. The files' own tools are run by
//! `tests/deploy/validate.sh`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use assayd::config;
use assayd::metrics::{self, Metric, Values};
use serde_json::Value;

/// Labels that Prometheus adds to what it scrapes, or to alerts.
const TARGET_LABELS: [&str; 5] = ["instance", "job", "le", "alertname", "alertstate"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All documents of a file.
fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let parts = text.split("\n---\n").filter(|part| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    parts
        .map(|part| {
            serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        })
        .collect()
}

fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, wanted));
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn every_configuration_that_is_shipped_loads() {
    let shipped = files(&root().join("deploy"), &|path| {
        path.file_name().is_some_and(|n| {
            let name = n.to_string_lossy();
            name.starts_with("assayd")
                && name.ends_with(".yaml")
                && !name.contains(".rules.")
                && !name.contains(".alerts.")
        })
    });
    assert!(shipped.len() >= 3, "{shipped:?}");
    for path in shipped {
        let text = fs::read_to_string(&path).unwrap();
        let loaded =
            config::parse(&text, &path.display().to_string()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.problems(), Vec::<String>::new(), "{}", path.display());
    }
}

// ---- rules and dashboard against the catalogue

/// A selector of an expression: the metric and its matchers as (label, operator, value).
#[derive(Debug)]
struct Selector {
    metric: String,
    matchers: Vec<(String, String, String)>,
}

/// The selectors of a PromQL expression, and the labels that it groups or joins by.
fn selectors(expression: &str) -> (Vec<Selector>, BTreeSet<String>) {
    let mut found = Vec::new();
    let mut labels = BTreeSet::new();
    let letters: Vec<char> = expression.chars().collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut at = 0;
    while at < letters.len() {
        if letters[at] == '"' {
            at += 1;
            while at < letters.len() && letters[at] != '"' {
                at += 1;
            }
            at += 1;
            continue;
        }
        if !(letters[at].is_ascii_alphabetic() || letters[at] == '_') {
            at += 1;
            continue;
        }
        let start = at;
        while at < letters.len() && is_name(letters[at]) {
            at += 1;
        }
        let name: String = letters[start..at].iter().collect();
        let mut next = at;
        while next < letters.len() && letters[next].is_whitespace() {
            next += 1;
        }
        if ["by", "on", "without", "ignoring", "group_left", "group_right"].contains(&name.as_str()) {
            if letters.get(next) == Some(&'(') {
                let end = next + letters[next..].iter().position(|c| *c == ')').unwrap();
                let inside: String = letters[next + 1..end].iter().collect();
                labels
                    .extend(inside.split(',').map(|label| label.trim().to_owned()).filter(|l| !l.is_empty()));
                at = end;
            }
            continue;
        }
        if !name.contains("assayd") && name != "up" {
            continue;
        }
        let mut matchers = Vec::new();
        if letters.get(at) == Some(&'{') {
            let mut inside = String::new();
            let mut quoted = false;
            at += 1;
            while quoted || letters[at] != '}' {
                quoted ^= letters[at] == '"';
                inside.push(letters[at]);
                at += 1;
            }
            for matcher in split_outside_quotes(&inside) {
                let sign = matcher.find(['=', '!']).unwrap_or_else(|| panic!("{matcher} in {expression}"));
                let (label, rest) = matcher.split_at(sign);
                let value = rest.find('"').unwrap();
                matchers.push((
                    label.trim().to_owned(),
                    rest[..value].to_owned(),
                    rest[value..].trim_matches('"').to_owned(),
                ));
            }
        }
        found.push(Selector { metric: name, matchers });
    }
    (found, labels)
}

fn split_outside_quotes(inside: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for letter in inside.chars() {
        quoted ^= letter == '"';
        match letter {
            ',' if !quoted => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(letter),
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn metric(name: &str) -> Option<&'static Metric> {
    let histogram = |metric: &&Metric| {
        ["_bucket", "_sum", "_count"]
            .iter()
            .any(|part| metric.kind.as_str() == "histogram" && name.strip_suffix(part) == Some(metric.name))
    };
    metrics::all()
        .find(|metric| metric.name == name && metric.kind.as_str() != "histogram" || histogram(metric))
}

/// What an expression says that the catalogue, or the recorded rules, do not know.
fn strangers(expression: &str, recorded: &BTreeSet<String>) -> Vec<String> {
    let (found, grouped) = selectors(expression);
    let mut problems = Vec::new();
    let mut known: BTreeSet<&str> = TARGET_LABELS.into();
    for Selector { metric: name, matchers } in &found {
        if name == "up" {
            continue;
        }
        if name.contains(':') {
            if !recorded.contains(name) {
                problems.push(format!("{name} is not recorded"));
            }
            // service_agent:… carries the labels that its level names.
            known.extend(["service", "agent", "tier", "question", "provider"]);
            known.extend(["model", "service_version", "prompt_version"]);
            continue;
        }
        let Some(metric) = metric(name) else {
            problems.push(format!("there is no metric {name}"));
            continue;
        };
        known.extend(metric.labels.iter().map(|label| label.name));
        for (label, operator, value) in matchers {
            let Some(declared) = metric.labels.iter().find(|known| known.name == label) else {
                if !TARGET_LABELS.contains(&label.as_str()) {
                    problems.push(format!("{name} has no label {label}"));
                }
                continue;
            };
            let values: Vec<&str> =
                if operator.contains('~') { value.split('|').collect() } else { vec![value.as_str()] };
            if let Values::Closed(allowed) = declared.values {
                let strange =
                    values.into_iter().filter(|value| !value.contains('$') && !allowed.contains(value));
                problems.extend(strange.map(|value| format!("{name} never has {label} {value:?}")));
            }
        }
    }
    problems.extend(
        grouped
            .iter()
            .filter(|label| !known.contains(label.as_str()))
            .map(|label| format!("no metric here has the label {label}")),
    );
    problems.iter().map(|problem| format!("{problem}: {expression}")).collect()
}

fn rules(path: &str) -> Vec<Value> {
    items(&yaml(path), "groups")
        .flat_map(|group| items(group, "rules").cloned().collect::<Vec<_>>())
        .collect()
}

const RECORDED: &str = "deploy/prometheus/assayd.rules.yaml";
const ALERTS: &str = "deploy/prometheus/assayd.alerts.yaml";

fn recorded() -> BTreeSet<String> {
    rules(RECORDED).iter().map(|rule| text(rule, "record").to_owned()).collect()
}

#[test]
fn rules_name_only_metrics_and_labels_that_exist() {
    let recorded = recorded();
    let all: Vec<Value> = rules(RECORDED).into_iter().chain(rules(ALERTS)).collect();
    assert!(all.len() > 40);
    let problems: Vec<String> =
        all.iter().flat_map(|rule| strangers(text(rule, "expr"), &recorded)).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn the_dashboard_names_only_metrics_and_labels_that_exist() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/assayd.json")).unwrap();
    let recorded = recorded();
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    let mut queries = 0;
    for panel in items(&dashboard, "panels") {
        assert!(ids.insert(panel["id"].to_string()), "two panels have the id {}", panel["id"]);
        for target in items(panel, "targets") {
            queries += 1;
            problems.extend(strangers(text(target, "expr"), &recorded));
        }
        if text(panel, "type") != "row" {
            assert_eq!(text(&panel["datasource"], "uid"), "${datasource}", "{}", panel["title"]);
            assert!(!text(panel, "description").is_empty(), "{} says what it shows", panel["title"]);
        }
    }
    for variable in items(&dashboard["templating"], "list") {
        if let Some(query) = text(variable, "definition").strip_prefix("label_values(") {
            problems.extend(strangers(query.rsplit_once(',').unwrap().0, &recorded));
        }
    }
    assert!(queries > 50, "{queries}");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn the_check_of_expressions_sees_what_it_should() {
    let recorded = BTreeSet::from(["a:assayd_x:rate".to_owned()]);
    let good = [
        r#"sum by (receiver, instance) (rate(assayd_receive_refused_total{reason=~"full|closing",instance=~"$i"}[5m])) > 0"#,
        "histogram_quantile(0.9, sum by (le) (rate(assayd_judge_seconds_bucket[5m])))",
        "a:assayd_x:rate offset 1w",
    ];
    for expression in good {
        assert_eq!(strangers(expression, &recorded), Vec::<String>::new());
    }
    let bad = [
        "rate(assayd_made_up_total[5m])",
        r#"assayd_receive_refused_total{why="full"}"#,
        r#"assayd_receive_refused_total{reason="sulking"}"#,
        r#"assayd_receive_refused_total{reason!~"full|sulking"}"#,
        "sum by (flavour) (assayd_scored_total)",
        "rate(assayd_judge_seconds[5m])",
        "b:assayd_x:rate",
    ];
    for expression in bad {
        assert_eq!(strangers(expression, &recorded).len(), 1, "{expression}");
    }
}

/// A rule file's groups, as they stand there.
fn groups(path: &str) -> String {
    let text = read(path);
    let (_, groups) = text.split_once("groups:\n").unwrap();
    groups.trim_end().to_owned()
}

/// Run with `ASSAYD_WRITE=1` to write the file.
#[test]
fn the_operators_rules_are_the_rules() {
    let path = "deploy/kubernetes/prometheus-operator/prometheusrule.yaml";
    let shipped = read(path);
    let (head, _) = shipped.split_once("  groups:\n").unwrap();
    let both = [groups(RECORDED), groups(ALERTS)].join("\n\n");
    let indented = |line: &str| if line.trim().is_empty() { line.to_owned() } else { format!("  {line}") };
    let lines: Vec<String> = both.lines().map(indented).collect();
    let wanted = format!("{head}  groups:\n{}\n", lines.join("\n"));
    if std::env::var_os("ASSAYD_WRITE").is_some() {
        fs::write(root().join(path), &wanted).unwrap();
    }
    assert!(read(path) == wanted, "{path} is not what ASSAYD_WRITE=1 cargo test --test deploy writes");
    let parsed = yaml(path);
    assert_eq!(
        items(&parsed["spec"], "groups").flat_map(|group| items(group, "rules")).count(),
        rules(RECORDED).len() + rules(ALERTS).len()
    );
}

// ---- alerts

#[test]
fn every_alert_has_a_page_a_severity_and_a_case_for_and_against_it() {
    let mut fires: BTreeMap<String, [bool; 2]> = BTreeMap::new();
    for file in
        files(&root().join("tests/deploy/prometheus"), &|path| path.extension().is_some_and(|e| e == "yaml"))
    {
        let suite: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        for case in items(&suite, "tests").flat_map(|test| items(test, "alert_rule_test")) {
            let expected = items(case, "exp_alerts").count() > 0;
            fires.entry(text(case, "alertname").to_owned()).or_default()[usize::from(expected)] = true;
        }
    }
    let index = read("docs/runbooks/README.md");
    let mut pages = BTreeSet::new();
    for alert in rules(ALERTS) {
        let name = text(&alert, "alert");
        assert_eq!(fires.get(name), Some(&[true, true]), "{name} lacks a case for or against it");
        let severity = text(&alert["labels"], "severity");
        assert!(["page", "ticket"].contains(&severity), "{name}");
        let annotations = &alert["annotations"];
        assert!(
            !text(annotations, "summary").is_empty() && !text(annotations, "description").is_empty(),
            "{name}"
        );
        let page = text(annotations, "runbook_url");
        let runbook = read(page);
        for part in ["**What it means.**", "**Look first"] {
            assert!(runbook.contains(part), "{page} lacks {part}");
        }
        let heading = runbook.lines().next().unwrap();
        let short = name.strip_prefix("AssaydHallucinations").unwrap_or(name);
        assert!(heading.contains(short), "the heading of {page} does not name {name}");
        assert!(
            index.lines().any(|line| line.contains(short) && line.contains(severity)),
            "{name} is not in the index"
        );
        pages.insert(page.to_owned());
    }
    let all = files(&root().join("docs/runbooks"), &|path| !path.ends_with("README.md")).len();
    assert_eq!(pages.len(), all, "a runbook belongs to no alert");
}

#[test]
fn runbooks_name_only_metrics_and_settings_that_exist() {
    let explained = config::annotated();
    for file in files(&root().join("docs/runbooks"), &|_| true) {
        let page = fs::read_to_string(&file).unwrap();
        for code in page.split('`').skip(1).step_by(2) {
            let (found, _) = selectors(code);
            for Selector { metric: name, .. } in found.iter().filter(|s| s.metric.starts_with("assayd_")) {
                let whole = metric(name).is_some() || metrics::all().any(|metric| metric.name == name);
                assert!(whole, "{} names {name}", file.display());
            }
            // `room.key` of the configuration.
            let rooms = ["receive.", "spool.", "decide.", "judge.", "flow.", "emit.", "ask.", "assemble."];
            let is_key = rooms.iter().any(|room| code.starts_with(room)) && !code.contains(' ');
            if is_key {
                let key = code.split(':').next().unwrap().rsplit('.').next().unwrap();
                assert!(explained.contains(&format!("{key}:")), "{} names {code}", file.display());
            }
        }
    }
}

// ---- rights

#[test]
fn pods_run_without_rights_that_they_do_not_need() {
    let mut workloads = 0;
    for file in
        files(&root().join("deploy/kubernetes"), &|path| path.extension().is_some_and(|e| e == "yaml"))
    {
        for object in documents(&file) {
            let kind = text(&object, "kind");
            if !["Deployment", "StatefulSet", "DaemonSet"].contains(&kind) {
                continue;
            }
            workloads += 1;
            let pod = &object["spec"]["template"]["spec"];
            let name = file.display();
            assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{name}");
            let patience = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
            let drain = config::Config::default().flow.drain.0.as_secs();
            assert!(patience > drain, "{name}: {patience} s are not longer than flow.drain");
            for container in items(pod, "containers") {
                let rights = &container["securityContext"];
                assert_eq!(rights["allowPrivilegeEscalation"], false, "{name}");
                assert_eq!(rights["readOnlyRootFilesystem"], true, "{name}");
                assert_eq!(rights["capabilities"]["drop"][0], "ALL", "{name}");
                for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
                    let path = text(&container[probe]["httpGet"], "path");
                    assert!(["/healthz", "/readyz"].contains(&path), "{name}: {probe} asks {path:?}");
                }
                assert!(container["resources"]["limits"]["memory"].is_string(), "{name}: no memory limit");
            }
        }
    }
    assert!(workloads > 0);
}

#[test]
fn the_image_runs_as_nobody_in_particular_and_checks_itself() {
    let dockerfile = read("deploy/docker/Dockerfile");
    let last =
        |word: &str| dockerfile.lines().rfind(|line| line.starts_with(word)).unwrap_or_default().to_owned();
    assert_eq!(last("USER "), "USER 10001:10001");
    assert!(dockerfile.lines().filter(|line| line.starts_with("FROM ")).count() > 1, "one stage only");
    assert!(last("HEALTHCHECK").contains("/usr/lib/assayd/healthcheck"));
    assert!(last("VOLUME").contains("/models"));
}

/// The folders and files outside of `src` that a source embeds, its tests apart.
fn embedded(source: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(source).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let named = code.split("include_").skip(1).filter_map(|after| {
        let (kind, arguments) = after.split_once("!(")?;
        let mut literals = arguments.split('"').skip(1).step_by(2);
        let path = match literals.next()? {
            "CARGO_MANIFEST_DIR" => root().join(literals.next()?.trim_start_matches('/')),
            path => source.parent()?.join(path),
        };
        ["str", "bytes"].contains(&kind).then(|| path.canonicalize().unwrap())
    });
    named.filter(|path| !path.starts_with(root().join("src"))).collect()
}

#[test]
fn the_image_is_built_from_all_that_the_program_embeds() {
    let ignored = read(".dockerignore");
    let sent: Vec<PathBuf> =
        ignored.lines().filter_map(|line| line.strip_prefix('!')).map(|path| root().join(path)).collect();
    for needed in ["Cargo.toml", "Cargo.lock", "build.rs", "src", "proto", "benches", "deploy/docker"] {
        assert!(sent.contains(&root().join(needed)), "the image's build lacks {needed}");
    }
    let sources = files(&root().join("src"), &|path| {
        path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs")
    });
    let needed: Vec<PathBuf> = sources.iter().flat_map(|source| embedded(source)).collect();
    assert!(needed.iter().any(|path| path.starts_with(root().join("tests/fixtures/traces"))), "{needed:?}");
    assert!(needed.iter().any(|path| path.starts_with(root().join("config/prompts"))), "{needed:?}");
    assert!(needed.iter().any(|path| path.starts_with(root().join("models/starter"))), "{needed:?}");
    let lacking: Vec<_> =
        needed.iter().filter(|path| !sent.iter().any(|given| path.starts_with(given))).collect();
    assert!(lacking.is_empty(), "the image's build lacks {lacking:#?}");
}
