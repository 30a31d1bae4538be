//! The bundled recordings, and the OTLP client that plays them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use anyhow::Context;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use prost::Message;
use tonic::codec::CompressionEncoding;

use crate::convert;
use crate::domain::{Story, Trace, TraceId};
use crate::otlp;

/// Spans or log records in one request: small, as exporters under load send them.
const BATCH: usize = 3;

macro_rules! recordings {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../tests/fixtures/traces/", $path, ".otlp.pb")))),*]
    };
}

/// Real exports of real libraries; `tests/fixtures/traces/MANIFEST.jsonl` says of what.
const RECORDINGS: &[(&str, &[u8])] = recordings![
    "openinference-langchain/s02",
    "pydantic-ai-v5/s01",
    "strands/s03",
    "google-adk-latest/s06",
    "google-adk-latest/s06.logs",
    "vercel-ai-sdk/s02",
    "otel-openai-v2-events/s03",
    "otel-openai-v2-events/s03.logs",
    "traceloop-openai-workflow/s04",
    "openinference-anthropic/s08",
    "mlflow/s02",
    "semantic-kernel/s05",
    "semantic-kernel/s05.1.logs",
    "semantic-kernel/s05.2.logs",
    "semantic-kernel/s05.3.logs",
    "openinference-openai-agents/s11",
    "haystack/s09",
    "google-adk-1x/s02",
    "langsmith-otel/s01",
];

/// One OTLP request.
pub enum Request {
    /// Spans.
    Traces(ExportTraceServiceRequest),
    /// Log records.
    Logs(ExportLogsServiceRequest),
}

/// All recordings, cut into small requests whose order mixes the traces.
pub struct Recording {
    /// How many runs of instrumented agents were recorded.
    pub runs: usize,
    /// What to send, in order.
    pub requests: Vec<Request>,
    traces: HashMap<TraceId, Trace>,
}

impl Recording {
    /// How many traces these are.
    pub fn traces(&self) -> usize {
        self.traces.len()
    }

    /// Their stories, to show the texts that verdicts point to.
    pub fn stories(&self) -> HashMap<TraceId, Story> {
        self.traces.iter().filter_map(|(id, trace)| Some((*id, convert::story(trace).ok()?))).collect()
    }
}

/// Reads the bundled recordings.
pub fn recording() -> anyhow::Result<Recording> {
    let mut lanes: BTreeMap<&str, Vec<Request>> = BTreeMap::new();
    let mut traces = HashMap::new();
    for (name, bytes) in RECORDINGS {
        let run = name.split('.').next().unwrap_or(name);
        let lane = lanes.entry(run).or_default();
        if name.ends_with(".logs") {
            let request = ExportLogsServiceRequest::decode(*bytes).with_context(|| (*name).to_owned())?;
            lane.extend(cut_logs(request));
        } else {
            let request = ExportTraceServiceRequest::decode(*bytes).with_context(|| (*name).to_owned())?;
            lane.extend(cut_traces(request));
        }
        let decoded = otlp::decode_any(bytes).with_context(|| (*name).to_owned())?;
        for span in decoded.spans {
            traces.entry(span.trace_id).or_insert_with(|| Trace::new(span.trace_id)).spans.push(span);
        }
        for log in decoded.logs {
            traces.entry(log.trace_id).or_insert_with(|| Trace::new(log.trace_id)).logs.push(log);
        }
    }
    Ok(Recording { runs: lanes.len(), requests: interleaved(lanes.into_values().collect()), traces })
}

/// Sends all requests, one after the other, as one exporter would.
pub async fn send(address: SocketAddr, requests: Vec<Request>) -> anyhow::Result<()> {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut traces = TraceServiceClient::new(channel.clone()).send_compressed(CompressionEncoding::Gzip);
    let mut logs = LogsServiceClient::new(channel).send_compressed(CompressionEncoding::Gzip);
    for request in requests {
        match request {
            Request::Traces(request) => drop(traces.export(request).await?),
            Request::Logs(request) => drop(logs.export(request).await?),
        }
    }
    Ok(())
}

fn cut_traces(request: ExportTraceServiceRequest) -> Vec<Request> {
    let mut requests = Vec::new();
    for resource in request.resource_spans {
        for scope in &resource.scope_spans {
            for spans in scope.spans.chunks(BATCH) {
                let mut part = scope.clone();
                part.spans = spans.to_vec();
                let resource_spans = ResourceSpans { scope_spans: vec![part], ..resource.clone() };
                requests.push(Request::Traces(ExportTraceServiceRequest {
                    resource_spans: vec![resource_spans],
                }));
            }
        }
    }
    requests
}

fn cut_logs(request: ExportLogsServiceRequest) -> Vec<Request> {
    let mut requests = Vec::new();
    for resource in request.resource_logs {
        for scope in &resource.scope_logs {
            for records in scope.log_records.chunks(BATCH) {
                let mut part = scope.clone();
                part.log_records = records.to_vec();
                let resource_logs = ResourceLogs { scope_logs: vec![part], ..resource.clone() };
                requests.push(Request::Logs(ExportLogsServiceRequest { resource_logs: vec![resource_logs] }));
            }
        }
    }
    requests
}

/// The first request of each lane, then the second of each, and so on.
fn interleaved(lanes: Vec<Vec<Request>>) -> Vec<Request> {
    let mut lanes: Vec<_> = lanes.into_iter().map(Vec::into_iter).collect();
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        requests.extend(lanes.iter_mut().filter_map(Iterator::next));
        if requests.len() == before {
            return requests;
        }
    }
}
