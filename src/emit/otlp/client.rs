//! One request to an OTLP receiver, over gRPC or HTTP, and what its answer asks of us.

use std::io::Write;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use prost::Message;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{StatusCode, Url};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::emit::config::{OtlpCompression, OtlpConfig, OtlpProtocol};
use crate::emit::web;
use crate::error::Fault;

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
    config: OtlpConfig,
    wire: Wire,
}

enum Wire {
    Grpc(LogsServiceClient<Channel>),
    Http(reqwest::Client, Url),
}

impl Client {
    /// Reads certificates; connects to nothing.
    pub(super) fn new(config: &OtlpConfig) -> Result<Self, String> {
        let wire = match config.protocol {
            OtlpProtocol::Grpc => Wire::Grpc(grpc(config)?),
            OtlpProtocol::Http => {
                let client = web::client(config.timeout.0, config.tls.as_ref())?.build();
                Wire::Http(client.map_err(|error| error.to_string())?, logs_url(&config.endpoint)?)
            }
        };
        // A secret that is not there should show at the start; later ones are read per request.
        web::headers(&config.headers)?;
        Ok(Self { config: config.clone(), wire })
    }

    /// Sends one request.
    pub(super) async fn export(&self, request: ExportLogsServiceRequest) -> Result<Accepted, Failure> {
        // A secret that cannot be read may be there again soon: its file is being replaced.
        let headers = web::headers(&self.config.headers).map_err(|message| Failure::later(message, None))?;
        let response = match &self.wire {
            Wire::Grpc(client) => {
                let mut call = tonic::Request::new(request);
                *call.metadata_mut() = MetadataMap::from_headers(headers);
                call.set_timeout(self.config.timeout.0);
                let answer = client.clone().export(call).await;
                answer.map_err(|status| of_status(&status))?.into_inner()
            }
            Wire::Http(client, url) => self.post(client, url, headers, &request).await?,
        };
        let Some(partial) = response.partial_success else { return Ok(Accepted::default()) };
        Ok(Accepted {
            rejected: u64::try_from(partial.rejected_log_records).unwrap_or_default(),
            message: partial.error_message,
        })
    }

    async fn post(
        &self,
        client: &reqwest::Client,
        url: &Url,
        headers: reqwest::header::HeaderMap,
        request: &ExportLogsServiceRequest,
    ) -> Result<ExportLogsServiceResponse, Failure> {
        let mut post =
            client.post(url.clone()).headers(headers).header(CONTENT_TYPE, "application/x-protobuf");
        let bytes = request.encode_to_vec();
        post = match self.config.compression {
            OtlpCompression::Gzip => post.header(CONTENT_ENCODING, "gzip").body(gzip(&bytes)),
            OtlpCompression::None => post.body(bytes),
        };
        let response = post.send().await.map_err(|error| Failure::later(web::unreachable(&error), None))?;
        let status = response.status();
        if !status.is_success() {
            let retry_after = web::retry_after(response.headers(), SystemTime::now());
            return Err(of_http(status, retry_after, &web::body(response).await));
        }
        // A body that cannot be read, or is JSON all the same, does not undo the success.
        Ok(ExportLogsServiceResponse::decode(&*web::body(response).await).unwrap_or_default())
    }
}

fn grpc(config: &OtlpConfig) -> Result<LogsServiceClient<Channel>, String> {
    let wrong = |error: tonic::transport::Error| format!("{}: {error}", config.endpoint);
    let mut endpoint = Endpoint::from_shared(config.endpoint.clone())
        .map_err(wrong)?
        .user_agent(concat!("assayd/", env!("CARGO_PKG_VERSION")))
        .map_err(wrong)?
        .connect_timeout(config.timeout.0)
        .timeout(config.timeout.0);
    if config.endpoint.starts_with("https://") {
        let files = config.tls.clone().unwrap_or_default();
        let mut tls = ClientTlsConfig::new().with_native_roots();
        if let Some(path) = &files.ca {
            tls = tls.ca_certificate(Certificate::from_pem(web::pem(path)?));
        }
        if let (Some(certificate), Some(key)) = (&files.certificate, &files.key) {
            tls = tls.identity(Identity::from_pem(web::pem(certificate)?, web::pem(key)?));
        }
        endpoint = endpoint.tls_config(tls).map_err(wrong)?;
    }
    let client = LogsServiceClient::new(endpoint.connect_lazy());
    Ok(match config.compression {
        OtlpCompression::Gzip => client.send_compressed(CompressionEncoding::Gzip),
        OtlpCompression::None => client,
    })
}

/// The address for logs below a base address.
fn logs_url(base: &str) -> Result<Url, String> {
    let mut url = Url::parse(base).map_err(|error| format!("{base}: {error}"))?;
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/v1/logs") {
        url.set_path(&format!("{path}/v1/logs"));
    }
    Ok(url)
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
    fn the_path_for_logs_is_added_once() {
        let at = |base: &str| logs_url(base).unwrap().to_string();
        assert_eq!(at("http://c:4318"), "http://c:4318/v1/logs");
        assert_eq!(at("http://c:4318/otlp/"), "http://c:4318/otlp/v1/logs");
        assert_eq!(at("https://c/v1/logs?tenant=a"), "https://c/v1/logs?tenant=a");
    }
}
