use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::domain::Period;
use crate::emit::sample;
use crate::secret::Secret;

fn retry() -> RetryConfig {
    RetryConfig { first: Period::millis(1), longest: Period::millis(2) }
}

fn config(url: &str, more: &str) -> WebhookConfig {
    serde_saphyr::from_str(&format!("{{ url: '{url}', give_up_after: 2s, {more} }}")).unwrap()
}

fn hook(config: WebhookConfig) -> Webhook {
    Webhook::open(config, retry(), CancellationToken::new()).unwrap()
}

async fn answering(statuses: &[u16]) -> MockServer {
    let server = MockServer::start().await;
    for (number, status) in statuses.iter().enumerate() {
        let last = number + 1 == statuses.len();
        let mock = Mock::given(method("POST")).respond_with(ResponseTemplate::new(*status));
        if last { mock.mount(&server).await } else { mock.up_to_n_times(1).mount(&server).await }
    }
    server
}

fn header(request: &wiremock::Request, name: &str) -> String {
    request.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_failing_verdict_is_posted_signed_and_a_faithful_one_is_not() {
    let server = answering(&[204]).await;
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "k3y").unwrap();
    let mut config = config(&server.uri(), "");
    config.keys = vec![Secret::File(key.path().to_owned())];
    let hook = hook(config);
    hook.write(&sample::numbered(1)).await.unwrap();
    hook.write(&sample::skipped()).await.unwrap();
    hook.write(&sample::full()).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    let posted: Verdict = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(posted, sample::full());
    let (id, seconds) = (header(request, "webhook-id"), header(request, "webhook-timestamp"));
    assert_eq!(id, "b1946ac92492d234.2");
    let expected = sign::signatures(&[b"k3y".to_vec()], &id, seconds.parse().unwrap(), &request.body);
    assert_eq!(header(request, "webhook-signature"), expected);
    assert_eq!(header(request, "content-type"), "application/json");
}

#[tokio::test]
async fn a_receiver_that_fails_for_now_is_tried_again_with_the_same_id() {
    let server = answering(&[503, 429, 500, 200]).await;
    hook(config(&server.uri(), "")).write(&sample::full()).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| header(request, "webhook-id") == "b1946ac92492d234.2"));
}

#[tokio::test]
async fn a_receiver_that_refuses_or_stays_away_makes_a_dead_letter_and_no_standstill() {
    let refusing = answering(&[410]).await;
    let error = hook(config(&refusing.uri(), "")).write(&sample::full()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Poison);
    assert_eq!(refusing.received_requests().await.unwrap().len(), 1);

    let mut impatient = config("http://127.0.0.1:1/", "");
    impatient.give_up_after = Period::millis(50);
    let error = hook(impatient).write(&sample::full()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Poison);
    assert!(error.to_string().contains("emit.webhook.give_up_after"), "{error}");
}

#[tokio::test]
async fn after_the_last_call_it_waits_for_nobody_and_makes_no_dead_letter() {
    let server = answering(&[503]).await;
    let mut config = config(&server.uri(), "");
    config.give_up_after = Period::seconds(3_600);
    let patient = RetryConfig { first: Period::seconds(600), longest: Period::seconds(600) };
    let last_call = CancellationToken::new();
    let hook = Webhook::open(config, patient, last_call.clone()).unwrap();
    let verdict = sample::full();
    let (result, ()) = tokio::join!(hook.write(&verdict), async {
        while server.received_requests().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        last_call.cancel();
    });
    assert_eq!(result.unwrap_err().fault, Fault::Transient);
    assert_eq!(hook.write(&verdict).await.unwrap_err().fault, Fault::Transient);
    assert_eq!(server.received_requests().await.unwrap().len(), 2, "one attempt each");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = answering(&[200]).await;
    let server = MockServer::start().await;
    let moved = ResponseTemplate::new(307).insert_header("location", elsewhere.uri().as_str());
    Mock::given(method("POST")).respond_with(moved).mount(&server).await;
    let error = hook(config(&server.uri(), "")).write(&sample::full()).await.unwrap_err();
    assert_eq!(error.fault, Fault::Poison);
    assert_eq!(elsewhere.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_metadata_address_in_the_url_is_refused_at_the_start_unless_it_is_allowed() {
    let error = Webhook::open(config("http://169.254.169.254/latest", ""), retry(), CancellationToken::new())
        .err()
        .unwrap();
    assert_eq!(error.fault, Fault::Fatal);
    assert!(error.to_string().contains("allow_addresses"), "{error}");
    // `http://0/` is an address in a short spelling: 0.0.0.0.
    assert!(Webhook::open(config("http://0/", ""), retry(), CancellationToken::new()).is_err());
    assert!(
        Webhook::open(
            config("http://169.254.169.254/", "allow_addresses: [169.254.169.254]"),
            retry(),
            CancellationToken::new()
        )
        .is_ok()
    );
}

#[tokio::test]
async fn without_texts_no_word_of_the_answer_leaves() {
    let server = answering(&[200]).await;
    hook(config(&server.uri(), "texts: false")).write(&sample::full()).await.unwrap();
    let body = String::from_utf8(server.received_requests().await.unwrap()[0].body.clone()).unwrap();
    for words in ["It arrives", "Order 7", "the tool says so", "the judge timed out"] {
        assert!(!body.contains(words), "{words}");
    }
    let posted: Verdict = serde_json::from_str(&body).unwrap();
    assert_eq!(posted.grounding.unwrap().claims.len(), 3, "where the claims stand is still told");
}

#[tokio::test]
async fn secrets_show_in_no_error() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "whsec_not base64 s3cret").unwrap();
    let mut config = config("http://127.0.0.1:1/?token=s3cret", "");
    let error = hook(config.clone()).post(&sample::full(), b"{}").await;
    let Attempt::Later { message, .. } = error else { panic!("nobody is there") };
    assert!(!message.contains("s3cret"), "{message}");
    config.keys = vec![Secret::File(key.path().to_owned())];
    assert!(
        !Webhook::open(config, retry(), CancellationToken::new())
            .err()
            .unwrap()
            .to_string()
            .contains("s3cret")
    );
}
