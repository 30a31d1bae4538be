use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use super::*;
use crate::decide::{Scripted, Size, start_with};
use crate::domain::{Decision, Json, Kind, Nobody, Question, Subject};

fn inquiry(text: &str) -> Inquiry {
    let question = Question {
        id: "q".to_owned(),
        kind: Kind::Noul { if_true: None, if_false: None },
        instructions: Json::String(text.to_owned()),
        subject: Subject::General,
    };
    Inquiry::new(Arc::new(Json::String(text.to_owned())), vec![question])
}

fn text(inquiry: &Inquiry) -> &str {
    inquiry.state.as_str().unwrap()
}

fn reply(tokens: u32) -> Reply {
    let decision = Decision { probabilities: vec![0.25, 0.75], tokens };
    Reply { decisions: vec![Ok(decision)], input_tokens: u64::from(tokens), truncated: false }
}

/// A desk whose model answers with the number that the state holds; words in the state make it misbehave.
fn obedient(config: &Config) -> Desk {
    let script = |inquiry: &Inquiry| match text(inquiry) {
        "panic" => panic!("as told"),
        "fail" => Err(DecideError::NotFinite),
        "nothing" => Ok(Reply { decisions: vec![], input_tokens: 0, truncated: false }),
        number => Ok(reply(number.parse().unwrap())),
    };
    start_with(Scripted::new(script), config).unwrap()
}

/// A desk whose model waits for a word through the sender before each answer and notes what it was asked.
fn held(config: &Config) -> (Desk, mpsc::Sender<()>, Arc<Mutex<Vec<String>>>) {
    let (go, gone) = mpsc::channel();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    let script = move |inquiry: &Inquiry| {
        notes.lock().unwrap().push(text(inquiry).to_owned());
        gone.recv().map_err(|_| DecideError::Closed)?;
        Ok(reply(1))
    };
    (start_with(Scripted::new(script), config).unwrap(), go, asked)
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_never_get_each_others_answers() {
    let desk = obedient(&Config::default());
    let callers: Vec<_> = (0..64u32)
        .map(|number| {
            let desk = desk.clone();
            tokio::spawn(async move {
                for round in 0..20 {
                    let own = number * 100 + round;
                    let reply = desk.ask(inquiry(&own.to_string())).await.unwrap();
                    assert_eq!(reply.decisions[0].as_ref().unwrap().tokens, own);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[tokio::test]
async fn a_poisonous_inquiry_fails_its_own_caller_and_the_worker_lives_on() {
    let desk = obedient(&Config::default());
    for poison in ["panic", "fail"] {
        let (one, bad, two) =
            tokio::join!(desk.ask(inquiry("1")), desk.ask(inquiry(poison)), desk.ask(inquiry("2")));
        assert_eq!(one.unwrap(), reply(1));
        assert_eq!(two.unwrap(), reply(2));
        match (poison, bad.unwrap_err()) {
            ("panic", DecideError::Panicked { message }) => assert_eq!(message, "as told"),
            ("fail", DecideError::NotFinite) => {}
            (_, other) => panic!("{poison}: {other}"),
        }
    }
    assert_eq!(desk.ask(inquiry("3")).await.unwrap(), reply(3));
    assert_eq!(desk.health(), Health::Ready);
}

#[tokio::test]
async fn a_failing_model_says_so_and_is_probed_until_it_works() {
    let desk = obedient(&Config::default());
    assert!(desk.ready().await);
    desk.ask(inquiry("fail")).await.unwrap_err();
    let mut health = desk.health.clone();
    health.wait_for(|health| *health == Health::Ready).await.unwrap();
}

#[tokio::test]
async fn a_reply_without_its_decisions_is_an_error() {
    let error = obedient(&Config::default()).ask(inquiry("nothing")).await.unwrap_err();
    assert!(matches!(error, DecideError::Miscounted { wanted: 1, found: 0 }), "{error}");
}

#[tokio::test]
async fn a_caller_that_went_away_is_skipped() {
    let (desk, go, asked) = held(&Config::default());
    let first = tokio::spawn({
        let desk = desk.clone();
        async move { desk.ask(inquiry("first")).await }
    });
    until(|| asked.lock().unwrap().len() == 1).await;
    let mut gone = Box::pin(desk.ask(inquiry("gone")));
    assert!(futures::poll!(&mut gone).is_pending());
    let last = desk.ask(inquiry("last"));
    drop(gone);
    go.send(()).unwrap();
    go.send(()).unwrap();
    last.await.unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(*asked.lock().unwrap(), ["first", "last"]);
}

/// Counts what it encodes; its work is the count.
struct Counting(AtomicUsize);

impl Encoder<usize> for Counting {
    fn encode(&self, _: Inquiry) -> Result<Encoded<usize>, DecideError> {
        let work = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Encoded::Work { work, size: Size::row(1) })
    }

    fn is_quick(&self, _: &Inquiry) -> bool {
        true
    }
}

#[tokio::test]
async fn callers_wait_when_the_queue_is_full() {
    let encoder = Arc::new(Counting(AtomicUsize::new(0)));
    let (queue, entries) = sync_channel(3);
    let places = Arc::new(Semaphore::new(3));
    let local = Local { encoder: Arc::clone(&encoder) as _, places, encoding: Semaphore::new(1), queue };
    let mut callers: Vec<_> = (0..5).map(|_| local.ask(inquiry("?"))).collect();
    for caller in &mut callers {
        assert!(futures::poll!(caller).is_pending());
    }
    assert_eq!(encoder.0.load(Ordering::SeqCst), 3);
    let served = entries.try_recv().unwrap();
    served.reply.send(Ok(reply(1))).unwrap();
    assert!(futures::poll!(&mut callers[3]).is_pending());
    assert_eq!(encoder.0.load(Ordering::SeqCst), 3, "what is in the model still has its place");
    drop(served.place);
    assert!(futures::poll!(&mut callers[3]).is_pending());
    assert_eq!(encoder.0.load(Ordering::SeqCst), 4);
    assert_eq!(futures::poll!(&mut callers[0]).map(Result::unwrap), std::task::Poll::Ready(reply(1)));
}

#[tokio::test]
async fn lingering_lets_company_arrive() {
    let (desk, go, asked) = held(&Config { linger: crate::domain::Period::millis(200), ..Config::default() });
    let both = futures::future::join(desk.ask(inquiry("1")), desk.ask(inquiry("2")));
    go.send(()).unwrap();
    go.send(()).unwrap();
    let (one, two) = both.await;
    one.unwrap();
    two.unwrap();
    assert_eq!(*asked.lock().unwrap(), ["1", "2"]);
}

#[tokio::test]
async fn when_the_last_desk_is_gone_the_thread_ends() {
    let desk = obedient(&Config::default());
    let mut health = desk.health.clone();
    drop(desk);
    assert!(health.wait_for(|health| *health == Health::Stopped).await.is_ok());
}

#[tokio::test]
async fn questions_that_nobody_can_answer_do_not_wait_for_the_model() {
    struct Refuse;
    impl Encoder<()> for Refuse {
        fn encode(&self, _: Inquiry) -> Result<Encoded<()>, DecideError> {
            let decisions = vec![Err(Nobody::Unsupported)];
            Ok(Encoded::Done(Reply { decisions, input_tokens: 0, truncated: false }))
        }

        fn is_quick(&self, _: &Inquiry) -> bool {
            false
        }
    }
    let (queue, _held) = sync_channel(1);
    let local = Local {
        encoder: Arc::new(Refuse),
        places: Arc::new(Semaphore::new(1)),
        encoding: Semaphore::new(1),
        queue,
    };
    assert_eq!(local.ask(inquiry("?")).await.unwrap().decisions, [Err(Nobody::Unsupported)]);
}
