//! Signs requests by AWS' version 4, with credentials of the usual chain: environment, profile, web identity, container, instance.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::Request;
use reqwest::header::{HeaderName, HeaderValue};
use tokio::sync::OnceCell;

use super::super::attempt::Failure;
use super::super::reply::shorten;
use super::super::{BedrockConfig, BuildError, JudgeErrorKind};

/// The service's name in signatures.
const SERVICE: &str = "bedrock";
/// Credentials are fetched again so long before they expire, and those that never expire after so long.
const MARGIN: Duration = Duration::from_secs(300);
const KEEP: Duration = Duration::from_secs(900);
/// Bytes of what the chain says about itself.
const MAX_TOLD: usize = 1000;

/// Signs requests for one region.
pub(crate) struct Signer {
    region: String,
    profile: Option<String>,
    chain: OnceCell<SharedCredentialsProvider>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Credentials and when to fetch others.
    credentials: Option<(Credentials, SystemTime)>,
    /// The id of those that were refused last: they are not worth another try.
    refused: Option<String>,
}

impl Signer {
    /// Looks for no credentials yet: the chain may ask the network, and a judge that is not asked needs none.
    pub fn new(config: &BedrockConfig) -> Result<Self, BuildError> {
        Ok(Self {
            region: config.region.clone(),
            profile: config.profile.clone(),
            chain: OnceCell::new(),
            kept: Mutex::default(),
        })
    }

    /// Adds the signature's headers, and says by which credentials.
    pub async fn sign(&self, request: &mut Request) -> Result<String, Failure> {
        let credentials = self.credentials(SystemTime::now()).await?;
        let headers = signature(request, &credentials, &self.region, SERVICE, SystemTime::now())
            .map_err(|message| Failure::Final(JudgeErrorKind::Credentials { message }))?;
        for (name, value) in headers {
            request.headers_mut().insert(name, value);
        }
        Ok(id(&credentials))
    }

    /// After a refusal of these credentials: whether others may be found. The same ones are fetched again once.
    pub fn has_another(&self, refused: &str) -> bool {
        let mut kept = self.kept();
        if kept.refused.as_deref() == Some(refused) {
            return false;
        }
        kept.refused = Some(refused.to_owned());
        kept.credentials = None;
        true
    }

    async fn credentials(&self, now: SystemTime) -> Result<Credentials, Failure> {
        if let Some((credentials, until)) = &self.kept().credentials
            && *until > now
        {
            return Ok(credentials.clone());
        }
        let chain = self.chain.get_or_init(|| self.provider()).await;
        let found = chain.provide_credentials().await.map_err(|error| {
            let message = self.told(&error);
            Failure::Final(JudgeErrorKind::Credentials { message })
        })?;
        let until = found.expiry().map_or(now + KEEP, |expiry| expiry.checked_sub(MARGIN).unwrap_or(now));
        self.kept().credentials = Some((found.clone(), until));
        Ok(found)
    }

    /// A profile that is named is the one to use, whatever else is there; without one AWS' usual chain looks for what there is.
    async fn provider(&self) -> SharedCredentialsProvider {
        let region = Region::new(self.region.clone());
        let Some(profile) = &self.profile else {
            return SharedCredentialsProvider::new(
                DefaultCredentialsChain::builder().region(region).build().await,
            );
        };
        let settings = ProviderConfig::default().with_region(Some(region));
        let builder = ProfileFileCredentialsProvider::builder().configure(&settings);
        SharedCredentialsProvider::new(builder.profile_name(profile).build())
    }

    /// An error of the chain and all that caused it, in one line.
    fn told(&self, error: &dyn std::error::Error) -> String {
        let mut causes: Vec<String> = self.profile.iter().map(|name| format!("profile {name:?}")).collect();
        let mut next = Some(error);
        while let Some(cause) = next {
            let lines: Vec<String> = cause.to_string().lines().map(|line| line.trim().to_owned()).collect();
            causes.push(lines.join("; "));
            next = cause.source();
        }
        shorten(&causes.join(": "), MAX_TOLD)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What tells credentials from others, without their secrets' text.
fn id(credentials: &Credentials) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(credentials.session_token().unwrap_or_default());
    let hash: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{}/{hash}", credentials.access_key_id())
}

/// The headers that sign a request. All its headers, and its body, are signed.
fn signature(
    request: &Request,
    credentials: &Credentials,
    region: &str,
    service: &str,
    now: SystemTime,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let told = |error: &dyn std::fmt::Display| format!("the request cannot be signed: {error}");
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| told(&error))?
        .into();
    let headers =
        request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
    let signable = SignableRequest::new(
        request.method().as_str(),
        request.url().as_str(),
        headers,
        SignableBody::Bytes(body),
    )
    .map_err(|error| told(&error))?;
    let (instructions, _) = sign(signable, &params).map_err(|error| told(&error))?.into_parts();
    let (headers, _) = instructions.into_parts();
    headers
        .into_iter()
        .map(|header| {
            let mut value = HeaderValue::try_from(header.value()).map_err(|error| told(&error))?;
            value.set_sensitive(true);
            Ok((HeaderName::from_static(header.name()), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a session's token";

    fn credentials(token: Option<&str>) -> Credentials {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        Credentials::new("AKIDEXAMPLE", secret, token.map(str::to_owned), None, "test")
    }

    fn post(url: &str, body: &'static str) -> Request {
        reqwest::Client::new().post(url).body(body).build().unwrap()
    }

    /// AWS' test suite of signatures: 2015-08-30T12:36:00Z, us-east-1, service `service`.
    fn signed(request: &Request, token: Option<&str>) -> Vec<(String, String)> {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let headers = signature(request, &credentials(token), "us-east-1", "service", at).unwrap();
        let pair =
            |(name, value): (HeaderName, HeaderValue)| (name.to_string(), value.to_str().unwrap().to_owned());
        headers.into_iter().map(pair).collect()
    }

    #[test]
    fn requests_are_signed_as_in_awss_own_examples() {
        let headers = signed(&post("https://example.amazonaws.com/", ""), None);
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                        SignedHeaders=host;x-amz-date, \
                        Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
        assert!(headers.contains(&("authorization".to_owned(), expected.to_owned())), "{headers:?}");
        assert!(headers.contains(&("x-amz-date".to_owned(), "20150830T123600Z".to_owned())));
    }

    #[test]
    fn body_path_and_token_are_part_of_the_signature() {
        let authorization = |request: &Request, token| {
            let headers = signed(request, token);
            headers.into_iter().find(|(name, _)| name == "authorization").unwrap().1
        };
        let url = "https://example.amazonaws.com/model/m%3A0/converse";
        let base = authorization(&post(url, "{}"), None);
        assert_ne!(base, authorization(&post(url, "{ }"), None));
        assert_ne!(
            base,
            authorization(&post("https://example.amazonaws.com/model/m:0/converse", "{}"), None)
        );
        let with_token = authorization(&post(url, "{}"), Some(TOKEN));
        assert!(with_token.contains("x-amz-security-token"), "{with_token}");
    }

    #[test]
    fn refused_credentials_are_fetched_again_once() {
        let signer = Signer::new(&BedrockConfig::default()).unwrap();
        let used = id(&credentials(Some(TOKEN)));
        assert!(!used.contains(TOKEN) && used.starts_with("AKIDEXAMPLE/"));
        assert!(signer.has_another(&used));
        assert!(!signer.has_another(&used));
        assert!(signer.has_another(&id(&credentials(Some("another")))));
    }
}
