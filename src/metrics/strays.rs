//! Holds rendered metrics to the catalogue.

use super::catalogue::all;
use super::metric::{Kind, Values};

/// What `rendered` (Prometheus text) holds against the catalogue: unknown names, labels or values of closed labels.
/// For tests of the whole flow.
pub fn strays(rendered: &str) -> Vec<String> {
    rendered
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| stray(line).map(|problem| format!("{problem}: {line}")))
        .collect()
}

fn stray(line: &str) -> Option<String> {
    let name_end = line.find(['{', ' ']).unwrap_or(line.len());
    let series = &line[..name_end];
    let Some(metric) = all().find(|metric| {
        metric.name == series
            || matches!(metric.kind, Kind::Histogram { .. })
                && ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|part| series.strip_suffix(part) == Some(metric.name))
    }) else {
        return Some("no such metric".to_owned());
    };
    let labels = line[name_end..].strip_prefix('{').and_then(|rest| rest.rsplit_once("} ")).map(|(l, _)| l);
    let mut names = Vec::new();
    for (name, value) in labels.map(pairs).unwrap_or_default() {
        if name == "le" {
            continue;
        }
        let Some(label) = metric.labels.iter().find(|label| label.name == name) else {
            return Some(format!("no such label {name}"));
        };
        if let Values::Closed(values) = label.values
            && !values.contains(&value.as_str())
        {
            return Some(format!("no such value of {name}"));
        }
        names.push(name);
    }
    (names.len() != metric.labels.len()).then(|| "labels are missing".to_owned())
}

/// The pairs between the braces of a Prometheus line.
fn pairs(labels: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = labels;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut escaped = false;
        let mut length = after.len();
        for (at, c) in after.char_indices() {
            match c {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    length = at + 1;
                    break;
                }
                _ => {
                    value.push(c);
                    escaped = false;
                }
            }
        }
        pairs.push((name.trim_start_matches(',').to_owned(), value));
        rest = &after[length..];
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strays_are_found() {
        let text = "# HELP x y\nassayd_made_up_total 1\n\
                    assayd_receive_spans_total{receiver=\"grpc\"} 4\n\
                    assayd_receive_spans_total{receiver=\"pigeon\"} 4\n\
                    assayd_receive_spans_total 4\n\
                    assayd_decide_batch_rows_bucket{le=\"8\"} 4\n\
                    assayd_scored_total{service=\"a\\\"} b\",agent=\"x=\\\"y\"} 1\n";
        let problems = strays(text);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("no such metric"));
        assert!(problems[1].starts_with("no such value of receiver"));
        assert!(problems[2].starts_with("labels are missing"));
    }
}
