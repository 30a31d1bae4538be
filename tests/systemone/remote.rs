//! assayd as a client of such a server: the decision model is elsewhere.

use assayd::decide::{self, Desk, ModelName};
use futures::future::join_all;
use serde_json::{Value, json};

use super::reference::assert_like;
use super::{House, checkpoint, state_of_its_own};

fn remote(house: &House, model: &str) -> Desk {
    let model = ModelName::parse(&format!("systemone:http://{}#{model}", house.address));
    decide::start(&decide::Config { model, ..decide::Config::default() }).unwrap()
}

/// assayd as the client of assayd: through two sockets comes what the model says.
#[tokio::test]
async fn a_remote_model_answers_as_the_local_one_behind_it() {
    let origin = House::open(checkpoint("tiny-lora")).await;
    let relay = House::open(remote(&origin, "tiny-lora")).await;
    for caller in 0..12 {
        let request = state_of_its_own(caller);
        let (near, far) = (origin.answered(&request).await, relay.answered(&request).await);
        assert_eq!(near["answers"].as_object().unwrap().len(), far["answers"].as_object().unwrap().len());
        for (id, near) in near["answers"].as_object().unwrap() {
            let far = &far["answers"][id];
            for exact in ["type", "noul", "choice", "probabilities"] {
                assert_eq!(near.get(exact), far.get(exact), "{id}");
            }
            // Made of four decimals there, of all of them here.
            for close in ["score", "confidence"].iter().filter(|key| near.get(key).is_some()) {
                let (near, far) = (near[close].as_f64().unwrap(), far[close].as_f64().unwrap());
                assert!((near - far).abs() < 1e-3, "{id} {close}: {near} {far}");
            }
        }
        assert_eq!(near["usage"], far["usage"]);
    }
    relay.close().await;
    origin.close().await;
}

#[tokio::test]
async fn sixty_four_callers_of_a_remote_model_get_their_own_answers() {
    let origin = House::open(checkpoint("tiny-lora")).await;
    let relay = House::open(remote(&origin, "")).await;
    let requests: Vec<Value> = (0..64).map(state_of_its_own).collect();
    let together = join_all(requests.iter().map(|request| relay.answered(request))).await;
    for (request, far) in requests.iter().zip(&together).step_by(4) {
        let near = origin.answered(request).await;
        assert_like(&far["answers"]["urgent"], &near["answers"]["urgent"], "urgent");
    }
    relay.close().await;
    origin.close().await;
}

/// Runs `assayd ask` beside the server.
async fn command(arguments: Vec<String>) -> std::process::Output {
    let run = move || {
        std::process::Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args(arguments)
            .env_remove("ASSAYD_DECIDE_KEY")
            .env_remove("TYPESAFE_API_KEY")
            .output()
            .unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test]
async fn the_command_line_asks_a_server_and_says_what_is_wrong_with_it() {
    let house = House::open(checkpoint("tiny-lora")).await;
    let asked = json!({"model": "jev-latest", "state": "My payouts fail.", "questions": {
        "noul_0": {"type": "noul", "instructions": "Is it urgent?"}}});
    let near = house.answered(&asked).await;
    let ask = |model: String| {
        let arguments =
            ["ask", "--json", "--state", "My payouts fail.", "--noul", "Is it urgent?", "--model"];
        arguments.iter().map(|argument| (*argument).to_owned()).chain([model]).collect()
    };
    let there = format!("systemone:http://{}", house.address);
    let output = command(ask(there.clone())).await;
    let far: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(far["answers"], near["answers"]);
    for (model, words) in [
        (format!("{there}#another-model"), "decide.model.systemone.model"),
        ("systemone:http://127.0.0.1:9".to_owned(), "cannot be reached"),
        ("systemone".to_owned(), "TYPESAFE_API_KEY"),
    ] {
        let output = command(ask(model)).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    house.close().await;
}
