//! A gateway in front of the topic: OTLP in, one record per trace out, and an answer only when the brokers have it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use assayd::config::{Config, Role};
use assayd::domain::{ByteSize, Period};
use assayd::pipeline::{Addresses, Gateway, StartError};
use assayd::receive::{Grpc, Http};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};
use prost::Message as _;
use rdkafka::message::Message;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic_types::StatusExt;

use crate::support::{Brokers, House, trace, until};

struct Running {
    at: Addresses,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), StartError>>,
}

impl Running {
    async fn start(brokers: &Brokers, topic: &str, adjust: impl FnOnce(&mut Config)) -> Self {
        let free = "127.0.0.1:0".parse().unwrap();
        let mut config = Config { role: Role::Gateway, ..Config::default() };
        config.receive.grpc = Some(Grpc { listen: free });
        config.receive.http = Some(Http { listen: free });
        config.serve.listen = free;
        config.relay.brokers = vec![brokers.servers().to_owned()];
        config.relay.topic = topic.to_owned();
        config.relay.delivery_timeout = Period::seconds(2);
        for (name, value) in [("reconnect.backoff.ms", "10"), ("reconnect.backoff.max.ms", "200")] {
            config.relay.properties.insert(name.to_owned(), value.to_owned());
        }
        adjust(&mut config);
        assert_eq!(config.problems(), Vec::<String>::new());
        let gateway = Gateway::bind(config).await.unwrap();
        let at = gateway.addresses();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(gateway.run(async move {
            let _ = stopped.await;
        }));
        Self { at, stop, running }
    }

    async fn export(
        &self,
        request: ExportTraceServiceRequest,
    ) -> Result<Option<(i64, String)>, tonic::Status> {
        let endpoint = format!("http://{}", self.at.grpc.unwrap());
        let mut client = TraceServiceClient::connect(endpoint).await.unwrap();
        let reply = client.export(request).await?.into_inner();
        Ok(reply.partial_success.map(|partial| (partial.rejected_spans, partial.error_message)))
    }

    async fn post(&self, body: String) -> reqwest::Response {
        self.post_to("/v1/traces", body).await
    }

    async fn post_to(&self, path: &str, body: String) -> reqwest::Response {
        let url = format!("http://{}{path}", self.at.http.unwrap());
        let request = reqwest::Client::new().post(url).header("content-type", "application/json");
        request.body(body).send().await.unwrap()
    }

    async fn close(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap().unwrap();
    }
}

/// Several traces in one request, their spans mixed.
fn mixed(numbers: std::ops::Range<u32>) -> (BTreeSet<String>, ExportTraceServiceRequest) {
    let mut ids = BTreeSet::new();
    let mut all = Vec::new();
    for number in numbers {
        let (id, mut request) = trace(number);
        ids.insert(id);
        let mut first = request.resource_spans.remove(0);
        // Each scope of its own: what belongs together is apart.
        for scope in first.scope_spans.split_off(0) {
            for span in &scope.spans {
                let mut resource = first.clone();
                let mut alone = scope.clone();
                alone.spans = vec![span.clone()];
                resource.scope_spans = vec![alone];
                all.push((all.len() % 7, resource));
            }
        }
    }
    all.sort_by_key(|(order, _)| *order);
    let resource_spans = all.into_iter().map(|(_, resource)| resource).collect();
    (ids, ExportTraceServiceRequest { resource_spans })
}

fn spans(request: &ExportTraceServiceRequest) -> usize {
    let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    scopes.map(|scope| scope.spans.len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_gateway_takes_becomes_verdicts_in_the_workers_behind_it() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 3).await;
    let group = brokers.unique("group");
    let gateway = Running::start(&brokers, &topic, |_| {}).await;
    let (mut ids, request) = mixed(0..5);
    let sent = spans(&request);
    assert_eq!(gateway.export(request).await.unwrap(), None);
    let json = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
        "scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174",
        "name":"work","kind":3,"startTimeUnixNano":"1796025600000000000","endTimeUnixNano":"1796025601000000000"}]}]}]}"#;
    let reply = gateway.post(json.to_owned()).await;
    assert_eq!((reply.status().as_u16(), reply.text().await.unwrap().as_str()), (200, "{}"));
    ids.insert("5b8efff798038103d269b633813fc60c".to_owned());

    // Acknowledged means that it is there now: a record for each trace, and nothing of a trace elsewhere.
    let records = brokers.read_until(&topic, 3, |records| records.len() >= 6);
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for record in &records {
        let key = String::from_utf8(record.key().unwrap().to_vec()).unwrap();
        let request = ExportTraceServiceRequest::decode(record.payload().unwrap()).unwrap();
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        for span in scopes.flat_map(|scope| &scope.spans) {
            let id: String = span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(id, key);
        }
        assert_eq!(found.insert(key, spans(&request)), None, "one record for each trace");
    }
    assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), ids);
    assert_eq!(found.values().sum::<usize>(), sent + 1);

    let worker = House::open(|config| {
        config.role = Role::Worker;
        config.receive.kafka = Some(brokers.source(&topic, &group));
    })
    .await;
    until("all verdicts", || worker.verdicts().len() >= ids.len()).await;
    let (_, verdicts) = worker.close().await;
    let seen: BTreeSet<String> = verdicts.iter().map(|v| v.trace_id.unwrap().to_string()).collect();
    assert_eq!(seen, ids);
    gateway.close().await;
}

fn pair(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

fn shop() -> Option<Resource> {
    Some(Resource {
        attributes: vec![pair("service.name", any_value::Value::StringValue("shop".into()))],
        dropped_attributes_count: 7,
        ..Default::default()
    })
}

fn library() -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: "library".into(),
        version: "1.2".into(),
        attributes: vec![pair("flavour", any_value::Value::BytesValue(vec![1, 2]))],
        dropped_attributes_count: 6,
    })
}

/// One span, with everything that OTLP can say of it.
fn rich_span() -> ExportTraceServiceRequest {
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        parent_span_id: vec![3; 8],
        trace_state: "vendor=1".into(),
        flags: 0x301,
        name: "work".into(),
        kind: 3,
        start_time_unix_nano: 5,
        end_time_unix_nano: 6,
        attributes: vec![pair("count", any_value::Value::IntValue(-7))],
        dropped_attributes_count: 1,
        events: vec![span::Event {
            time_unix_nano: 5,
            name: "seen".into(),
            attributes: vec![pair("share", any_value::Value::DoubleValue(0.25))],
            dropped_attributes_count: 2,
        }],
        dropped_events_count: 3,
        links: vec![span::Link {
            trace_id: vec![4; 16],
            span_id: vec![5; 8],
            trace_state: "vendor=2".into(),
            attributes: vec![pair("why", any_value::Value::BoolValue(true))],
            dropped_attributes_count: 4,
            flags: 0x100,
        }],
        dropped_links_count: 5,
        status: Some(Status { message: "broken".into(), code: 2 }),
    };
    let scoped = ScopeSpans { scope: library(), spans: vec![span], schema_url: "https://scope".into() };
    let group =
        ResourceSpans { resource: shop(), scope_spans: vec![scoped], schema_url: "https://resource".into() };
    ExportTraceServiceRequest { resource_spans: vec![group] }
}

fn rich_record() -> ExportLogsServiceRequest {
    let record = LogRecord {
        time_unix_nano: 5,
        observed_time_unix_nano: 6,
        severity_number: 9,
        severity_text: "INFO".into(),
        body: Some(AnyValue { value: Some(any_value::Value::StringValue("said".into())) }),
        attributes: vec![pair("count", any_value::Value::IntValue(1 << 60))],
        dropped_attributes_count: 1,
        flags: 1,
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        event_name: "said".into(),
    };
    let scoped =
        ScopeLogs { scope: library(), log_records: vec![record], schema_url: "https://scope".into() };
    let group =
        ResourceLogs { resource: shop(), scope_logs: vec![scoped], schema_url: "https://resource".into() };
    ExportLogsServiceRequest { resource_logs: vec![group] }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_gateway_passes_on_is_what_it_took_to_the_last_field() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 1).await;
    let gateway = Running::start(&brokers, &topic, |_| {}).await;
    assert_eq!(gateway.export(rich_span()).await.unwrap(), None);
    let in_json = [
        ("/v1/traces", serde_json::to_string(&rich_span()).unwrap()),
        ("/v1/logs", serde_json::to_string(&rich_record()).unwrap()),
    ];
    for (path, body) in in_json {
        assert_eq!(gateway.post_to(path, body).await.status().as_u16(), 200);
    }
    let records = brokers.read_until(&topic, 1, |records| records.len() >= 3);
    let values: Vec<&[u8]> = records.iter().map(|record| record.payload().unwrap()).collect();
    for value in &values[..2] {
        assert_eq!(ExportTraceServiceRequest::decode(*value).unwrap(), rich_span());
    }
    assert_eq!(ExportLogsServiceRequest::decode(values[2]).unwrap(), rich_record());
    gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_brokers_asks_its_senders_to_come_back_and_takes_spans_when_they_are() {
    let brokers = Brokers::start();
    let Some(mock) = brokers.mock() else { return };
    let topic = brokers.topic("spans", 1).await;
    mock.broker_down(1).unwrap();
    let gateway = Running::start(&brokers, &topic, |_| {}).await;
    let ready = reqwest::get(format!("http://{}/readyz", gateway.at.admin)).await.unwrap();
    assert!(ready.status().is_success(), "a gateway is ready to say no");
    let refused = gateway.export(trace(1).1).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    let wait = refused.get_details_retry_info().and_then(|info| info.retry_delay);
    assert!(wait.is_some_and(|wait| wait > Duration::ZERO));
    let json = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[
        {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174"}]}]}]}"#;
    let reply = gateway.post(json.to_owned()).await;
    assert_eq!(reply.status().as_u16(), 503);
    assert!(reply.headers().contains_key("retry-after"));

    mock.broker_up(1).unwrap();
    let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
    while gateway.export(trace(1).1).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the gateway does not recover");
    }
    brokers.read_until(&topic, 1, |records| !records.is_empty());
    gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_is_too_large_for_a_record_is_split_and_a_span_that_is_too_large_is_told() {
    let brokers = Brokers::start();
    let topic = brokers.topic("spans", 1).await;
    let gateway =
        Running::start(&brokers, &topic, |config| config.relay.max_message_bytes = ByteSize(8_192)).await;
    let (_, mut request) = trace(1);
    let template = request.resource_spans[0].scope_spans[0].spans[0].clone();
    let spans_of = &mut request.resource_spans[0].scope_spans[0].spans;
    for number in 0..40u64 {
        let mut span = template.clone();
        span.span_id = (number + 1).to_be_bytes().to_vec();
        span.name = "n".repeat(if number == 20 { 9_000 } else { 500 });
        span.attributes.clear();
        spans_of.push(span);
    }
    let total = spans(&request);
    let small_ones: usize = {
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans).filter(|span| span.encoded_len() < 7_000).count()
    };
    let (rejected, message) = gateway.export(request).await.unwrap().expect("some do not fit");
    assert_eq!(rejected as usize, total - small_ones);
    assert!(message.contains("relay.max_message_bytes"), "{message}");
    let count = |records: &[rdkafka::message::OwnedMessage]| -> usize {
        let values = records.iter().map(|record| record.payload().unwrap());
        values.map(|value| spans(&ExportTraceServiceRequest::decode(value).unwrap())).sum()
    };
    let records = brokers.read_until(&topic, 1, |records| count(records) >= small_ones);
    assert_eq!(count(&records), small_ones);
    assert!(records.iter().all(|record| record.payload().unwrap().len() <= 8_192) && records.len() > 2);
    gateway.close().await;
}
