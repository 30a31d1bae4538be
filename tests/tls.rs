//! TLS, mTLS and tokens on every listener of the daemon and towards every server that it calls, with real certificates, clients
//! and servers.

#[path = "common/running.rs"]
mod running;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assayd::config::Config;
use assayd::decide::{self, DecideError, ModelName, RemoteConfig, Reply, Scripted};
use assayd::domain::{Inquiry, Kind, Period, Question, Subject, Time};
use assayd::emit::JsonlConfig;
use assayd::gsar::CallbackTarget;
use assayd::judge::{self, Ask, JudgeErrorKind, OpenAiConfig};
use assayd::net::{Acceptor, Limits, TlsClient, TlsServer, accept};
use assayd::pipeline::{App, Assayer, Ended};
use assayd::receive::{Grpc, Http};
use assayd::score::{Entry, Run, RunLimits};
use assayd::secret::Secret;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use self::running::Running;

/// An authority and the files of what it signs.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ca.pem"), certificate.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Certificate and key for this name, in files.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (cert_file, key_file) =
            (self.folder.join(format!("{name}.pem")), self.folder.join(format!("{name}.key")));
        std::fs::write(&cert_file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        (cert_file, key_file)
    }
}

struct House(Running);

fn unsure(inquiry: &Inquiry) -> Result<Reply, DecideError> {
    let decisions = inquiry.questions.iter().map(|question| {
        let labels = question.kind.labels().len();
        Ok(assayd::domain::Decision { probabilities: vec![1.0 / labels as f64; labels], tokens: 1 })
    });
    Ok(Reply { decisions: decisions.collect(), input_tokens: 1, truncated: false })
}

fn config(folder: &Path, adjust: impl FnOnce(&mut Config)) -> Config {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut config = Config::default();
    config.receive.grpc = Some(Grpc { listen: free });
    config.receive.http = Some(Http { listen: free });
    config.serve.listen = free;
    config.data_dir = folder.to_owned();
    config.emit.jsonl = Some(JsonlConfig { path: folder.join("verdicts.jsonl"), ..JsonlConfig::default() });
    adjust(&mut config);
    config
}

impl House {
    async fn open(config: Config) -> Self {
        let desk = decide::start_with(Scripted::new(unsure), &decide::Config::default()).unwrap();
        Self(Running::start(config, desk).await)
    }

    fn admin(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.0.at.admin.port())
    }

    fn otlp(&self) -> String {
        format!("https://localhost:{}/v1/traces", self.0.at.http.unwrap().port())
    }

    async fn grpc(
        &self,
        tls: ClientTlsConfig,
    ) -> Result<TraceServiceClient<Channel>, tonic::transport::Error> {
        let url = format!("https://localhost:{}", self.0.at.grpc.unwrap().port());
        let channel = Channel::from_shared(url).unwrap().tls_config(tls)?.connect().await?;
        Ok(TraceServiceClient::new(channel))
    }

    async fn close(self) {
        assert_eq!(self.0.stop().await, Ended::Drained);
    }
}

fn client(tls: &TlsClient) -> reqwest::Client {
    tls.apply(reqwest::Client::builder()).unwrap().build().unwrap()
}

fn trusting(authority: &Authority) -> TlsClient {
    TlsClient { ca: Some(authority.ca()), ..TlsClient::default() }
}

fn pem(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn export() -> ExportTraceServiceRequest {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces/pydantic-ai-v5/s01.otlp.pb");
    ExportTraceServiceRequest::decode(&std::fs::read(file).unwrap()[..]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_listener_speaks_tls_to_clients_that_trust_it_and_to_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "house");
    let (certificate, key) = authority.sign("localhost");
    let tls = TlsServer { certificate, key, client_ca: None };
    let house = House::open(config(folder.path(), |config| {
        config.receive.tls = Some(tls.clone());
        config.serve.tls = Some(tls);
    }))
    .await;

    let friend = client(&trusting(&authority));
    assert!(friend.get(house.admin("/healthz")).send().await.unwrap().status().is_success());
    let body = export().encode_to_vec();
    let sent = friend.post(house.otlp()).header("content-type", "application/x-protobuf").body(body);
    assert!(sent.send().await.unwrap().status().is_success());
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(&authority.ca())));
    house.grpc(tls).await.unwrap().export(export()).await.unwrap();

    let stranger = client(&TlsClient::default());
    assert!(stranger.get(house.admin("/healthz")).send().await.is_err());
    let plain = format!("http://localhost:{}/healthz", house.0.at.admin.port());
    assert!(stranger.get(plain).send().await.is_err(), "the clear text is not answered");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_client_authorities_only_their_clients_are_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let (house_ca, client_ca) =
        (Authority::new(folder.path(), "house"), Authority::new(folder.path(), "clients"));
    let (certificate, key) = house_ca.sign("localhost");
    let tls = TlsServer { certificate, key, client_ca: Some(client_ca.ca()) };
    let house = House::open(config(folder.path(), |config| {
        config.receive.tls = Some(tls.clone());
        config.serve.tls = Some(tls);
    }))
    .await;

    let (certificate, key) = client_ca.sign("collector");
    let known =
        TlsClient { ca: Some(house_ca.ca()), certificate: Some(certificate.clone()), key: Some(key.clone()) };
    assert!(client(&known).get(house.admin("/healthz")).send().await.unwrap().status().is_success());
    assert!(client(&trusting(&house_ca)).get(house.admin("/healthz")).send().await.is_err());
    let (certificate_of_other, key_of_other) = house_ca.sign("collector");
    let other = TlsClient {
        ca: Some(house_ca.ca()),
        certificate: Some(certificate_of_other),
        key: Some(key_of_other),
    };
    assert!(client(&other).get(house.admin("/healthz")).send().await.is_err());

    let trust = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(&house_ca.ca())));
    let identity = Identity::from_pem(pem(&certificate), pem(&key));
    house.grpc(trust.clone().identity(identity)).await.unwrap().export(export()).await.unwrap();
    // TLS 1.3 tells the client of the refusal with the first read.
    let refused = match house.grpc(trust).await {
        Ok(mut client) => client.export(export()).await.is_err(),
        Err(_) => true,
    };
    assert!(refused);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn senders_need_a_token_where_tokens_are_configured() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "open-sesame\n").unwrap();
    let house =
        House::open(config(folder.path(), |config| config.receive.tokens = vec![Secret::File(token)])).await;
    let url = format!("http://{}/v1/traces", house.0.at.http.unwrap());
    let send = |token: Option<&str>| {
        let request = reqwest::Client::new().post(&url).header("content-type", "application/x-protobuf");
        let request = request.body(export().encode_to_vec());
        let request = token.map_or(request.try_clone().unwrap(), |token| request.bearer_auth(token));
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(send(None).await, 401);
    assert_eq!(send(Some("open-sesam")).await, 401);
    assert_eq!(send(Some("open-sesame")).await, 200);

    let endpoint = format!("http://{}", house.0.at.grpc.unwrap());
    let mut client = TraceServiceClient::connect(endpoint).await.unwrap();
    let refused = client.export(export()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    let mut request = tonic::Request::new(export());
    request.metadata_mut().insert("authorization", "Bearer open-sesame".parse().unwrap());
    client.export(request).await.unwrap();
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_silent_in_its_handshake_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "house");
    let (certificate, key) = authority.sign("localhost");
    let house = House::open(config(folder.path(), |config| {
        config.serve.tls = Some(TlsServer { certificate, key, client_ca: None });
    }))
    .await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(house.0.at.admin).await.unwrap());
    }
    let friend = client(&trusting(&authority));
    assert!(friend.get(house.admin("/healthz")).send().await.unwrap().status().is_success());
    // And in the end it is left.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), silent[0].read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the silent client is still connected");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_rotated_is_shown_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(folder.path(), "old"), Authority::new(folder.path(), "new"));
    let (certificate, key) = old.sign("localhost");
    let tls = TlsServer { certificate: certificate.clone(), key: key.clone(), client_ca: None };
    let house = House::open(config(folder.path(), |config| config.serve.tls = Some(tls))).await;
    assert!(client(&trusting(&old)).get(house.admin("/healthz")).send().await.is_ok());

    let (next_certificate, next_key) = new.sign("localhost");
    std::fs::copy(next_key, key).unwrap();
    std::fs::copy(next_certificate, certificate).unwrap();
    for _ in 0..120 {
        if client(&trusting(&new)).get(house.admin("/healthz")).send().await.is_ok() {
            return house.close().await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("the new certificate is not shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_stop_the_start_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path(), "house");
    let (certificate, key) = authority.sign("localhost");
    let (_, key_of_other) = authority.sign("other");
    let cases = [
        (folder.path().join("missing.pem"), key.clone(), "missing.pem"),
        (certificate.clone(), certificate.clone(), "private key"),
        (key.clone(), key, "certificate"),
        (certificate, key_of_other, "cannot be used"),
    ];
    for (certificate, key, word) in cases {
        let tls = TlsServer { certificate, key, client_ca: None };
        let config = config(folder.path(), |config| config.receive.tls = Some(tls));
        let desk = decide::start_with(Scripted::new(unsure), &decide::Config::default()).unwrap();
        let assayer = Assayer::new(&config, desk, None).unwrap();
        let Err(error) = App::bind_with(config, assayer).await else { panic!("it started: {word}") };
        let told = error.to_string();
        assert!(told.starts_with("receive.tls: ") && told.contains(word), "{told}");
    }
}

/// What the daemon calls: a server that wants a client's certificate and answers every request with the same JSON.
struct Callee {
    port: u16,
    _stop: DropGuard,
}

impl Callee {
    async fn open(tls: &TlsServer, answer: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        let limits = Limits { connections: 16, handshake: Duration::from_secs(10) };
        let acceptor = Acceptor::open(tls, &["http/1.1"]).unwrap();
        let mut connections = accept(listener, Some(acceptor), limits, stop.clone());
        let app = axum::Router::new().fallback(move || async move { axum::Json(answer) });
        tokio::spawn(async move {
            while let Some(connection) = connections.recv().await {
                let service = hyper_util::service::TowerToHyperService::new(app.clone());
                tokio::spawn(async move {
                    let io = hyper_util::rt::TokioIo::new(connection);
                    let server =
                        hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                    // A client that goes away is none of this test's business.
                    let _ = server.serve_connection(io, service).await;
                });
            }
        });
        Self { port, _stop: stop.drop_guard() }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }
}

/// Authorities of both sides; what a server shows and asks for, and what a client that is let in shows.
fn parties(folder: &Path) -> (TlsServer, TlsClient) {
    let (servers, clients) = (Authority::new(folder, "servers"), Authority::new(folder, "clients"));
    let (certificate, key) = servers.sign("localhost");
    let server = TlsServer { certificate, key, client_ca: Some(clients.ca()) };
    let (certificate, key) = clients.sign("assayd");
    (server, TlsClient { ca: Some(servers.ca()), certificate: Some(certificate), key: Some(key) })
}

/// The same without the client's certificate, and without the authority.
fn unprepared(client: &TlsClient) -> [Option<TlsClient>; 2] {
    [Some(TlsClient { ca: client.ca.clone(), ..TlsClient::default() }), None]
}

fn inquiry() -> Inquiry {
    let kind = Kind::Noul { if_true: None, if_false: None };
    let question = Question {
        id: "fits".to_owned(),
        kind,
        instructions: json!("Does it fit?"),
        subject: Subject::General,
    };
    Inquiry::new(std::sync::Arc::new(json!("a state")), vec![question])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_decision_model_is_reached_with_own_authorities_and_a_certificate_and_not_without() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = parties(folder.path());
    let house = House::open(config(folder.path(), |config| config.serve.tls = Some(server))).await;
    let desk = |tls: Option<TlsClient>| {
        let remote = RemoteConfig {
            url: Some(format!("https://localhost:{}", house.0.at.admin.port())),
            tls,
            ..RemoteConfig::default()
        };
        let model = ModelName::Systemone(Box::new(remote));
        decide::start(&decide::Config { model, ..decide::Config::default() }).unwrap()
    };
    let known = desk(Some(client.clone()));
    assert!(known.reached().await, "{:?}", known.health());
    let reply = known.ask(inquiry()).await.unwrap();
    assert!(reply.decisions[0].is_ok(), "{:?}", reply.decisions);
    for tls in unprepared(&client) {
        assert!(!desk(tls).ready().await);
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_is_asked_with_own_authorities_and_a_certificate_and_not_without() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = parties(folder.path());
    let said = r#"{"answers":{"q1":{"reasoning":"It does.","answer":"yes"}}}"#;
    let callee = Callee::open(
        &server,
        json!({
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": said }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 10 },
        }),
    )
    .await;
    let ask = |tls: Option<TlsClient>| {
        let openai =
            OpenAiConfig { url: callee.url("/v1"), model: "judge".into(), ..OpenAiConfig::default() };
        let config = judge::Config {
            openai: Some(openai),
            tls,
            attempts: 1.try_into().unwrap(),
            ..judge::Config::default()
        };
        let judge = judge::build(&config).unwrap().unwrap();
        async move { judge.judge(&Ask { inquiries: vec![inquiry()] }).await }
    };
    let judged = ask(Some(client.clone())).await.unwrap();
    assert_eq!(judged.answers.len(), 1);
    for tls in unprepared(&client) {
        let error = ask(tls).await.unwrap_err();
        assert!(matches!(error.kind, JudgeErrorKind::Unreachable { .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_called_back_with_own_authorities_and_a_certificate_and_not_without() {
    let folder = tempfile::tempdir().unwrap();
    let (server, client) = parties(folder.path());
    let callee = Callee::open(&server, json!({ "synthesis": "It ships on Monday.", "evidence": [] })).await;
    let mut ways = vec![(Some(client.clone()), true)];
    ways.extend(unprepared(&client).map(|tls| (tls, false)));
    for (number, (tls, is_let_in)) in ways.into_iter().enumerate() {
        let target = CallbackTarget { url: callee.url("/gsar/"), key: None, tls };
        let agent = assayd::gsar::Agent::new(&assayd::gsar::Config {
            callbacks: vec![target],
            callback_timeout: Period::seconds(20),
            ..assayd::gsar::Config::default()
        })
        .unwrap();
        let callbacks =
            assayd::gsar::Callbacks { regenerate: callee.url("/gsar/a"), replan: callee.url("/gsar/b") };
        let first = Entry { synthesis: "It ships.".to_owned(), evidence: Some(json!([])), key: None };
        let run = Run::open("a-run".to_owned(), RunLimits::default(), first, Time(1));
        let reply = agent.call(&callbacks, &run).await;
        assert_eq!(reply.is_ok(), is_let_in, "{number}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_files_that_cannot_be_used_are_named_with_their_setting() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Some(TlsClient { ca: Some(folder.path().join("none.pem")), ..TlsClient::default() });
    let openai = OpenAiConfig { url: "https://j/v1".into(), model: "j".into(), ..OpenAiConfig::default() };
    let judge = judge::Config { openai: Some(openai), tls: tls.clone(), ..judge::Config::default() };
    let told = judge::build(&judge).err().unwrap().to_string();
    assert!(told.starts_with("judge.tls: ") && told.contains("none.pem"), "{told}");
    let remote = RemoteConfig { url: Some("https://d".into()), tls: tls.clone(), ..RemoteConfig::default() };
    let model = ModelName::Systemone(Box::new(remote));
    let told =
        decide::start(&decide::Config { model, ..decide::Config::default() }).err().unwrap().to_string();
    assert!(told.starts_with("decide.model.systemone.tls: ") && told.contains("none.pem"), "{told}");
    let target = CallbackTarget { url: "https://a/".into(), key: None, tls };
    let config = assayd::gsar::Config { callbacks: vec![target], ..assayd::gsar::Config::default() };
    let told = assayd::gsar::Agent::new(&config).err().unwrap().to_string();
    assert!(
        told.starts_with("gsar.callbacks, the tls of https://a/: ") && told.contains("none.pem"),
        "{told}"
    );
}
