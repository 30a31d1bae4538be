//! Verdicts that come back to the daemon that made them, as they do when a Collector fans all logs out: they are counted, left
//! out, and never evaluated.

use std::path::Path;
use std::time::Duration;

use assayd::config::Config;
use assayd::decide::{self, DecideError, Reply, Scripted};
use assayd::domain::{Decision, Inquiry, Period};
use assayd::emit::{OtlpConfig, OtlpProtocol};
use assayd::pipeline::{App, Assayer};
use assayd::receive::{Grpc, Http};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message;
use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(60);

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

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_never_evaluates_its_own_verdicts() {
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
        let assayer = Assayer::new(&config, desk, None);
        let app = App::bind_with(config, assayer).await.unwrap();
        let admin = app.addresses().admin;
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(app.run(async move {
            let _ = stopped.await;
        }));

        let own = r#"assayd_receive_rejected_items_total{receiver="#;
        let before = (metric(admin, own).await, metric(admin, "assayd_trace_outcomes_total").await);
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces/pydantic-ai-v5/s01.otlp.pb");
        let request = ExportTraceServiceRequest::decode(&*std::fs::read(file).unwrap()).unwrap();
        let mut client = TraceServiceClient::connect(format!("http://127.0.0.1:{grpc}")).await.unwrap();
        client.export(request).await.unwrap();

        let deadline = tokio::time::Instant::now() + PATIENCE;
        while metric(admin, own).await - before.0 < 1.0 {
            assert!(tokio::time::Instant::now() < deadline, "no verdict came back over {protocol:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Long enough for a trace made of the verdict's records to close by idle, if there were one.
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(metric(admin, "assayd_trace_outcomes_total").await - before.1, 1.0, "{protocol:?}");
        stop.send(()).unwrap();
        running.await.unwrap().unwrap();
    }
}
