//! One request to an OTLP receiver, over gRPC or HTTP, and what its answer asks of us. For log records and for spans.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{StatusCode, Url};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::config::{OtlpCompression, OtlpProtocol, Receiver};
use super::web;
use crate::error::Fault;
use crate::net::TlsClient;
use crate::secret::Secret;

/// A request that the receiver took.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// Records that it left out.
    pub rejected: u64,
    /// Why.
    pub message: String,
}

/// A request that it did not take.
#[derive(Debug, PartialEq)]
pub(super) struct Failure {
    pub message: String,
    pub fault: Fault,
    /// When it wants to be asked again.
    pub retry_after: Option<Duration>,
    /// Whether another content could have been taken.
    pub is_about_content: bool,
}

impl Failure {
    /// It may be taken later.
    fn later(message: String, retry_after: Option<Duration>) -> Self {
        Self { message, fault: Fault::Transient, retry_after, is_about_content: false }
    }

    /// It will never be taken.
    pub(super) fn refused(message: String, is_about_content: bool) -> Self {
        Self { message, fault: Fault::Poison, retry_after: None, is_about_content }
    }
}

/// The receiver's client.
pub(super) struct Client {
    headers: BTreeMap<String, Secret>,
    compression: OtlpCompression,
    timeout: Duration,
    wire: Wire,
}

enum Wire {
    Grpc(Channel),
    Http(reqwest::Client, Url),
}

impl Client {
    /// Reads certificates; connects to nothing.
    pub(super) fn new(receiver: Receiver) -> Result<Self, String> {
        let wire = match receiver.protocol {
            OtlpProtocol::Grpc => Wire::Grpc(channel(receiver)?),
            OtlpProtocol::Http => {
                let client = web::client(receiver.timeout, receiver.tls)?.build();
                let base = Url::parse(receiver.endpoint)
                    .map_err(|error| format!("{}: {error}", receiver.endpoint))?;
                Wire::Http(client.map_err(|error| error.to_string())?, base)
            }
        };
        // A secret that is not there should show at the start; later ones are read per request.
        web::headers(receiver.headers)?;
        let Receiver { compression, timeout, .. } = receiver;
        Ok(Self { headers: receiver.headers.clone(), compression, timeout, wire })
    }

    /// Sends log records in one request.
    pub(super) async fn logs(&self, request: ExportLogsServiceRequest) -> Result<Accepted, Failure> {
        let encoding = self.encoding();
        let export = |channel, call| async move {
            let mut client = LogsServiceClient::new(channel);
            if let Some(encoding) = encoding {
                client = client.send_compressed(encoding);
            }
            client.export(call).await
        };
        let answer: ExportLogsServiceResponse = self.exchange("/v1/logs", request, export).await?;
        let partial = answer.partial_success.unwrap_or_default();
        Ok(Accepted::of(partial.rejected_log_records, partial.error_message))
    }

    /// Sends spans in one request.
    pub(super) async fn traces(&self, request: ExportTraceServiceRequest) -> Result<Accepted, Failure> {
        let encoding = self.encoding();
        let export = |channel, call| async move {
            let mut client = TraceServiceClient::new(channel);
            if let Some(encoding) = encoding {
                client = client.send_compressed(encoding);
            }
            client.export(call).await
        };
        let answer: ExportTraceServiceResponse = self.exchange("/v1/traces", request, export).await?;
        let partial = answer.partial_success.unwrap_or_default();
        Ok(Accepted::of(partial.rejected_spans, partial.error_message))
    }

    /// One request and its answer: over gRPC by `export`, the generated client's method, over HTTP by the signal's path.
    async fn exchange<Q: Message, A: Message + Default, F>(
        &self,
        signal: &str,
        request: Q,
        export: impl FnOnce(Channel, tonic::Request<Q>) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<tonic::Response<A>, Status>>,
    {
        match &self.wire {
            Wire::Grpc(channel) => {
                let answer = export(channel.clone(), self.call(request)?).await;
                Ok(answer.map_err(|status| of_status(&status))?.into_inner())
            }
            Wire::Http(client, base) => {
                let body = self.post(client, at(base, signal), request.encode_to_vec()).await?;
                Ok(A::decode(&*body).unwrap_or_default())
            }
        }
    }

    /// The headers with their secrets. One that cannot be read may be there again soon: its file is being replaced.
    fn headers(&self) -> Result<HeaderMap, Failure> {
        web::headers(&self.headers).map_err(|message| Failure::later(message, None))
    }

    fn encoding(&self) -> Option<CompressionEncoding> {
        match self.compression {
            OtlpCompression::Gzip => Some(CompressionEncoding::Gzip),
            OtlpCompression::None => None,
        }
    }

    fn call<T>(&self, request: T) -> Result<tonic::Request<T>, Failure> {
        let mut call = tonic::Request::new(request);
        *call.metadata_mut() = MetadataMap::from_headers(self.headers()?);
        call.set_timeout(self.timeout);
        Ok(call)
    }

    /// The body of a success. One that cannot be read, or is JSON all the same, does not undo the success.
    async fn post(&self, client: &reqwest::Client, url: Url, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let mut post =
            client.post(url).headers(self.headers()?).header(CONTENT_TYPE, "application/x-protobuf");
        post = match self.compression {
            OtlpCompression::Gzip => post.header(CONTENT_ENCODING, "gzip").body(gzip(&bytes)),
            OtlpCompression::None => post.body(bytes),
        };
        let response = post.send().await.map_err(|error| Failure::later(web::unreachable(&error), None))?;
        let status = response.status();
        if !status.is_success() {
            let retry_after = web::retry_after(response.headers(), SystemTime::now());
            return Err(of_http(status, retry_after, &web::body(response).await));
        }
        Ok(web::body(response).await)
    }
}

impl Accepted {
    fn of(rejected: i64, message: String) -> Self {
        Self { rejected: u64::try_from(rejected).unwrap_or_default(), message }
    }
}

fn channel(receiver: Receiver) -> Result<Channel, String> {
    let wrong = |error: tonic::transport::Error| format!("{}: {error}", receiver.endpoint);
    let mut endpoint = Endpoint::from_shared(receiver.endpoint.to_owned())
        .map_err(wrong)?
        .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")))
        .map_err(wrong)?
        .connect_timeout(receiver.timeout)
        .timeout(receiver.timeout);
    if receiver.endpoint.starts_with("https://") {
        let mut tls = ClientTlsConfig::new().with_native_roots();
        if let Some(TlsClient { ca: Some(path), .. }) = receiver.tls {
            tls = tls.ca_certificate(Certificate::from_pem(web::pem(path)?));
        }
        if let Some(TlsClient { certificate: Some(certificate), key: Some(key), .. }) = receiver.tls {
            tls = tls.identity(Identity::from_pem(web::pem(certificate)?, web::pem(key)?));
        }
        endpoint = endpoint.tls_config(tls).map_err(wrong)?;
    }
    Ok(endpoint.connect_lazy())
}

/// The address for a signal below a base address.
fn at(base: &Url, signal: &str) -> Url {
    let mut url = base.clone();
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(signal) {
        url.set_path(&format!("{path}{signal}"));
    }
    url
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes every byte")
}

/// The codes that OTLP's specification calls retryable; `RESOURCE_EXHAUSTED` only if the receiver says when.
fn of_status(status: &Status) -> Failure {
    let retry_after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    let message = format!("{:?}: {}", status.code(), web::told(status.message().as_bytes()));
    match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Failure::later(message, retry_after),
        Code::ResourceExhausted if retry_after.is_some() => Failure::later(message, retry_after),
        // Broken connections reach us as `Unknown` or `Internal` with a cause of their own.
        Code::Unknown | Code::Internal if std::error::Error::source(status).is_some() => {
            Failure::later(message, None)
        }
        Code::InvalidArgument | Code::ResourceExhausted | Code::FailedPrecondition => {
            Failure::refused(message, true)
        }
        _ => Failure::refused(message, false),
    }
}

fn of_http(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Failure {
    let message = format!("{status}: {}", web::told(body));
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Failure::later(message, retry_after),
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            Failure::refused(message, true)
        }
        _ => Failure::refused(message, false),
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn only_what_the_specification_calls_retryable_is_tried_again() {
        let fault = |code| of_status(&Status::new(code, "x")).fault;
        for code in
            [Code::Cancelled, Code::DeadlineExceeded, Code::Aborted, Code::Unavailable, Code::DataLoss]
        {
            assert_eq!(fault(code), Fault::Transient, "{code:?}");
        }
        for code in
            [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented, Code::ResourceExhausted]
        {
            assert_eq!(fault(code), Fault::Poison, "{code:?}");
        }
        for status in [429, 502, 503, 504] {
            assert_eq!(of_http(StatusCode::from_u16(status).unwrap(), None, b"").fault, Fault::Transient);
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            assert_eq!(
                of_http(StatusCode::from_u16(status).unwrap(), None, b"").fault,
                Fault::Poison,
                "{status}"
            );
        }
    }

    #[test]
    fn a_receiver_that_says_when_to_come_back_is_heard() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(250)));
        let status = Status::with_error_details(Code::ResourceExhausted, "full", details);
        let failure = of_status(&status);
        assert_eq!(
            (failure.fault, failure.retry_after),
            (Fault::Transient, Some(Duration::from_millis(250)))
        );
    }

    #[test]
    fn the_path_of_a_signal_is_added_once() {
        let at = |base: &str, signal: &str| at(&Url::parse(base).unwrap(), signal).to_string();
        assert_eq!(at("http://c:4318", "/v1/logs"), "http://c:4318/v1/logs");
        assert_eq!(at("http://c:4318/otlp/", "/v1/traces"), "http://c:4318/otlp/v1/traces");
        assert_eq!(at("https://c/v1/logs?tenant=a", "/v1/logs"), "https://c/v1/logs?tenant=a");
    }
}
