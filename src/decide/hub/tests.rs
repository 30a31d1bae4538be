//! The Hub's client against a scripted Hub on loopback.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use super::*;
use crate::decide::models::strands;
use crate::decide::{Decider, locate};

const COMMIT: &str = "0123456789012345678901234567890123456789";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A Hub with one model, `acme/tiny`, whose large files come from another path by redirect.
struct Hub {
    server: MockServer,
    cache: TempDir,
}

/// Serves a file by ranges; the first answers are cut short.
struct Bytes {
    content: Vec<u8>,
    cuts: AtomicUsize,
    asked: Arc<AtomicUsize>,
}

impl Respond for Bytes {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let range = request.headers.get("range").and_then(|value| value.to_str().ok());
        let from =
            range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        let rest = &self.content[from.unwrap_or(0).min(self.content.len())..];
        let status = if from.is_some() { 206 } else { 200 };
        let failing =
            self.cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |cuts| cuts.checked_sub(1)).is_ok();
        if failing {
            return ResponseTemplate::new(503);
        }
        ResponseTemplate::new(status).set_body_bytes(rest)
    }
}

impl Hub {
    async fn new(files: &[(&str, &[u8])]) -> Self {
        let hub = Self { server: MockServer::start().await, cache: TempDir::new().unwrap() };
        let siblings: Vec<_> = files.iter().map(|(name, _)| serde_json::json!({"rfilename": name})).collect();
        let revision = serde_json::json!({"sha": COMMIT, "siblings": siblings});
        for name in ["main", "260101"] {
            Mock::given(path(format!("/api/models/acme/tiny/revision/{name}")))
                .respond_with(ResponseTemplate::new(200).set_body_json(&revision))
                .mount(&hub.server)
                .await;
        }
        hub
    }

    /// Publishes a whole folder under `acme/NAME`, some of its files changed or dropped.
    async fn publish(&self, name: &str, folder: &Path, change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>) {
        let mut siblings = Vec::new();
        for file in ["", "lora/"] {
            for entry in fs::read_dir(folder.join(file)).into_iter().flatten().flatten() {
                let inner = format!("{file}{}", entry.file_name().to_string_lossy());
                let Ok(content) = fs::read(entry.path()) else { continue };
                let Some(content) = change(&inner, content) else { continue };
                self.serve_at(&format!("/acme/{name}"), &inner, &content, &sha256(&content), 0).await;
                siblings.push(serde_json::json!({"rfilename": inner}));
            }
        }
        let revision = serde_json::json!({"sha": COMMIT, "siblings": siblings});
        Mock::given(path(format!("/api/models/acme/{name}/revision/main")))
            .respond_with(ResponseTemplate::new(200).set_body_json(&revision))
            .mount(&self.server)
            .await;
    }

    async fn serve(&self, name: &str, content: &[u8], tag: &str, cuts: usize) -> Arc<AtomicUsize> {
        self.serve_at("/acme/tiny", name, content, tag, cuts).await
    }

    async fn serve_at(
        &self,
        repository: &str,
        name: &str,
        content: &[u8],
        tag: &str,
        cuts: usize,
    ) -> Arc<AtomicUsize> {
        let asked = Arc::new(AtomicUsize::new(0));
        let at = format!("{repository}/resolve/{COMMIT}/{name}");
        Mock::given(method("HEAD"))
            .and(path(&at))
            .respond_with(
                ResponseTemplate::new(302)
                    .insert_header("x-linked-etag", format!("\"{tag}\""))
                    .insert_header("x-linked-size", content.len().to_string())
                    .insert_header("location", "https://elsewhere.invalid/x"),
            )
            .mount(&self.server)
            .await;
        Mock::given(method("GET"))
            .and(path(&at))
            .respond_with(Bytes { content: content.to_vec(), cuts: cuts.into(), asked: Arc::clone(&asked) })
            .mount(&self.server)
            .await;
        asked
    }

    fn settings(&self) -> HubSettings {
        HubSettings {
            endpoint: self.server.uri(),
            cache: self.cache.path().to_owned(),
            offline: false,
            token: None,
            pause: Duration::from_millis(1),
        }
    }

    fn blob(&self, tag: &str) -> std::path::PathBuf {
        self.cache.path().join("models--acme--tiny/blobs").join(tag)
    }
}

fn id(text: &str) -> HubId {
    HubId::parse(text).unwrap()
}

async fn pull_quietly(hub: &Hub, text: &str) -> Result<Pull, HubError> {
    pull(&id(text), &hub.settings(), &mut |_| {}).await
}

#[tokio::test]
async fn a_model_is_downloaded_once_and_then_found() {
    let files: [(&str, &[u8]); 4] = [
        ("config.json", b"{}"),
        ("lora/a.safetensors", b"weights"),
        ("README.md", b"no"),
        ("eval/x.json", b"no"),
    ];
    let hub = Hub::new(&files).await;
    let config = hub.serve("config.json", b"{}", "aaa", 0).await;
    let weights = hub.serve("lora/a.safetensors", b"weights", &sha256(b"weights"), 0).await;
    let mut told = Vec::new();
    let pulled = pull(&id("acme/tiny"), &hub.settings(), &mut |progress| told.push(progress)).await.unwrap();
    assert_eq!(pulled.commit, COMMIT);
    assert_eq!(fs::read(pulled.folder.join("lora/a.safetensors")).unwrap(), b"weights");
    assert!(!pulled.folder.join("README.md").exists() && !pulled.folder.join("eval").exists());
    assert_eq!(told[0], Progress::Files { count: 2, bytes: 9 });
    let received: u64 =
        told.iter().map(|step| if let Progress::Bytes(bytes) = step { *bytes } else { 0 }).sum();
    assert_eq!(received, 9);
    pull_quietly(&hub, "acme/tiny").await.unwrap();
    assert_eq!((config.load(Ordering::SeqCst), weights.load(Ordering::SeqCst)), (1, 1));
    let cache = Cache::new(hub.cache.path());
    assert_eq!(cache.find(&id("acme/tiny")), Some(pulled.folder.clone()));
    assert_eq!(cache.find(&id(&format!("acme/tiny@{COMMIT}"))), Some(pulled.folder.clone()));
    assert_eq!(cache.find(&id("acme/tiny@260101")), None);
    let models = cache.models();
    assert_eq!((models.len(), models[0].repository.as_str(), models[0].bytes), (1, "acme/tiny", 9));
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_stopped() {
    let content: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    let hub = Hub::new(&[("model.safetensors", &content)]).await;
    let tag = sha256(&content);
    hub.serve("model.safetensors", &content, &tag, 2).await;
    fs::create_dir_all(hub.blob(&tag).parent().unwrap()).unwrap();
    fs::write(hub.blob(&format!("{tag}.incomplete")), &content[..60_000]).unwrap();
    let mut bytes = 0;
    let pulled = pull(&id("acme/tiny"), &hub.settings(), &mut |step| {
        if let Progress::Bytes(more) = step {
            bytes += more;
        }
    })
    .await
    .unwrap();
    assert_eq!(fs::read(pulled.folder.join("model.safetensors")).unwrap(), content);
    assert_eq!(bytes, 40_000);
}

#[tokio::test]
async fn what_arrives_damaged_is_dropped() {
    let hub = Hub::new(&[("model.safetensors", b"x")]).await;
    let tag = sha256(b"something else");
    hub.serve("model.safetensors", b"damaged", &tag, 0).await;
    let error = pull_quietly(&hub, "acme/tiny").await.unwrap_err();
    assert!(matches!(error, HubError::Hash { .. }), "{error}");
    assert!(!hub.blob(&tag).exists() && !hub.blob(&format!("{tag}.incomplete")).exists());
    assert_eq!(Cache::new(hub.cache.path()).find(&id("acme/tiny")), None);
}

#[tokio::test]
async fn a_name_that_leads_out_of_the_cache_is_refused() {
    let hub = Hub::new(&[("../../evil.json", b"x")]).await;
    assert!(matches!(pull_quietly(&hub, "acme/tiny").await, Err(HubError::Answer { .. })));
    for text in ["acme", "acme/../x", "../x", "a/b/c", "/a/b", "acme/tiny@../x", "acme/.hidden", ""] {
        assert_eq!(HubId::parse(text), None, "{text}");
    }
}

#[tokio::test]
async fn offline_only_the_cache_is_asked() {
    let hub = Hub::new(&[]).await;
    let offline = HubSettings { offline: true, endpoint: "http://127.0.0.1:9".to_owned(), ..hub.settings() };
    let error = pull(&id("acme/tiny"), &offline, &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, HubError::Offline { .. }), "{error}");
    pull_quietly(&hub, "acme/tiny").await.unwrap();
    fs::create_dir_all(hub.cache.path().join("models--acme--tiny/snapshots").join(COMMIT)).unwrap();
    let pulled = pull(&id("acme/tiny"), &offline, &mut |_| {}).await.unwrap();
    assert_eq!(pulled.commit, COMMIT);
}

#[tokio::test]
async fn the_token_is_sent_and_a_missing_model_is_said_so() {
    let hub = Hub::new(&[]).await;
    Mock::given(path("/api/models/acme/secret/revision/main"))
        .and(header("authorization", "Bearer hf_test"))
        .respond_with(
            ResponseTemplate::new(200).set_body_json(serde_json::json!({"sha": COMMIT, "siblings": []})),
        )
        .mount(&hub.server)
        .await;
    let error = pull_quietly(&hub, "acme/secret").await.unwrap_err();
    assert!(error.to_string().contains("HF_TOKEN"), "{error}");
    fs::write(hub.cache.path().join("token"), "hf_test\n").unwrap();
    let home = hub.cache.path().to_string_lossy().into_owned();
    let read = HubSettings::read(|name| (name == "HF_HOME").then(|| home.clone()));
    let settings = HubSettings { token: read.token, ..hub.settings() };
    pull(&id("acme/secret"), &settings, &mut |_| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_and_its_base_come_from_the_hub() {
    let hub = Hub::new(&[]).await;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decider/checkpoints");
    hub.publish("decider", &fixtures.join("tiny-lora"), |name, content| match name {
        "MANIFEST.sha256" | "provenance.json" => None,
        "strands_decider_config.json" => {
            Some(String::from_utf8(content).unwrap().replace("tiny-qwen35-base", "acme/base").into_bytes())
        }
        _ => Some(content),
    })
    .await;
    hub.publish("base", &fixtures.join("tiny-qwen35-base"), |_, content| Some(content)).await;
    let settings = hub.settings();
    let located = tokio::task::spawn_blocking(move || {
        let located = locate("acme/decider", None, &settings, false, &mut |_| {}).unwrap();
        let offline = HubSettings { offline: true, ..settings };
        assert_eq!(locate("acme/decider", None, &offline, false, &mut |_| {}).unwrap(), located);
        located
    })
    .await
    .unwrap();
    assert_eq!(located.published, Some(("acme/decider".to_owned(), COMMIT.to_owned())));
    let options = strands::Options { base: located.base, published: located.published, ..Default::default() };
    let model = strands::load(&located.folder, &options).unwrap();
    assert_eq!((model.info().name.as_str(), model.info().revision.as_str()), ("decider", COMMIT));
}

#[test]
fn the_environment_says_where_things_are() {
    let variables = BTreeMap::from([
        ("HOME", "/home/me"),
        ("HF_ENDPOINT", "https://mirror.example/"),
        ("HF_HUB_OFFLINE", "Yes"),
    ]);
    let read = |variables: &BTreeMap<&str, &str>| {
        HubSettings::read(|name| variables.get(name).map(|value| (*value).to_owned()))
    };
    let settings = read(&variables);
    assert_eq!(settings.cache, Path::new("/home/me/.cache/huggingface/hub"));
    assert_eq!((settings.endpoint.as_str(), settings.offline), ("https://mirror.example", true));
    let settings = read(&BTreeMap::from([("HF_HOME", "/data"), ("HF_HUB_CACHE", "/big")]));
    assert_eq!((settings.cache.as_path(), settings.offline), (Path::new("/big"), false));
}
