//! Bedrock against a scripted server that checks signatures by its own arithmetic. Each judge runs in a process of its own (this
//! test binary once more, at [`asks`]), because credentials come by environment variables and files, as in production.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::sheet::tests::{ask, choice};
use super::super::{BedrockConfig, Config, build};
use crate::domain::Json;

const MODEL: &str = "anthropic.claude-haiku-4-5-20251001-v1:0";
const ARN: &str = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2c3d4e5f6";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "IQoJb3JpZ2luX2VjE==/session+token";
const CONFIG: &str = "ASSAYD_TEST_JUDGE";
const MARK: &str = "judge says: ";

/// The judge's side, in its own process: asks what [`CONFIG`] says and prints what came of it.
#[tokio::test]
#[ignore = "run by the tests beside it, in an environment of their own"]
async fn asks() {
    let Ok(config) = std::env::var(CONFIG) else { return };
    let config: Config = serde_json::from_str(&config).unwrap();
    let judge = build(&config).unwrap().unwrap();
    let told = match judge.judge(&ask("Order 7 was refunded.", vec![choice("a", &["yes", "no"])])).await {
        Ok(judgement) => format!("{MARK}{}", judgement.answers[0].label),
        Err(error) => format!("{MARK}{}: {error}", error.result()),
    };
    writeln!(std::io::stdout(), "\n{told}").unwrap();
}

/// A request as it came over the wire.
#[derive(Debug, Clone)]
struct Received {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// A server over plain sockets, so that paths and headers are seen as they were sent.
struct Server {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    fn start(script: impl Fn(usize, &Received) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = read(&stream) else { continue };
                let count = kept.lock().unwrap().len();
                let answer = script(count, &request);
                kept.lock().unwrap().push(request);
                let _ = write(&stream, &answer);
            }
        });
        Self { url, received }
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received { method, path, headers, body })
}

fn write(mut stream: &TcpStream, answer: &Answer) -> std::io::Result<()> {
    let Answer { status, headers, body } = answer;
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn answer(status: u16, body: &Json) -> Answer {
    Answer { status, headers: Vec::new(), body: body.to_string() }
}

fn yes() -> Answer {
    let input = json!({ "answers": { "q1": { "reasoning": "It says so.", "answer": "yes" } } });
    let content = json!([{ "toolUse": { "toolUseId": "t1", "name": "submit_answers", "input": input } }]);
    answer(
        200,
        &json!({
            "output": { "message": { "role": "assistant", "content": content } }, "stopReason": "tool_use",
            "usage": { "inputTokens": 700, "outputTokens": 40, "totalTokens": 740 }, "metrics": { "latencyMs": 9 },
        }),
    )
}

/// An error as AWS' services send it: its name in a header with an address behind it, its message in the body.
fn error(status: u16, name: &str, message: &str) -> Answer {
    let named = format!("{name}:http://internal.amazon.com/coral/com.amazon.bedrock/");
    Answer { headers: vec![("x-amzn-ErrorType", named)], ..answer(status, &json!({ "message": message })) }
}

fn config(server: &Server, model: &str) -> Config {
    let bedrock = BedrockConfig {
        region: "eu-central-1".into(),
        model: model.into(),
        url: Some(server.url.clone()),
        ..BedrockConfig::default()
    };
    Config { bedrock: Some(bedrock), ..Config::default() }
}

/// What a judge of this configuration says in a process with only this environment. There is no instance to ask for credentials.
fn judged(config: &Config, home: &Path, environment: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "judge::aws::tests::asks", "--ignored", "--nocapture"])
        .env_clear()
        .env("HOME", home)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env(CONFIG, serde_json::to_string(config).unwrap())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let said = told.lines().find_map(|line| line.strip_prefix(MARK));
    said.unwrap_or_else(|| panic!("{told}\n{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

fn nowhere() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", SECRET)];

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// The part of the authorization header behind `name=`.
fn part<'a>(authorization: &'a str, name: &str) -> &'a str {
    let rest = authorization.split_once(&format!("{name}=")).unwrap().1;
    rest.split(',').next().unwrap().trim()
}

/// Signs what was received once more, from AWS' description of version 4 alone, and demands the same signature.
fn check_signature(request: &Received, key_id: &str, secret: &str, region: &str) {
    let authorization = request.headers["authorization"].as_str();
    let time = request.headers["x-amz-date"].as_str();
    let (date, _) = time.split_once('T').unwrap();
    let scope = format!("{date}/{region}/bedrock/aws4_request");
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 "), "{authorization}");
    assert_eq!(part(authorization, "Credential"), format!("{key_id}/{scope}"));

    let signed = part(authorization, "SignedHeaders");
    let headers: String =
        signed.split(';').map(|name| format!("{name}:{}\n", request.headers[name])).collect();
    // Every service but S3 encodes the path of the request once more.
    let path = encoded(&request.path);
    let body = hex(&Sha256::digest(&request.body));
    let canonical = format!("{}\n{path}\n\n{headers}\n{signed}\n{body}", request.method);
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let key = [date, region, "bedrock", "aws4_request"]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, text| hmac(&key, text));
    assert_eq!(part(authorization, "Signature"), hex(&hmac(&key, &to_sign)), "{canonical}");
    for name in ["host", "content-type", "x-amz-date"] {
        assert!(signed.split(';').any(|known| known == name), "{name} is not signed: {signed}");
    }
}

#[test]
fn a_request_is_signed_for_its_region_path_body_and_session() {
    for (model, path) in [
        (MODEL, "/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/converse"),
        (
            ARN,
            "/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3Aapplication-inference-profile%2Fa1b2c3d4e5f6/converse",
        ),
    ] {
        let server = Server::start(|_, _| yes());
        let environment = [KEYS[0], KEYS[1], ("AWS_SESSION_TOKEN", TOKEN)];
        assert_eq!(judged(&config(&server, model), nowhere().path(), &environment), "yes");
        let received = server.received();
        assert_eq!(received.len(), 1);
        let request = &received[0];
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", path));
        check_signature(request, "AKIDEXAMPLE", SECRET, "eu-central-1");
        assert_eq!(request.headers["x-amz-security-token"], TOKEN);
        assert!(part(&request.headers["authorization"], "SignedHeaders").contains("x-amz-security-token"));
        assert_eq!(request.headers["host"], server.url.strip_prefix("http://").unwrap());
        let body: Json = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["toolConfig"]["toolChoice"]["tool"]["name"], "submit_answers");
        assert!(
            body["messages"][0]["content"][0]["text"].as_str().unwrap().contains("Order 7 was refunded.")
        );
    }
}

#[test]
fn credentials_come_from_a_profile_that_is_named_or_chosen_by_the_environment() {
    let home = nowhere();
    let folder = home.path().join(".aws");
    std::fs::create_dir(&folder).unwrap();
    let profiles = format!(
        "[default]\naws_access_key_id = AKIDDEFAULT\naws_secret_access_key = default-secret\n\
         [judges]\naws_access_key_id = AKIDJUDGES\naws_secret_access_key = {SECRET}\n"
    );
    std::fs::write(folder.join("credentials"), profiles).unwrap();
    let server = Server::start(|_, _| yes());
    let usual = config(&server, MODEL);
    let mut named = usual.clone();
    named.bedrock.as_mut().unwrap().profile = Some("judges".into());
    assert_eq!(judged(&usual, home.path(), &[]), "yes");
    assert_eq!(judged(&named, home.path(), &[]), "yes");
    assert_eq!(judged(&usual, home.path(), &[("AWS_PROFILE", "judges")]), "yes");
    assert_eq!(judged(&named, home.path(), &KEYS), "yes");
    let received = server.received();
    check_signature(&received[0], "AKIDDEFAULT", "default-secret", "eu-central-1");
    check_signature(&received[1], "AKIDJUDGES", SECRET, "eu-central-1");
    check_signature(&received[2], "AKIDJUDGES", SECRET, "eu-central-1");
    check_signature(&received[3], "AKIDJUDGES", SECRET, "eu-central-1");
    assert!(!received[0].headers.contains_key("x-amz-security-token"), "long-lived keys have no session");
}

#[test]
fn a_containers_credentials_are_fetched_again_when_they_are_refused() {
    let container = Server::start(|count, _| {
        let (id, secret) = if count == 0 { ("AKIDOLD", "old-secret") } else { ("AKIDNEW", SECRET) };
        answer(
            200,
            &json!({
                "AccessKeyId": id, "SecretAccessKey": secret, "Token": TOKEN, "Expiration": "2099-01-01T00:00:00Z",
                "RoleArn": "arn:aws:iam::123456789012:role/judge",
            }),
        )
    });
    let server = Server::start(|count, _| match count {
        0 => answer(
            403,
            &json!({ "__type": "com.amazon.coral.service#ExpiredTokenException", "message": "The security token is expired" }),
        ),
        _ => yes(),
    });
    let home = nowhere();
    let token = home.path().join("token");
    std::fs::write(&token, "pod-token").unwrap();
    let from = format!("{}/v1/credentials", container.url);
    let environment = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", from.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap()),
    ];
    assert_eq!(judged(&config(&server, MODEL), home.path(), &environment), "yes");
    let asked = container.received();
    assert_eq!(asked[0].headers["authorization"], "pod-token");
    assert_eq!((asked.len(), asked[0].path.as_str()), (2, "/v1/credentials"));
    let received = server.received();
    check_signature(&received[0], "AKIDOLD", "old-secret", "eu-central-1");
    check_signature(&received[1], "AKIDNEW", SECRET, "eu-central-1");
}

#[test]
fn a_web_identity_becomes_a_session_of_its_role() {
    let sts = Server::start(|_, _| Answer {
        status: 200,
        headers: vec![],
        body: format!(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAPOD</AccessKeyId>\
             <SecretAccessKey>{SECRET}</SecretAccessKey><SessionToken>{TOKEN}</SessionToken>\
             <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
             <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"
        ),
    });
    let server = Server::start(|_, _| yes());
    let home = nowhere();
    let token = home.path().join("identity");
    std::fs::write(&token, "eyJhbGciOi.pod.identity").unwrap();
    let environment = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/judge"),
        ("AWS_ENDPOINT_URL_STS", sts.url.as_str()),
    ];
    assert_eq!(judged(&config(&server, MODEL), home.path(), &environment), "yes");
    let asked = String::from_utf8(sts.received()[0].body.clone()).unwrap();
    assert!(asked.contains("Action=AssumeRoleWithWebIdentity") && asked.contains("eyJhbGciOi.pod.identity"));
    let received = server.received();
    check_signature(&received[0], "ASIAPOD", SECRET, "eu-central-1");
    assert_eq!(received[0].headers["x-amz-security-token"], TOKEN);
}

#[test]
fn throttling_is_waited_out_and_each_attempt_has_its_own_signature() {
    let server = Server::start(|count, _| match count {
        0 => error(429, "ThrottlingException", "Too many requests, please wait before trying again."),
        // Some of AWS' services throttle with a 400.
        1 => error(400, "ThrottlingException", "Rate exceeded"),
        2 => error(503, "ServiceUnavailableException", "Bedrock is unable to process your request."),
        _ => yes(),
    });
    assert_eq!(judged(&config(&server, MODEL), nowhere().path(), &KEYS), "yes");
    let received = server.received();
    assert_eq!(received.len(), 4);
    received.iter().for_each(|request| check_signature(request, "AKIDEXAMPLE", SECRET, "eu-central-1"));
}

/// What AWS answers, what is told of it, and how often it is asked.
struct Case(fn() -> Answer, &'static str, usize);

#[test]
fn errors_of_aws_say_what_is_wrong_in_its_own_words() {
    let cases = [
        // Refused credentials are fetched again once, and the same ones are not tried a third time.
        Case(
            || {
                error(
                    403,
                    "UnrecognizedClientException",
                    "The security token included in the request is invalid.",
                )
            },
            "auth: the judge refuses the key (status 403): The security token included in the request is invalid.",
            2,
        ),
        Case(
            || {
                error(
                    403,
                    "InvalidSignatureException",
                    "Signature expired: 20261130T080000Z is now earlier than 20261130T083000Z",
                )
            },
            "auth: the judge refuses the key (status 403): Signature expired: 20261130T080000Z is now earlier than 20261130T083000Z",
            2,
        ),
        Case(
            || {
                error(
                    403,
                    "AccessDeniedException",
                    "You don't have access to the model with the specified model ID.",
                )
            },
            "auth: the judge refuses the key (status 403): You don't have access to the model with the specified model ID.",
            2,
        ),
        Case(
            || {
                error(
                    404,
                    "ResourceNotFoundException",
                    "Could not resolve the foundation model from the provided model identifier.",
                )
            },
            "error: the judge answered with an error (status 404): Could not resolve the foundation model",
            1,
        ),
        Case(
            || {
                error(
                    400,
                    "ValidationException",
                    "Invocation of model ID m with on-demand throughput isn't supported.",
                )
            },
            "error: the judge answered with an error (status 400): Invocation of model ID m with on-demand",
            1,
        ),
        Case(
            || {
                error(
                    400,
                    "ServiceQuotaExceededException",
                    "Your request exceeds the service quota for your account.",
                )
            },
            "quota: the judge's account has no quota left (status 400, service quota exceeded)",
            1,
        ),
        Case(|| error(400, "ValidationException", "Input is too long for requested model."), "too_long: ", 1),
    ];
    for Case(reply, told, requests) in cases {
        let server = Server::start(move |_, _| reply());
        let said = judged(&config(&server, MODEL), nowhere().path(), &KEYS);
        assert!(said.starts_with(told), "{said}");
        assert_eq!(server.received().len(), requests, "{said}");
        assert!(!said.contains(SECRET) && !said.contains("AKIDEXAMPLE"), "{said}");
    }
}

#[test]
fn without_credentials_nothing_is_sent_and_the_error_says_that_there_are_none() {
    let server = Server::start(|_, _| yes());
    let said = judged(&config(&server, MODEL), nowhere().path(), &[]);
    assert!(said.starts_with("auth: no AWS credentials for the judge: "), "{said}");
    for place in ["Environment", "Profile", "WebIdentityToken", "EcsContainer", "Ec2InstanceMetadata"] {
        assert!(said.contains(place), "it says where was looked: {said}");
    }
    assert!(server.received().is_empty());
    let mut unknown = config(&server, MODEL);
    unknown.bedrock.as_mut().unwrap().profile = Some("nobody".into());
    let said = judged(&unknown, nowhere().path(), &[]);
    assert!(said.contains("nobody"), "{said}");
}
