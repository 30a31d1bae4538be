use std::collections::VecDeque;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Instant;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use futures::future::join_all;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::*;
use crate::domain::Period;
use crate::emit::config::{OtlpCompression, OtlpProtocol, RecentConfig, RetryConfig};
use crate::emit::{Recent, Sinks, sample};
use crate::net::TlsClient;
use crate::secret::Secret;

/// A receiver that answers as scripted, then takes everything. Over both protocols it keeps what came, and when.
#[derive(Clone, Default)]
struct Receiver(Arc<Inner>);

#[derive(Default)]
struct Inner {
    script: Mutex<VecDeque<Answer>>,
    /// Refuses requests that hold this verdict, as `INVALID_ARGUMENT` or 400.
    poison: Option<&'static str>,
    taken: Mutex<Vec<Taken>>,
}

#[derive(Clone)]
enum Answer {
    Status(Code, Option<Duration>),
    Http(u16, Option<&'static str>),
    Rejects(i64),
}

struct Taken {
    at: Instant,
    request: ExportLogsServiceRequest,
    authorization: Option<String>,
    encoding: Option<String>,
}

impl Receiver {
    fn scripted(answers: &[Answer]) -> Self {
        Self(Arc::new(Inner { script: Mutex::new(answers.iter().cloned().collect()), ..Inner::default() }))
    }

    fn allergic(poison: &'static str) -> Self {
        Self(Arc::new(Inner { poison: Some(poison), ..Inner::default() }))
    }

    fn take(
        &self,
        request: ExportLogsServiceRequest,
        header: impl Fn(&str) -> Option<String>,
    ) -> Option<Answer> {
        let is_poison = self.0.poison.is_some_and(|poison| verdicts(&request).iter().any(|id| id == poison));
        let taken = Taken {
            at: Instant::now(),
            request,
            authorization: header("authorization"),
            encoding: header("grpc-encoding").or_else(|| header("content-encoding")),
        };
        self.0.taken.lock().unwrap().push(taken);
        if is_poison {
            return Some(Answer::Status(Code::InvalidArgument, None));
        }
        self.0.script.lock().unwrap().pop_front()
    }

    /// The verdicts of each request.
    fn requests(&self) -> Vec<Vec<String>> {
        self.0.taken.lock().unwrap().iter().map(|taken| verdicts(&taken.request)).collect()
    }

    async fn grpc(&self, tls: Option<ServerTlsConfig>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service =
            LogsServiceServer::new(self.clone()).accept_compressed(tonic::codec::CompressionEncoding::Gzip);
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        tokio::spawn(server.add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    async fn http(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = self.clone();
        let logs = move |headers: HeaderMap, body: Bytes| async move { receiver.post(&headers, &body) };
        let router = axum::Router::new().route("/v1/logs", axum::routing::post(logs));
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    fn post(&self, headers: &HeaderMap, body: &[u8]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut plain = body.to_vec();
        if header("content-encoding").as_deref() == Some("gzip") {
            plain.clear();
            flate2::read::GzDecoder::new(body).read_to_end(&mut plain).unwrap();
        }
        assert_eq!(header("content-type").as_deref(), Some("application/x-protobuf"));
        let request = ExportLogsServiceRequest::decode(&*plain).unwrap();
        let mut told = HeaderMap::new();
        let mut response = ExportLogsServiceResponse::default();
        let status = match self.take(request, header) {
            None => 200,
            Some(Answer::Rejects(count)) => {
                response.partial_success = Some(partial(count));
                200
            }
            Some(Answer::Http(status, retry_after)) => {
                if let Some(after) = retry_after {
                    told.insert("retry-after", after.parse().unwrap());
                }
                if status == 307 {
                    told.insert("location", "http://127.0.0.1:1/elsewhere".parse().unwrap());
                }
                status
            }
            Some(Answer::Status(..)) => 400,
        };
        (StatusCode::from_u16(status).unwrap(), told, response.encode_to_vec())
    }
}

#[tonic::async_trait]
impl LogsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let (metadata, _, body) = request.into_parts();
        let header = |name: &str| metadata.get(name).map(|value| value.to_str().unwrap().to_owned());
        match self.take(body, header) {
            None | Some(Answer::Http(..)) => Ok(Response::new(ExportLogsServiceResponse::default())),
            Some(Answer::Rejects(count)) => {
                Ok(Response::new(ExportLogsServiceResponse { partial_success: Some(partial(count)) }))
            }
            Some(Answer::Status(code, retry)) => Err(match retry {
                Some(delay) => {
                    Status::with_error_details(code, "not now", ErrorDetails::with_retry_info(Some(delay)))
                }
                None => Status::new(code, "no"),
            }),
        }
    }
}

fn partial(count: i64) -> ExportLogsPartialSuccess {
    ExportLogsPartialSuccess { rejected_log_records: count, error_message: "too old".into() }
}

/// The verdicts of a request, each once, in order.
fn verdicts(request: &ExportLogsServiceRequest) -> Vec<String> {
    let scopes = request.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
    let attributes = scopes.flat_map(|scope| &scope.log_records).flat_map(|record| &record.attributes);
    let mut ids: Vec<String> = attributes
        .filter(|pair| pair.key == "assayd.verdict.id")
        .map(|pair| match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
            Value::StringValue(id) => id.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    ids.dedup();
    ids
}

fn config(address: SocketAddr, protocol: OtlpProtocol) -> OtlpConfig {
    OtlpConfig { endpoint: format!("http://{address}"), protocol, ..OtlpConfig::default() }
}

/// The fan-out over one OTLP sink: what is to be tried again is.
fn sinks(config: &OtlpConfig) -> (Sinks, CancellationToken) {
    let give_up = CancellationToken::new();
    let retry = RetryConfig { first: Period::millis(1), longest: Period::millis(2) };
    let mut sinks = Sinks::none(retry, Recent::new(&RecentConfig::default()), give_up.clone());
    sinks.add("otlp", Otlp::open(config).unwrap());
    (sinks, give_up)
}

async fn receivers(receiver: &Receiver) -> [OtlpConfig; 2] {
    [config(receiver.grpc(None).await, OtlpProtocol::Grpc), config(receiver.http().await, OtlpProtocol::Http)]
}

#[tokio::test]
async fn a_written_verdict_is_there_over_both_protocols_compressed_and_with_its_headers() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "Bearer first").unwrap();
    let receiver = Receiver::default();
    for mut config in receivers(&receiver).await {
        config.headers.insert("authorization".into(), Secret::File(secret.path().to_owned()));
        let before = receiver.requests().len();
        let sink = Otlp::open(&config).unwrap();
        std::fs::write(secret.path(), "Bearer rotated").unwrap();
        sink.write(&sample::full()).await.unwrap();
        let taken = receiver.0.taken.lock().unwrap();
        assert_eq!(taken.len(), before + 1, "Ok comes when the receiver has it, and it has it once");
        let last = taken.last().unwrap();
        assert_eq!(last.authorization.as_deref(), Some("Bearer rotated"));
        assert_eq!(last.encoding.as_deref(), Some("gzip"));
        let resource = last.request.resource_logs[0].resource.as_ref().unwrap();
        let service = resource.attributes.iter().find(|pair| pair.key == "service.name").unwrap();
        let name = Some(Value::StringValue("assayd".into()));
        assert_eq!(service.value.as_ref().unwrap().value, name, "assayd knows its own by this");
        let record = &last.request.resource_logs[0].scope_logs[0].log_records[0];
        assert_eq!(record.span_id, sample::full().evaluated_span_id.unwrap().as_bytes());
    }
}

#[tokio::test]
async fn verdicts_that_wait_together_travel_together() {
    let receiver = Receiver::default();
    let mut config = config(receiver.grpc(None).await, OtlpProtocol::Grpc);
    config.linger = Period::millis(200);
    config.compression = OtlpCompression::None;
    let sink = Otlp::open(&config).unwrap();
    let all: Vec<_> = (0..20).map(sample::numbered).collect();
    for result in join_all(all.iter().map(|verdict| sink.write(verdict))).await {
        result.unwrap();
    }
    let requests = receiver.requests();
    assert!(requests.len() < 5, "{}", requests.len());
    assert_eq!(requests.concat().len(), 20);
    assert_eq!(receiver.0.taken.lock().unwrap()[0].encoding, None);
}

#[tokio::test]
async fn a_receiver_that_is_busy_is_asked_again_when_it_says() {
    let pause = Duration::from_millis(300);
    let grpc = Receiver::scripted(&[
        Answer::Status(Code::ResourceExhausted, Some(pause)),
        Answer::Status(Code::Unavailable, None),
    ]);
    let http = Receiver::scripted(&[Answer::Http(503, Some("0.3")), Answer::Http(429, None)]);
    let configs =
        [config(grpc.grpc(None).await, OtlpProtocol::Grpc), config(http.http().await, OtlpProtocol::Http)];
    for (receiver, config) in [&grpc, &http].into_iter().zip(configs) {
        let (sinks, _) = sinks(&config);
        sinks.write(&sample::numbered(1)).await.unwrap();
        let taken = receiver.0.taken.lock().unwrap();
        assert_eq!(taken.len(), 3);
        assert!(taken[1].at - taken[0].at >= pause, "nothing was sent before the receiver wanted it");
    }
}

#[tokio::test]
async fn a_receiver_that_is_away_is_waited_for_until_the_daemon_gives_up() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::Http] {
        let error =
            Otlp::open(&config(address, protocol)).unwrap().write(&sample::numbered(1)).await.unwrap_err();
        assert_eq!(error.fault, Fault::Transient, "{protocol:?}: {error}");
        let (sinks, give_up) = sinks(&config(address, protocol));
        let verdict = sample::numbered(1);
        let (result, ()) = tokio::join!(sinks.write(&verdict), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            give_up.cancel();
        });
        assert!(result.is_err());
    }
}

#[tokio::test]
async fn one_verdict_that_a_receiver_refuses_does_not_spoil_the_others() {
    let receiver = Receiver::allergic("verdict-3");
    for mut config in receivers(&receiver).await {
        config.linger = Period::millis(200);
        let sink = Otlp::open(&config).unwrap();
        let all: Vec<_> = (0..6).map(sample::numbered).collect();
        let results = join_all(all.iter().map(|verdict| sink.write(verdict))).await;
        for (number, result) in results.into_iter().enumerate() {
            match result {
                Ok(()) => assert_ne!(number, 3),
                Err(error) => assert_eq!((number, error.fault), (3, Fault::Poison)),
            }
        }
    }
}

#[tokio::test]
async fn what_a_receiver_will_never_take_is_not_sent_again() {
    let grpc = Receiver::scripted(&[Answer::Status(Code::Unauthenticated, None)]);
    let http = Receiver::scripted(&[Answer::Http(404, None), Answer::Http(307, None)]);
    let error = Otlp::open(&config(grpc.grpc(None).await, OtlpProtocol::Grpc)).unwrap();
    let error = error.write(&sample::numbered(1)).await.unwrap_err();
    assert_eq!(error.fault, Fault::Poison);
    assert!(error.to_string().contains("Unauthenticated"), "{error}");
    let sink = Otlp::open(&config(http.http().await, OtlpProtocol::Http)).unwrap();
    for _ in 0..2 {
        assert_eq!(sink.write(&sample::numbered(1)).await.unwrap_err().fault, Fault::Poison);
    }
    assert_eq!((grpc.requests().len(), http.requests().len()), (1, 2), "a redirect is not followed either");
}

#[tokio::test]
async fn records_that_a_receiver_leaves_out_are_not_called_written() {
    let receiver = Receiver::scripted(&[Answer::Rejects(1_000), Answer::Rejects(1), Answer::Rejects(0)]);
    let sink = Otlp::open(&config(receiver.grpc(None).await, OtlpProtocol::Grpc)).unwrap();
    for _ in 0..2 {
        let error = sink.write(&sample::numbered(1)).await.unwrap_err();
        assert_eq!(error.fault, Fault::Poison);
        assert!(error.to_string().contains("too old"), "{error}");
    }
    // Zero with a message is a warning, not a refusal.
    sink.write(&sample::numbered(1)).await.unwrap();
}

#[tokio::test]
async fn skipped_traces_are_sent_only_if_asked_for() {
    let receiver = Receiver::default();
    let mut config = config(receiver.grpc(None).await, OtlpProtocol::Grpc);
    Otlp::open(&config).unwrap().write(&sample::skipped()).await.unwrap();
    assert_eq!(receiver.requests().len(), 0);
    config.skipped = true;
    Otlp::open(&config).unwrap().write(&sample::skipped()).await.unwrap();
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn over_tls_only_the_trusted_receiver_gets_the_records() {
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &certificate).unwrap();
    let receiver = Receiver::default();
    // It asks for a certificate too: mutual TLS.
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&certificate, &key))
        .client_ca_root(Certificate::from_pem(&certificate));
    let port = receiver.grpc(Some(tls)).await.port();
    let own = folder.path().join("own.pem");
    let own_key = folder.path().join("own.key");
    std::fs::write(&own, &certificate).unwrap();
    std::fs::write(&own_key, &key).unwrap();
    let mut config = OtlpConfig { endpoint: format!("https://localhost:{port}"), ..OtlpConfig::default() };
    config.tls = Some(TlsClient { ca: Some(ca), certificate: Some(own), key: Some(own_key) });
    Otlp::open(&config).unwrap().write(&sample::full()).await.unwrap();
    assert_eq!(receiver.requests().len(), 1);

    config.tls = None;
    let error = Otlp::open(&config).unwrap().write(&sample::full()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Transient, "{error}");
    assert_eq!(receiver.requests().len(), 1);
    config.tls = Some(TlsClient { ca: Some(folder.path().join("none.pem")), ..TlsClient::default() });
    let error = Otlp::open(&config).err().unwrap();
    assert!(error.to_string().contains("none.pem"), "{error}");
}
