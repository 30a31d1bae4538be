use std::num::NonZeroUsize;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::domain::Period;
use crate::emit::{OtlpCompression, OtlpProtocol};
use crate::otlp::{Encoding, Signal, decode};

fn config(server: &str, sample: f64) -> TracesConfig {
    TracesConfig {
        endpoint: server.to_owned(),
        protocol: OtlpProtocol::Http,
        compression: OtlpCompression::None,
        linger: Period::millis(20),
        sample,
        ..TracesConfig::default()
    }
}

async fn receiver(status: u16) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v1/traces"))
        .respond_with(ResponseTemplate::new(status))
        .mount(&server)
        .await;
    server
}

async fn received(server: &MockServer) -> Vec<Span> {
    let requests = server.received_requests().await.unwrap();
    let spans = requests.iter().flat_map(|request| {
        assert!(ExportTraceServiceRequest::decode(&*request.body).is_ok());
        decode(Signal::Traces, Encoding::Protobuf, &request.body).unwrap().spans
    });
    spans.collect()
}

async fn worked(traces: &Traces) -> u32 {
    let work = async {
        let told = stage_now("convert", || 1, |_| Notes::default());
        let (a, b) = tokio::join!(
            stage(
                "decide",
                async {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    2
                },
                |n| Notes::of([("n", Value::Int(*n))])
            ),
            stage("judge", async { stage("call", async { 4 }, |_| Notes::default()).await }, |_| Notes {
                failed: Some("resting"),
                ..Notes::default()
            }),
        );
        stage_over("assemble", Time(1), Notes::default());
        told + u32::try_from(a).unwrap() + b
    };
    traces.follow("assay", Some(Time(1)), work, |sum| Notes::of([("sum", Value::Int(i64::from(*sum)))])).await
}

#[tokio::test]
async fn stages_become_spans_below_the_work_that_they_are_part_of() {
    let server = receiver(200).await;
    let (traces, task) = Traces::open(Some(&config(&server.uri(), 1.0))).unwrap();
    assert_eq!(worked(&traces).await, 7);
    drop(traces);
    task.finish(Duration::from_secs(10)).await;
    let spans = received(&server).await;
    let of = |name: &str| {
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"))
    };
    let root = of("assay");
    assert_eq!(spans.len(), 6);
    assert!(spans.iter().all(|span| span.trace_id == root.trace_id && span.resource.is_own()));
    assert_eq!((root.parent_id, root.start, root.resource.service()), (None, Time(1), Some("assayd")));
    for child in ["convert", "decide", "judge", "assemble"] {
        assert_eq!(of(child).parent_id, Some(root.span_id), "{child}");
    }
    assert_eq!(of("call").parent_id, Some(of("judge").span_id));
    assert_eq!(of("judge").status, Status::Error("resting".to_owned()));
    assert_eq!(of("decide").attributes.get("n"), Some(&Value::Int(2)));
    let decided = of("decide");
    assert!(decided.end.since(decided.start) >= Duration::from_millis(5));
}

#[tokio::test]
async fn a_part_of_the_work_is_followed_as_the_sample_says() {
    let server = receiver(200).await;
    let (traces, task) = Traces::open(Some(&config(&server.uri(), 0.25))).unwrap();
    for _ in 0..400 {
        traces.tell("receive", Instant::now(), Notes::default);
    }
    drop(traces);
    task.finish(Duration::from_secs(10)).await;
    // Far beyond six standard deviations of a fair draw.
    assert!((40..=160).contains(&received(&server).await.len()));
}

#[tokio::test]
async fn nobody_waits_for_a_receiver_that_is_away_or_refuses() {
    let refusing = receiver(403).await;
    for endpoint in ["http://127.0.0.1:1".to_owned(), refusing.uri()] {
        let few = TracesConfig { queue: NonZeroUsize::MIN, ..config(&endpoint, 1.0) };
        let (traces, task) = Traces::open(Some(&few)).unwrap();
        for _ in 0..50 {
            assert_eq!(worked(&traces).await, 7);
        }
        drop(traces);
        task.finish(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn without_a_section_nothing_is_followed() {
    let (traces, task) = Traces::open(None).unwrap();
    assert_eq!(worked(&traces).await, 7);
    task.finish(Duration::from_secs(1)).await;
}
