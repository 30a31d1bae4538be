//! Every endpoint of the daemon with one line about it: the page `docs/endpoints.md` is made of this, and tests hold the routes to it.

use std::fmt::Write;

/// One method of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub method: &'static str,
    /// As the router has it.
    pub path: &'static str,
    pub what: &'static str,
}

const fn at(method: &'static str, path: &'static str, what: &'static str) -> Endpoint {
    Endpoint { method, path, what }
}

/// Those of the admin listener, but for the files of the console's page.
pub(super) const ADMIN: &[Endpoint] = &[
    at(
        "GET",
        "/",
        "The console, unless `serve.console` is false; its files are below `/console/`. See [console](console.md).",
    ),
    at("GET", "/healthz", "200 as long as the process answers. For liveness probes."),
    at(
        "GET",
        "/readyz",
        "200 `ready` while spans are admitted; 503 with the reason while the model is loaded and while the daemon stops. For readiness \
         probes.",
    ),
    at("GET", "/version", "Name, version and the build's features as JSON."),
    at("GET", "/metrics", "All metrics in Prometheus' text format. See [metrics](metrics.md)."),
    at(
        "GET",
        "/health",
        "Which decision model answers, its limits and whether it is calibrated; what clients of `/v1/systemone` ask first. See \
         [systemone](systemone.md).",
    ),
    at("GET", "/v1/models", "The decision model's name, in the list that clients expect."),
    at(
        "POST",
        "/v1/systemone",
        "Typed questions about a state, answered by the decision model with probabilities. See [systemone](systemone.md).",
    ),
    at(
        "POST",
        "/v1/check",
        "`{\"context\", \"query\", \"response\"}`: the verdict on one answer, by the way that a trace's answer takes.",
    ),
    at(
        "GET",
        "/v1/verdicts",
        "Recent verdicts, newest first, by `service`, `agent`, `outcome`, `label`, `tier`, `trace_id`, `since`, `text` and `limit`; as a live \
         feed (server-sent events) with `live=true` or `accept: text/event-stream`.",
    ),
    at(
        "GET",
        "/v1/verdicts/{verdict_id}",
        "One verdict with the story that was judged, what it means in words, and what people say of it.",
    ),
    at(
        "GET",
        "/v1/traces/{trace_id}",
        "Where a trace is on its way, or why it was not evaluated, and its verdicts.",
    ),
    at(
        "GET",
        "/v1/rates",
        "Verdicts per label over the last three hours, by `service`, `agent`, `window` and `points`.",
    ),
    at(
        "GET",
        "/v1/feedback",
        "What people say of verdicts, one JSON object per line: what `assayd calibrate` reads.",
    ),
    at(
        "POST",
        "/v1/feedback",
        "Marks a verdict, or one claim of it, right or wrong. See [console](console.md).",
    ),
    at(
        "GET",
        "/v1/feedback/agreement",
        "How well people agree with the verdicts: kappa, false positives, false negatives.",
    ),
    at("POST", "/v1/gsar/evaluate", "One round of GSAR: partition, score and decision. See [gsar](gsar.md)."),
    at("POST", "/v1/gsar/runs", "Opens a run of GSAR's loop; with callbacks the daemon drives it."),
    at("GET", "/v1/gsar/runs/{id}", "A run with its rounds."),
    at("DELETE", "/v1/gsar/runs/{id}", "Ends a run."),
    at("POST", "/v1/gsar/runs/{id}/rounds", "Hands in the next answer of a run."),
    at(
        "GET",
        "/v1/status",
        "Readiness, what each evaluator has seen, sampled, evaluated and skipped, and the effective configuration without secrets.",
    ),
];

/// Those of the OTLP receivers.
const RECEIVERS: &[Endpoint] = &[
    at("POST", "/v1/traces", "`receive.http`: spans in protobuf or JSON, also gzip or zstd."),
    at("POST", "/v1/logs", "`receive.http`: log records of a trace, in the same forms."),
    at(
        "gRPC",
        "opentelemetry.proto.collector.trace.v1.TraceService/Export",
        "`receive.grpc`: spans, also gzip or zstd.",
    ),
    at(
        "gRPC",
        "opentelemetry.proto.collector.logs.v1.LogsService/Export",
        "`receive.grpc`: log records of a trace.",
    ),
];

const HEAD: &str = "\
# Endpoints

This page is made of `src/serve/catalogue.rs`; tests hold it to the routes.

Errors are JSON, `{\"detail\": {\"error_type\", \"message\", …}}`, with the status that fits; 429 and 503 say in `Retry-After` when to come \
back. With `serve.tokens` everything below `/v1/` needs `Authorization: Bearer TOKEN`, and `/metrics` and the probes do with \
`serve.protect_metrics` and `serve.protect_probes`; see [security](security.md).
";

/// The page.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    let parts = [
        ("The admin listener (`serve.listen`, 127.0.0.1:8321 unless set)", ADMIN),
        (
            "The receivers (`receive`, 127.0.0.1:4317 for gRPC and 127.0.0.1:4318 for HTTP unless set)",
            RECEIVERS,
        ),
    ];
    for (title, endpoints) in parts {
        // Writing to a string cannot fail.
        write!(page, "\n## {title}\n\n| | | |\n| --- | --- | --- |\n").ok();
        for Endpoint { method, path, what } in endpoints {
            writeln!(page, "| {method} | `{path}` | {what} |").ok();
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// `METHOD PATH` of every call of `route` in these sources.
    fn routed(source: &str) -> BTreeSet<String> {
        let calls = source.split("route(\"").skip(1);
        let found = calls.flat_map(|call| {
            let (path, methods) = call.split_once("\", ").expect("a path and its methods");
            // The methods end where the next route begins, or the function ends.
            let methods = methods.split(['\n', ';']).next().unwrap_or_default();
            let named = ["get(", "post(", "put(", "delete(", "patch("].into_iter();
            let used = named.filter(|name| methods.contains(name)).map(|name| name.trim_end_matches('('));
            used.map(|name| format!("{} {path}", name.to_uppercase())).collect::<Vec<_>>()
        });
        found.collect()
    }

    fn listed(endpoints: &[Endpoint]) -> BTreeSet<String> {
        endpoints.iter().map(|endpoint| format!("{} {}", endpoint.method, endpoint.path)).collect()
    }

    fn source(path: &str) -> String {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn every_route_is_listed_and_nothing_else_is() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            // `server.rs` defines `route`; `console.rs` has files.
            if name.ends_with(".rs") && !["server.rs", "tests.rs", "catalogue.rs"].contains(&name.as_str()) {
                found.extend(routed(&source(&format!("src/serve/{name}"))));
            }
        }
        found.insert("GET /".to_owned());
        assert_eq!(found, listed(ADMIN));
        let http: Vec<Endpoint> =
            RECEIVERS.iter().filter(|endpoint| endpoint.method != "gRPC").copied().collect();
        assert_eq!(routed(&source("src/receive/http.rs")), listed(&http));
    }

    /// Run with `ASSAYD_WRITE_DOCS=1` to write the page.
    #[test]
    fn the_page_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/endpoints.md");
        if std::env::var_os("ASSAYD_WRITE_DOCS").is_some() {
            std::fs::write(&path, reference()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == reference(),
            "docs/endpoints.md is old: ASSAYD_WRITE_DOCS=1 cargo test --lib serve::catalogue"
        );
    }
}
