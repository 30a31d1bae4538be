//! The catalogue as a page for operators: `docs/metrics.md`.

use std::fmt::Write;

use super::catalogue::all;
use super::metric::{Kind, Values};

const HEAD: &str = "\
# Metrics

`GET /metrics` on the admin listener (default `127.0.0.1:8321`) gives these in Prometheus' text format. This page is made of \
`src/metrics/catalogue.rs`, and a test holds it to that. Times are in seconds and sizes in bytes. No label holds a trace id, and \
values that senders choose are bounded: those beyond the bound are counted as `other`.
";

/// The page.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for metric in all() {
        // Writing to a string cannot fail.
        write!(
            page,
            "\n## `{}`\n\n{} ({}). {}\n",
            metric.name,
            capital(metric.kind.as_str()),
            metric.unit,
            metric.help
        )
        .ok();
        if !metric.labels.is_empty() {
            page.push('\n');
        }
        for label in metric.labels {
            let values = match label.values {
                Values::Closed(values) => {
                    values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
                }
                Values::Open(origin) => origin.to_owned(),
            };
            writeln!(page, "- `{}`: {values}", label.name).ok();
        }
        if let Kind::Histogram { buckets } = metric.kind {
            let bounds: Vec<String> = buckets.iter().map(f64::to_string).collect();
            write!(page, "\nBuckets: {}.\n", bounds.join(", ")).ok();
        }
    }
    page
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run with `ASSAYD_WRITE_DOCS=1` to write the page.
    #[test]
    fn the_page_of_metrics_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
        if std::env::var_os("ASSAYD_WRITE_DOCS").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap();
        assert!(
            page == reference(),
            "docs/metrics.md is not what ASSAYD_WRITE_DOCS=1 cargo test metrics writes"
        );
    }
}
