//! The receivers on real sockets, with real clients, good input and bad.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use assayd::domain::{ByteSize, Period, Span, Value};
use assayd::receive::{self, Acknowledge, Config, Delivery, Door};
use assayd::ticket::Outcome;
use bytes::{Buf, BufMut, Bytes};
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as WireSpan};
use prost::Message;
use serde_json::{Value as Json, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Both receivers on free ports, and what comes through the door.
struct House {
    grpc: SocketAddr,
    http: SocketAddr,
    door: Door,
    deliveries: mpsc::Receiver<Delivery>,
    shutdown: CancellationToken,
    servers: Vec<JoinHandle<std::io::Result<()>>>,
}

/// Without a store behind the door, what is admitted is in memory only.
fn in_memory() -> Config {
    Config { acknowledge: Acknowledge::Admitted, ..Config::default() }
}

impl House {
    async fn open() -> Self {
        Self::with(in_memory()).await
    }

    async fn with(config: Config) -> Self {
        let (door, deliveries) = receive::open(&config);
        let grpc = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (grpc_address, http_address) = (grpc.local_addr().unwrap(), http.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let servers = vec![
            tokio::spawn({
                let (config, door, shutdown) = (config.clone(), door.clone(), shutdown.clone());
                async move { receive::serve_grpc(grpc, &config, door, shutdown).await }
            }),
            tokio::spawn({
                let (door, shutdown) = (door.clone(), shutdown.clone());
                async move { receive::serve_http(http, &config, door, shutdown).await }
            }),
        ];
        Self { grpc: grpc_address, http: http_address, door, deliveries, shutdown, servers }
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.grpc)).unwrap().connect().await.unwrap()
    }

    async fn traces_client(&self) -> TraceServiceClient<Channel> {
        TraceServiceClient::new(self.channel().await)
    }

    /// Sends bytes as they are to the method for traces.
    async fn raw_grpc(&self, body: Vec<u8>) -> Result<Bytes, Status> {
        let mut client = tonic::client::Grpc::new(self.channel().await);
        client.ready().await.unwrap();
        let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export".parse().unwrap();
        client.unary(tonic::Request::new(body.into()), path, Raw).await.map(tonic::Response::into_inner)
    }

    fn post(&self, path: &str) -> reqwest::RequestBuilder {
        reqwest::Client::new().post(format!("http://{}{path}", self.http))
    }

    async fn post_protobuf(&self, body: Vec<u8>) -> reqwest::Response {
        self.post("/v1/traces")
            .header("content-type", "application/x-protobuf")
            .body(body)
            .send()
            .await
            .unwrap()
    }

    async fn post_json(&self, body: impl Into<reqwest::Body>) -> reqwest::Response {
        self.post("/v1/traces").header("content-type", "application/json").body(body).send().await.unwrap()
    }

    fn next_spans(&mut self) -> Vec<Span> {
        let (spans, _, mut stakes) = self.deliveries.try_recv().unwrap().into_parts();
        stakes.cut(usize::MAX).settle(Outcome::Done);
        spans
    }

    fn nothing_came(&mut self) -> bool {
        self.deliveries.try_recv().is_err()
    }
}

/// Bytes in, bytes out.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

fn text(text: &str) -> Option<AnyValue> {
    Some(AnyValue { value: Some(any_value::Value::StringValue(text.into())) })
}

fn pair(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.into(), value: text(value), ..Default::default() }
}

fn span(id: u16) -> WireSpan {
    let mut span_id = vec![1; 8];
    span_id[..2].copy_from_slice(&id.to_be_bytes());
    WireSpan { trace_id: vec![7; 16], span_id, name: "chat".into(), ..Default::default() }
}

fn request(spans: Vec<WireSpan>) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..Default::default() }] }
}

fn logs_request(log_records: Vec<LogRecord>) -> ExportLogsServiceRequest {
    let scope_logs = vec![ScopeLogs { log_records, ..Default::default() }];
    ExportLogsServiceRequest { resource_logs: vec![ResourceLogs { scope_logs, ..Default::default() }] }
}

fn record() -> LogRecord {
    LogRecord { trace_id: vec![7; 16], event_name: "gen_ai.choice".into(), ..Default::default() }
}

fn json_request() -> Json {
    let span = json!({ "traceId": "07".repeat(16), "spanId": "01".repeat(8), "name": "chat" });
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn small(max_bytes: u64) -> Config {
    Config {
        max_bytes: ByteSize(max_bytes),
        max_message: ByteSize(max_bytes.min(100_000)),
        wait: Period::millis(10),
        retry_after: Period::millis(1500),
        ..in_memory()
    }
}

async fn status_of(response: reqwest::Response) -> tonic_types::pb::Status {
    assert_eq!(response.headers()["content-type"], "application/x-protobuf");
    tonic_types::pb::Status::decode(response.bytes().await.unwrap()).unwrap()
}

#[tokio::test]
async fn grpc_takes_traces_and_logs_plain_and_compressed_both_ways() {
    let mut house = House::open().await;
    let plain = house.traces_client().await;
    let gzip =
        plain.clone().send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
    let zstd =
        plain.clone().send_compressed(CompressionEncoding::Zstd).accept_compressed(CompressionEncoding::Zstd);
    for (mut client, encoding) in [(plain, None), (gzip, Some("gzip")), (zstd, Some("zstd"))] {
        let response = client.export(request(vec![span(1), span(2)])).await.unwrap();
        let sent = response.metadata().get("grpc-encoding").map(|name| name.to_str().unwrap().to_owned());
        assert_eq!(sent.as_deref(), encoding);
        assert_eq!(response.into_inner(), ExportTraceServiceResponse::default());
        assert_eq!(house.next_spans().len(), 2);
    }
    let mut logs = LogsServiceClient::new(house.channel().await);
    let without_trace = LogRecord::default();
    let response = logs.export(logs_request(vec![record(), without_trace])).await.unwrap().into_inner();
    assert_eq!(response, ExportLogsServiceResponse::default(), "a record without a trace is no error");
    let (spans, records, _) = house.deliveries.try_recv().unwrap().into_parts();
    assert_eq!((spans.len(), records.len(), &*records[0].event_name), (0, 1, "gen_ai.choice"));
}

#[tokio::test]
async fn a_bad_span_is_a_partial_success_with_a_reason_on_every_wire() {
    let mut house = House::open().await;
    let bad = WireSpan { span_id: vec![1; 3], ..span(1) };
    let mixed = request(vec![bad, span(2)]);
    let reason = "span \"chat\": span id has 3 bytes, not 8";

    let response = house.traces_client().await.export(mixed.clone()).await.unwrap().into_inner();
    let partial = response.partial_success.unwrap();
    assert_eq!((partial.rejected_spans, &*partial.error_message), (1, reason));
    assert_eq!(house.next_spans().len(), 1);

    let response = house.post_protobuf(mixed.encode_to_vec()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/x-protobuf".parse().unwrap())
    );
    let response = ExportTraceServiceResponse::decode(response.bytes().await.unwrap()).unwrap();
    assert_eq!(response.partial_success.unwrap().error_message, reason);
    assert_eq!(house.next_spans().len(), 1);

    let mut body = json_request();
    let bad = json!({ "traceId": "07".repeat(16), "spanId": "010101", "name": "chat" });
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array_mut().unwrap().push(bad);
    let response = house.post_json(body.to_string()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let response: Json = response.json().await.unwrap();
    assert_eq!(response, json!({ "partialSuccess": { "rejectedSpans": "1", "errorMessage": reason } }));
    assert_eq!(house.next_spans().len(), 1);

    let all_bad = request(vec![WireSpan::default()]);
    let response = house.traces_client().await.export(all_bad).await.unwrap().into_inner();
    assert_eq!(response.partial_success.unwrap().rejected_spans, 1);
    assert!(house.nothing_came());
}

#[tokio::test]
async fn http_takes_protobuf_and_json_plain_and_compressed() {
    let mut house = House::open().await;
    let protobuf = request(vec![span(1)]).encode_to_vec();
    let json = json_request().to_string().into_bytes();
    for (media_type, body) in
        [("application/x-protobuf", protobuf), ("application/json; charset=utf-8", json)]
    {
        let zstd = zstd::encode_all(&body[..], 3).unwrap();
        for (encoding, body) in [("identity", body.clone()), ("gzip", gzip(&body)), ("zstd", zstd)] {
            let request = house.post("/v1/traces").header("content-type", media_type);
            let response = request.header("content-encoding", encoding).body(body).send().await.unwrap();
            assert_eq!(response.status(), 200, "{media_type} {encoding}");
            assert_eq!(response.headers()["content-type"], media_type.split(';').next().unwrap());
            let expected: &[u8] = if media_type.contains("json") { b"{}" } else { b"" };
            assert_eq!(response.bytes().await.unwrap(), expected);
            assert_eq!(house.next_spans()[0].name, "chat");
        }
    }
    let request = house.post("/v1/logs").header("content-type", "application/x-protobuf");
    let response = request.body(logs_request(vec![record()]).encode_to_vec()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let (_, records, _) = house.deliveries.try_recv().unwrap().into_parts();
    assert_eq!(records.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_the_senders_fault_and_says_why() {
    let mut house = House::open().await;
    let mut not_utf8 = request(vec![span(1)]).encode_to_vec();
    let name = not_utf8.windows(4).position(|window| window == b"chat").unwrap();
    not_utf8[name] = 0xff;
    let mut half = request(vec![span(1)]).encode_to_vec();
    half.truncate(half.len() - 5);
    for (bad, word) in [(not_utf8, "UTF-8"), (half, "OTLP"), (b"hello".to_vec(), "OTLP")] {
        let status = house.raw_grpc(bad.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(word), "{status}");
        let response = house.post_protobuf(bad).await;
        assert_eq!(response.status(), 400);
        let status = status_of(response).await;
        assert_eq!(status.code, i32::from(Code::InvalidArgument));
        assert!(status.message.contains(word), "{status:?}");
    }
    let unknown = "{\"resourceMetrics\": []}".as_bytes().to_vec();
    for bad in [b"{\"resourceSpans\": [".to_vec(), unknown, b"{\"resourceSpans\": \"\xff\"}".to_vec(), vec![]]
    {
        let response = house.post_json(bad).await;
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()["content-type"], "application/json");
        let body: Json = response.json().await.unwrap();
        assert_eq!(body["code"], i32::from(Code::InvalidArgument));
        assert!(body["message"].as_str().unwrap().contains("OTLP/JSON"), "{body}");
    }
    let request = house.post("/v1/traces").header("content-type", "application/x-protobuf");
    let response = request.header("content-encoding", "gzip").body("not gzip").send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(house.nothing_came());
}

#[tokio::test]
async fn wrong_media_types_encodings_paths_and_methods_are_refused() {
    let house = House::open().await;
    let body = || request(vec![span(1)]).encode_to_vec();
    for media_type in ["text/plain", "application/xml", ""] {
        let response =
            house.post("/v1/traces").header("content-type", media_type).body(body()).send().await.unwrap();
        assert_eq!(response.status(), 415, "{media_type}");
        let answer: Json = response.json().await.unwrap();
        assert!(answer["message"].as_str().unwrap().contains("application/x-protobuf"), "{answer}");
    }
    assert_eq!(house.post("/v1/traces").body(body()).send().await.unwrap().status(), 415);
    let request = house.post("/v1/traces").header("content-type", "application/x-protobuf");
    let response = request.header("content-encoding", "br").body(body()).send().await.unwrap();
    assert_eq!(response.status(), 415);
    assert_eq!(house.post("/v1/metrics").body(body()).send().await.unwrap().status(), 404);
    let get = reqwest::get(format!("http://{}/v1/traces", house.http)).await.unwrap();
    assert_eq!(get.status(), 405);

    let mut client = tonic::client::Grpc::new(house.channel().await);
    client.ready().await.unwrap();
    let path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export".parse().unwrap();
    let status = client.unary(tonic::Request::new(Bytes::new()), path, Raw).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn too_large_is_refused_for_good_and_bombs_do_not_unpack() {
    let config = Config { max_message: ByteSize(100_000), ..in_memory() };
    let mut house = House::with(config).await;
    let large = WireSpan { attributes: vec![pair("text", &"a".repeat(200_000))], ..span(1) };
    let large = request(vec![large]);
    let packed = gzip(&large.encode_to_vec());
    assert!(packed.len() < 1000);

    let plain = house.traces_client().await;
    let gzip_client = plain.clone().send_compressed(CompressionEncoding::Gzip);
    for mut client in [plain, gzip_client] {
        let status = client.export(large.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.get_details_retry_info().is_none(), "the same will never fit");
    }
    assert_eq!(house.post_protobuf(large.encode_to_vec()).await.status(), 413);
    assert_eq!(house.post_protobuf(vec![b'x'; 390_000]).await.status(), 413);
    for (encoding, body) in
        [("gzip", packed), ("zstd", zstd::encode_all(&large.encode_to_vec()[..], 3).unwrap())]
    {
        let request = house.post("/v1/traces").header("content-type", "application/x-protobuf");
        let response = request.header("content-encoding", encoding).body(body).send().await.unwrap();
        assert_eq!(response.status(), 413);
        assert!(status_of(response).await.message.contains("receive.max_message"));
    }
    assert!(house.nothing_came());
    house.traces_client().await.export(request(vec![span(1)])).await.unwrap();
    assert_eq!(house.next_spans().len(), 1, "and the next one is served as before");
    assert_eq!(house.door.held_bytes(), 0, "nothing refused holds memory");
}

#[tokio::test]
async fn a_small_body_that_becomes_large_when_it_is_decoded_is_refused_before_that() {
    let config = Config { max_bytes: ByteSize::mib(32), max_message: ByteSize::mib(4), ..in_memory() };
    let mut house = House::with(config).await;
    // Two bytes each: a million resources without anything, in one kilobyte or so.
    let empty = b"\x0a\x00".repeat(1 << 20);
    let json = format!(r#"{{"resourceSpans":[{}{{}}]}}"#, "{},".repeat(1 << 20));
    let bodies = [("application/x-protobuf", gzip(&empty)), ("application/json", gzip(json.as_bytes()))];
    for (media_type, body) in bodies {
        assert!(body.len() < 16 << 10);
        let request = house.post("/v1/traces").header("content-type", media_type);
        let response = request.header("content-encoding", "gzip").body(body).send().await.unwrap();
        assert_eq!(response.status(), 413, "{media_type}");
    }
    assert!(house.nothing_came());
    assert_eq!(house.door.held_bytes(), 0);
    house.traces_client().await.export(request(vec![span(1)])).await.unwrap();
    assert_eq!(house.next_spans().len(), 1, "and the next one is served as before");
}

#[tokio::test]
async fn a_small_grpc_request_that_unpacks_to_much_is_held_at_what_it_unpacks_to() {
    let config = Config {
        max_bytes: ByteSize(2_000_000),
        max_message: ByteSize::mib(1),
        wait: Period::millis(10),
        ..in_memory()
    };
    let mut house = House::with(config).await;
    let large = request(vec![WireSpan { attributes: vec![pair("text", &"a".repeat(900_000))], ..span(1) }]);
    assert!(gzip(&large.encode_to_vec()).len() < 10_000);
    // Somebody else has 700,000 of the 2,000,000 bytes: there is room for what was sent and for what is made of it, but not for
    // what lies between, the bytes that were unpacked.
    let mut slow = TcpStream::connect(house.http).await.unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-protobuf\r\ncontent-length: 800000\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut slow, head.as_bytes()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut slow, &vec![0; 700_000]).await.unwrap();
    while house.door.held_bytes() < 700_000 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let client = house.traces_client().await;
    let clients = [CompressionEncoding::Gzip, CompressionEncoding::Zstd]
        .map(|encoding| client.clone().send_compressed(encoding));
    for mut client in clients.clone() {
        let status = client.export(large.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.get_details_retry_info().is_some(), "there is room for it at another time");
    }
    assert!(house.nothing_came());
    drop(slow);
    while house.door.held_bytes() > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for mut client in clients {
        client.export(large.clone()).await.unwrap();
        assert_eq!(house.next_spans().len(), 1);
    }
    assert_eq!(house.door.held_bytes(), 0);
}

#[tokio::test]
async fn overload_says_when_to_come_back_and_then_lets_in() {
    let mut house = House::with(small(5_000)).await;
    let mut client = house.traces_client().await;
    let spans = || request((1..4).map(span).collect());
    let mut admitted = 0;
    let status = loop {
        match client.export(spans()).await {
            Ok(_) => admitted += 1,
            Err(status) => break status,
        }
    };
    assert!((1..10).contains(&admitted), "{admitted}");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let delay = status.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(delay, Some(Duration::from_millis(1500)));

    let response = house.post_protobuf(spans().encode_to_vec()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"2".parse().unwrap())
    );
    let status = status_of(response).await;
    assert_eq!((status.code, status.details.len()), (i32::from(Code::Unavailable), 1));
    let mut json = json_request();
    let spans_json = &mut json["resourceSpans"][0]["scopeSpans"][0]["spans"];
    *spans_json = Json::Array(vec![spans_json[0].clone(); 3]);
    let response = house.post_json(json.to_string()).await;
    assert_eq!(response.status(), 429);
    let body: Json = response.json().await.unwrap();
    assert_eq!(body["details"][0]["retryDelay"], "1.5s");

    for _ in 0..admitted {
        assert_eq!(house.next_spans().len(), 3);
    }
    assert_eq!(house.door.held_bytes(), 0, "the traces are done and their memory is free");
    client.export(spans()).await.unwrap();
}

#[tokio::test]
async fn a_request_that_arrives_slowly_holds_memory_from_its_first_byte() {
    let house = House::with(small(50_000)).await;
    let mut slow = TcpStream::connect(house.http).await.unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-protobuf\r\ncontent-length: 45000\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut slow, head.as_bytes()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut slow, &[0; 40_000]).await.unwrap();
    while house.door.held_bytes() < 40_000 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let large = WireSpan { attributes: vec![pair("text", &"a".repeat(20_000))], ..span(1) };
    let status = house.traces_client().await.export(request(vec![large])).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.get_details_retry_info().is_some());
    drop(slow);
    while house.door.held_bytes() > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn slow_senders_are_let_go() {
    let house = House::with(Config { request_timeout: Period::millis(100), ..in_memory() }).await;
    let read_all = |address: SocketAddr, sent: &'static str| {
        tokio::task::spawn_blocking(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.write_all(sent.as_bytes()).unwrap();
            let mut answer = String::new();
            // Ends when the daemon closes the connection; a reset is an end too.
            let _ = stream.read_to_string(&mut answer).map_err(|error| {
                assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the daemon waits for ever");
            });
            answer
        })
    };
    let silent = read_all(house.http, "");
    let half_a_head = read_all(house.http, "POST /v1/traces HTTP/1.1\r\nhost: a\r\n");
    let half_a_body = read_all(
        house.http,
        "POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    );
    silent.await.unwrap();
    half_a_head.await.unwrap();
    let answer = half_a_body.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer:?}");
    assert!(answer.contains("receive.request_timeout"), "{answer:?}");
}

#[tokio::test]
async fn a_closed_door_refuses_and_receivers_end_after_what_is_in_flight() {
    let mut house = House::open().await;
    let mut client = house.traces_client().await;
    client.export(request(vec![span(1)])).await.unwrap();
    house.door.close();
    let status = client.export(request(vec![span(1)])).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.get_details_retry_info().is_some());
    let response = house.post_json(json_request().to_string()).await;
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key("retry-after"));

    house.shutdown.cancel();
    for server in house.servers.drain(..) {
        server.await.unwrap().unwrap();
    }
    assert!(TcpStream::connect(house.http).await.is_err(), "the port is free again");
    assert!(TcpStream::connect(house.grpc).await.is_err(), "the port is free again");
    drop(house.door);
    assert!(house.deliveries.recv().await.is_some());
    assert!(house.deliveries.recv().await.is_none(), "no receiver holds the door open");
}

#[tokio::test]
async fn what_must_be_stored_and_cannot_is_not_acknowledged() {
    let mut house = House::with(Config { acknowledge: Acknowledge::Stored, ..Config::default() }).await;
    let status = house.traces_client().await.export(request(vec![span(1)])).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.get_details_retry_info().is_some());
    let response = house.post_json(json_request().to_string()).await;
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key("retry-after"));
    assert!(house.nothing_came());
}

#[tokio::test]
async fn own_telemetry_is_taken_and_dropped() {
    let mut house = House::open().await;
    let mut by_service = request(vec![span(1)]);
    by_service.resource_spans[0].resource =
        Some(Resource { attributes: vec![pair("service.name", "assayd")], ..Default::default() });
    let mut by_scope = request(vec![span(1)]);
    by_scope.resource_spans[0].scope_spans[0].scope =
        Some(InstrumentationScope { name: "assayd.emit".into(), ..Default::default() });
    let mut client = house.traces_client().await;
    for own in [by_service, by_scope] {
        assert_eq!(client.export(own).await.unwrap().into_inner().partial_success, None);
        assert!(house.nothing_came());
    }
}

#[tokio::test]
async fn strange_but_valid_spans_come_through_as_they_are() {
    let mut house = House::open().await;
    let mut client = house.traces_client().await;
    let backwards = WireSpan { start_time_unix_nano: 9, end_time_unix_nano: 3, ..span(1) };
    let itself = WireSpan { parent_span_id: span(2).span_id, ..span(2) };
    let twice = span(1);
    let heavy = WireSpan { attributes: vec![pair("text", &"é".repeat(50_000))], ..span(3) };
    client.export(request(vec![backwards, itself, twice, heavy])).await.unwrap();
    let spans = house.next_spans();
    assert_eq!(spans.len(), 4);
    assert!(spans[0].start > spans[0].end);
    assert_eq!(spans[1].parent_id, Some(spans[1].span_id));
    assert!(matches!(spans[3].attributes.get("text"), Some(Value::String(text)) if text.len() == 100_000));

    client.export(request((0..10_000).map(span).collect())).await.unwrap();
    assert_eq!(house.next_spans().len(), 10_000);
    client.export(request(vec![])).await.unwrap();
    assert!(house.nothing_came(), "an empty request is an empty success");
}

#[tokio::test]
async fn base64_ids_in_json_are_tolerated() {
    let mut house = House::open().await;
    let span = json!({ "traceId": "S/kvNXezTaajzpKdDg5HNg==", "spanId": "APBnqgupArc=" });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    assert_eq!(house.post_json(body.to_string()).await.status(), 200);
    assert_eq!(house.next_spans()[0].trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
}
