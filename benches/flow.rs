//! Claim: OTLP/gRPC in to verdict out, with a scripted decision model, takes at least 30,000 spans per second on two cores,
//! with the load generator on the same two cores.
//!
//! `cargo bench --bench flow` (add `-- SECONDS` for a longer run; memory is shown at the start and at the end).

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use assayd::config::Config;
use assayd::decide::{self, Reply, Scripted};
use assayd::domain::{Decision, Inquiry, Period};
use assayd::emit::{Fsync, JsonlConfig};
use assayd::pipeline::{App, Assayer, Ended};
use assayd::receive::{Acknowledge, Grpc};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

/// Exporters that send at the same time; each waits for its reply, as an SDK's batch processor does.
const SENDERS: u64 = 4;
const SPANS_PER_TRACE: u64 = 10;
/// 51 traces of ten spans: about what a batch processor sends at most by default.
const TRACES_PER_REQUEST: u64 = 51;

fn text(key: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: key.into(), value, ..Default::default() }
}

/// A run of an agent: root, two model calls, one tool, six spans of HTTP clients and databases.
fn trace(number: u64) -> Vec<Span> {
    let request =
        format!(r#"{{"role":"user","parts":[{{"type":"text","content":"Was order {number} paid?"}}]}}"#);
    let call = format!(
        r#"{{"role":"assistant","parts":[{{"type":"tool_call","id":"c{number}","name":"lookup","arguments":{{"id":{number}}}}}]}}"#
    );
    let result = format!(
        r#"{{"role":"tool","parts":[{{"type":"tool_call_response","id":"c{number}","response":"order {number}: paid on 3 May"}}]}}"#
    );
    let answer = format!(
        r#"{{"role":"assistant","parts":[{{"type":"text","content":"Order {number} was paid on 3 May."}}]}}"#
    );
    let chat = |input: String, output: &str| {
        vec![
            text("gen_ai.operation.name", "chat".into()),
            text("gen_ai.request.model", "gpt-4o".into()),
            text("gen_ai.input.messages", format!("[{input}]")),
            text("gen_ai.output.messages", format!("[{output}]")),
        ]
    };
    let noise =
        || vec![text("http.request.method", "GET".into()), text("url.full", "http://db/orders".into())];
    let attributes = [
        vec![
            text("gen_ai.operation.name", "invoke_agent".into()),
            text("gen_ai.agent.name", "refunds".into()),
        ],
        chat(request.clone(), &call),
        vec![
            text("gen_ai.operation.name", "execute_tool".into()),
            text("gen_ai.tool.name", "lookup".into()),
            text("gen_ai.tool.call.id", format!("c{number}")),
            text("gen_ai.tool.call.result", format!("order {number}: paid on 3 May")),
        ],
        chat(format!("{request},{call},{result}"), &answer),
        noise(),
        noise(),
        noise(),
        noise(),
        noise(),
        noise(),
    ];
    let span_id = |position: u64| (number * SPANS_PER_TRACE + position + 1).to_be_bytes().to_vec();
    let spans = attributes.into_iter().zip(0..).map(|(attributes, position)| Span {
        trace_id: u128::from(number + 1).to_be_bytes().to_vec(),
        span_id: span_id(position),
        parent_span_id: if position == 0 { Vec::new() } else { span_id(0) },
        name: "span".into(),
        start_time_unix_nano: 1_796_025_600_000_000_000 + position,
        end_time_unix_nano: 1_796_025_600_001_000_000 + position,
        attributes,
        ..Default::default()
    });
    spans.collect()
}

fn request(first: u64) -> ExportTraceServiceRequest {
    let spans = (first..first + TRACES_PER_REQUEST).flat_map(trace).collect();
    let resource = Resource { attributes: vec![text("service.name", "bench".into())], ..Default::default() };
    let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans, ..Default::default() }],
    }
}

fn grounded(inquiry: &Inquiry) -> Reply {
    let decisions = inquiry.questions.iter().map(|question| {
        let labels = question.kind.labels();
        let rest = 0.02 / (labels.len() - 1) as f64;
        let probabilities =
            labels.iter().map(|label| if label == "grounded" { 0.98 } else { rest }).collect();
        Ok(Decision { probabilities, tokens: 1 })
    });
    Reply { decisions: decisions.collect(), input_tokens: 1, truncated: false }
}

/// CPU seconds of this process, and its resident memory in MB.
fn spent() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident =
        pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or_default();
    ((ticks(11) + ticks(12)) / 100.0, resident * 4096.0 / 1e6)
}

async fn send(at: String, next: Arc<AtomicU64>, until: Instant) -> io::Result<u64> {
    let mut client = TraceServiceClient::connect(at).await.map_err(io::Error::other)?;
    let mut traces = 0;
    while Instant::now() < until {
        let first = next.fetch_add(TRACES_PER_REQUEST, Ordering::Relaxed);
        let message = request(first);
        // Refused means come back: the same request, a little later.
        while client.export(message.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        traces += TRACES_PER_REQUEST;
    }
    Ok(traces)
}

async fn run(seconds: u64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let verdicts = folder.path().join("verdicts.jsonl");
    let mut config = Config::default();
    config.receive.grpc = Some(Grpc { listen: "127.0.0.1:0".parse()? });
    config.receive.http = None;
    config.receive.acknowledge = Acknowledge::Admitted;
    config.serve.listen = "127.0.0.1:0".parse()?;
    config.assemble.root_grace = Period::millis(50);
    config.emit.jsonl =
        Some(JsonlConfig { path: verdicts.clone(), fsync: Fsync::Never, ..JsonlConfig::default() });
    let desk = decide::start_with(Scripted::new(|inquiry: &Inquiry| Ok(grounded(inquiry))), &config.decide)?;
    let assayer = Assayer::new(&config, desk, None);
    let app = App::bind_with(config, assayer).await?;
    let at = format!("http://{}", app.addresses().grpc.expect("it listens"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let daemon = tokio::spawn(app.run(async {
        let _ = stopped.await;
    }));

    let (cpu_before, memory_before) = spent();
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    let next = Arc::new(AtomicU64::new(0));
    let senders: Vec<_> =
        (0..SENDERS).map(|_| tokio::spawn(send(at.clone(), Arc::clone(&next), until))).collect();
    let mut traces = 0;
    for sender in senders {
        traces += sender.await??;
    }
    let _ = stop.send(());
    let ended = daemon.await??;
    let took = started.elapsed().as_secs_f64();
    let (cpu_after, memory_after) = spent();
    anyhow::ensure!(ended == Ended::Drained, "traces were left behind: {ended:?}");

    let cpu = cpu_after - cpu_before;
    let spans = (traces * SPANS_PER_TRACE) as f64;
    let mut written = 0;
    for file in std::fs::read_dir(folder.path())? {
        written += std::fs::read_to_string(file?.path())?.lines().count() as u64;
    }
    println!(
        "{traces} traces of {SPANS_PER_TRACE} spans sent and drained in {took:.1} s; verdicts in the kept files: {written}"
    );
    println!("{:.0} spans/s by the clock", spans / took);
    println!("{:.0} spans per CPU second, load generator included (two cores: twice that)", spans / cpu);
    println!("resident: {memory_before:.0} MB before, {memory_after:.0} MB after");
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let is_test = std::env::args().any(|argument| argument == "--test");
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(if is_test { 1 } else { 10 });
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(seconds))
}
