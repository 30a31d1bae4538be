//! Verdicts, and spans of the daemon's own work, that come back to the daemon that made them, as they do when a Collector fans
//! everything out: they are counted, left out, and never evaluated.

#[path = "common/running.rs"]
mod running;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assayd::config::Config;
use assayd::decide::{self, DecideError, Reply, Scripted};
use assayd::domain::{Decision, Inquiry, Period};
use assayd::emit::{OtlpCompression, OtlpConfig, OtlpProtocol, TracesConfig};
use assayd::receive::{Grpc, Http};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message;

use self::running::Running;

const PATIENCE: Duration = Duration::from_secs(60);

/// Metrics are the process's: one test at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn grounds_everything(inquiry: &Inquiry) -> Result<Reply, DecideError> {
    let decisions = inquiry.questions.iter().map(|question| {
        let labels = question.kind.labels();
        let rest = 0.02 / (labels.len() - 1) as f64;
        let of = |label: &String| if label == "grounded" { 0.98 } else { rest };
        Ok(Decision { probabilities: labels.iter().map(of).collect(), tokens: 1 })
    });
    Ok(Reply { decisions: decisions.collect(), input_tokens: 9, truncated: false })
}

/// A port that was free a moment ago: the sink must know it before the receiver is bound.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn metric(admin: std::net::SocketAddr, series: &str) -> f64 {
    let text = reqwest::get(format!("http://{admin}/metrics")).await.unwrap().text().await.unwrap();
    text.lines()
        .filter(|line| line.starts_with(series))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

async fn send_a_trace(grpc: u16) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces/pydantic-ai-v5/s01.otlp.pb");
    let request = ExportTraceServiceRequest::decode(&*std::fs::read(file).unwrap()).unwrap();
    let mut client = TraceServiceClient::connect(format!("http://127.0.0.1:{grpc}")).await.unwrap();
    client.export(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_never_evaluates_its_own_verdicts() {
    let _alone = ALONE.lock().await;
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let folder = tempfile::tempdir().unwrap();
        let (grpc, http) = (free_port(), free_port());
        let mut config = Config::default();
        config.receive.grpc = Some(Grpc { listen: ([127, 0, 0, 1], grpc).into() });
        config.receive.http = Some(Http { listen: ([127, 0, 0, 1], http).into() });
        config.serve.listen = ([127, 0, 0, 1], 0).into();
        config.assemble.root_grace = Period::millis(100);
        config.assemble.idle = Period::millis(300);
        config.data_dir = folder.path().to_owned();
        let port = if protocol == OtlpProtocol::Grpc { grpc } else { http };
        let endpoint = format!("http://127.0.0.1:{port}");
        config.emit.otlp = Some(OtlpConfig { endpoint, protocol, ..OtlpConfig::default() });
        let desk = decide::start_with(Scripted::new(grounds_everything), &decide::Config::default()).unwrap();
        let daemon = Running::start(config, desk).await;
        let admin = daemon.at.admin;

        let own = r#"assayd_receive_rejected_items_total{receiver="#;
        let before = (metric(admin, own).await, metric(admin, "assayd_trace_outcomes_total").await);
        send_a_trace(grpc).await;

        let deadline = tokio::time::Instant::now() + PATIENCE;
        while metric(admin, own).await - before.0 < 1.0 {
            assert!(tokio::time::Instant::now() < deadline, "no verdict came back over {protocol:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Long enough for a trace made of the verdict's records to close by idle, if there were one.
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(metric(admin, "assayd_trace_outcomes_total").await - before.1, 1.0, "{protocol:?}");
        daemon.stop().await;
    }
}

/// A Collector that calls every service and library by another name and sends all traces on to the daemon that they came from.
/// Gives its address and the names of the spans that it saw, by their ids: a request that is sent again tells nothing new.
async fn renaming_collector(daemon: u16) -> (String, Arc<Mutex<BTreeMap<Vec<u8>, String>>>) {
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let kept = Arc::clone(&seen);
    let pass_on = async move |body: axum::body::Bytes| {
        let mut request = ExportTraceServiceRequest::decode(body).unwrap();
        for group in &mut request.resource_spans {
            for attribute in &mut group.resource.as_mut().unwrap().attributes {
                if attribute.key == "service.name" {
                    attribute.key = "service.original".to_owned();
                }
            }
            for scoped in &mut group.scope_spans {
                scoped.scope.as_mut().unwrap().name = "collector".to_owned();
                let spans = scoped.spans.iter().map(|span| (span.span_id.clone(), span.name.clone()));
                kept.lock().unwrap().extend(spans);
            }
        }
        let post = reqwest::Client::new()
            .post(format!("http://127.0.0.1:{daemon}/v1/traces"))
            .header("content-type", "application/x-protobuf")
            .body(request.encode_to_vec());
        assert!(post.send().await.unwrap().status().is_success());
    };
    let app = axum::Router::new().route("/v1/traces", axum::routing::post(pass_on));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_never_evaluates_the_traces_of_its_own_work_whatever_name_they_come_back_under() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let (grpc, http) = (free_port(), free_port());
    let (endpoint, seen) = renaming_collector(http).await;
    let mut config = Config::default();
    config.receive.grpc = Some(Grpc { listen: ([127, 0, 0, 1], grpc).into() });
    config.receive.http = Some(Http { listen: ([127, 0, 0, 1], http).into() });
    config.serve.listen = ([127, 0, 0, 1], 0).into();
    config.assemble.root_grace = Period::millis(100);
    config.assemble.idle = Period::millis(300);
    config.data_dir = folder.path().to_owned();
    config.emit.traces = Some(TracesConfig {
        endpoint,
        protocol: OtlpProtocol::Http,
        compression: OtlpCompression::None,
        sample: 1.0,
        linger: Period::millis(20),
        ..TracesConfig::default()
    });
    let desk = decide::start_with(Scripted::new(grounds_everything), &decide::Config::default()).unwrap();
    let daemon = Running::start(config, desk).await;
    let admin = daemon.at.admin;

    let own = r#"assayd_receive_rejected_items_total{receiver="http",reason="own_telemetry"}"#;
    let before = (metric(admin, own).await, metric(admin, "assayd_trace_outcomes_total").await);
    send_a_trace(grpc).await;
    let expected = ["receive", "assay", "assemble", "convert", "ask", "decide", "score", "emit"];
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let all = expected.len();
    while seen.lock().unwrap().len() < all || metric(admin, own).await - before.0 < all as f64 {
        let names = seen.lock().unwrap().clone();
        assert!(tokio::time::Instant::now() < deadline, "not all came back: {names:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Long enough for a trace of the daemon's own to close by idle, if there were one.
    tokio::time::sleep(Duration::from_millis(800)).await;
    let mut names: Vec<String> = seen.lock().unwrap().values().cloned().collect();
    names.sort_unstable();
    let mut wanted = expected.map(str::to_owned);
    wanted.sort_unstable();
    assert_eq!(names, wanted, "one span for each stage, and none for what came back");
    assert_eq!(metric(admin, "assayd_trace_outcomes_total").await - before.1, 1.0);
    assert!(metric(admin, r#"assayd_emit_own_spans_total{result="sent"}"#).await >= expected.len() as f64);
    daemon.stop().await;
}
