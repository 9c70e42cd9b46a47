//! Several pairs in one server, over scripted models: names, lists, budgets, figures.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};
use tandem::{CloudState, Share, Tandem};
use tandem_server::{
    edge::{FurtherPair, Server, ServerInfo},
    listen::ServerLimits,
};

use crate::scripted::{Running, Scripted, Watch, config, defaults, routers, start_pairs, user};

const CHAT: &str = "/v1/chat/completions";

/// A further pair with these models, whose cloud may write at most this share.
fn pair(name: &str, models: Scripted, share: f32) -> FurtherPair<Scripted> {
    let (size, routers) = ((models.seats, models.queue), routers(0.9));
    let routers = routers.limited(Share::new(share).unwrap());
    let about = ServerInfo { edge: "other".into(), cloud: None, ..config().about };
    FurtherPair { name: name.into(), tandem: Tandem::new(models, routers, defaults(), size), about }
}

fn own() -> Tandem<Scripted> {
    Tandem::new(Scripted::default(), routers(0.5), defaults(), (4, 64))
}

/// A server with its own pair and two further ones, and what the models of `maths` do.
async fn start() -> (Running, Watch) {
    let maths = Scripted { cloud_state: Some(CloudState::Loading), ..Scripted::default() };
    let watch = maths.watch.clone();
    let further = vec![pair("maths", maths, 1.0), pair("qwen-2", Scripted::default(), 0.1)];
    (start_pairs(own(), further, config(), ServerLimits::default()).await, watch)
}

async fn ids(server: &Running, list: &str, name: &str) -> Vec<String> {
    let listed: Value = server.get(list).await.json().await.unwrap();
    let key = if list.starts_with("/v1") { "data" } else { "models" };
    let entries = listed[key].as_array().unwrap().iter();
    entries.map(|entry| entry[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_list_has_all_pairs_in_all_modes() {
    let (server, _) = start().await;
    let all = ["tandem", "maths", "qwen-2"]
        .map(|pair| ["joint", "small", "large", "verify"].map(|mode| format!("{pair}-{mode}")))
        .concat();
    assert_eq!(ids(&server, "/v1/models", "id").await, all);
    let tagged: Vec<_> = all.iter().map(|name| format!("{name}:latest")).collect();
    for list in ["/api/tags", "/api/ps"] {
        assert_eq!(ids(&server, list, "name").await, tagged);
    }
    let one: Value = server.get("/v1/models/qwen-2-verify").await.json().await.unwrap();
    assert_eq!(one["id"], "qwen-2-verify");
    assert_eq!(server.get("/v1/models/other-joint").await.status(), 404);
    let show = server.post("/api/show", &json!({ "model": "maths-joint:latest" })).await;
    let shown: Value = show.json().await.unwrap();
    assert_eq!(shown["details"]["family"], "other");
    let about: Value = server.get("/v1/tandem").await.json().await.unwrap();
    assert_eq!((&about["edge"]["name"], &about["cloud_state"]), (&json!("fake"), &Value::Null));
    let pairs = about["pairs"].as_array().unwrap();
    let names: Vec<_> = pairs.iter().map(|pair| &pair["name"]).collect();
    assert_eq!(names, ["tandem", "maths", "qwen-2"]);
    assert_eq!(
        (&pairs[1]["edge"]["name"], &pairs[1]["cloud_state"]),
        (&json!("other"), &json!("loading"))
    );
    assert!(pairs[1]["policy"]["threshold"].as_f64().unwrap() > 0.8);
}

#[tokio::test]
async fn every_face_takes_the_names_and_the_pair_that_is_named_writes() {
    let (server, maths) = start().await;
    let chat = |model: &str| json!({ "model": model, "max_tokens": 5, "messages": user("Count") });
    let steps = || (server.watch.steps.load(Ordering::SeqCst), maths.steps.load(Ordering::SeqCst));
    let (mut own_before, mut maths_before) = steps();
    for (path, mut body) in [
        (CHAT, chat("maths-small")),
        ("/v1/completions", json!({ "model": "maths-small", "max_tokens": 5, "prompt": " the" })),
        ("/v1/responses", json!({ "model": "maths-small", "max_output_tokens": 5, "input": "x" })),
        ("/v1/messages", chat("maths-small")),
        ("/api/chat", chat("maths-small:latest")),
        ("/api/generate", json!({ "model": "maths-small", "prompt": "x" })),
    ] {
        body["stream"] = json!(false);
        if path.starts_with("/api") {
            body.as_object_mut().unwrap().remove("max_tokens");
        }
        let response = server.post(path, &body).await;
        let status = response.status();
        let answer: Value = response.json().await.unwrap();
        assert_eq!(
            (status.as_u16(), &answer["model"]),
            (200, &json!("maths-small")),
            "{path}: {answer}"
        );
        let (own, maths) = steps();
        assert!(own == own_before && maths > maths_before, "{path} was written by the wrong pair");
        (own_before, maths_before) = (own, maths);
    }
    // Who names no model gets the server's own pair.
    let answer = server.chat(json!({ "messages": user("Count"), "max_tokens": 5 })).await;
    assert_eq!(answer["model"], "tandem-joint");
    let chunks = server.stream(CHAT, &json!({ "model": "maths-large", "stream": true, "max_tokens": 3, "messages": user("x") })).await;
    let first: Value = serde_json::from_str(&chunks[0]).unwrap();
    assert_eq!(first["model"], "maths-large");
    let counted = server.post("/v1/messages/count_tokens", &chat("maths-joint")).await;
    assert_eq!(counted.status(), 200);
}

#[tokio::test]
async fn unknown_names_are_refused_with_the_names_there_are() {
    let (server, _) = start().await;
    for model in ["physics-joint", "maths", "maths-jointly", "gpt-4"] {
        let body = json!({ "model": model, "messages": user("x") });
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["code"]), (404, &json!("model_not_found")), "{model}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("tandem-joint, ") && message.contains("qwen-2-verify"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn each_pair_has_its_own_limit_and_its_own_figures() {
    let (server, _) = start().await;
    let large = |pair: &str| json!({ "model": format!("{pair}-large"), "max_tokens": 4, "messages": user("x") });
    let (status, error) = server.refused(CHAT, &large("qwen-2")).await;
    assert_eq!((status, &error["code"]), (403, &json!("not_allowed")));
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("qwen-2-large is not allowed here: at most 10%")
    );
    for pair in ["tandem", "maths"] {
        server.chat(large(pair)).await;
    }
    server.idle().await;
    let text = server.get("/metrics").await.text().await.unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<f64>().unwrap()
    };
    for pair in ["tandem", "maths"] {
        let asked = value(&format!("tandem_asks_total{{pair=\"{pair}\"}}"));
        let written = value(&format!("tandem_tokens_total{{pair=\"{pair}\",source=\"cloud\"}}"));
        assert!(asked >= 1.0 && written >= 1.0, "{pair}: {asked} {written}");
    }
    assert_eq!(value("tandem_asks_total{pair=\"qwen-2\"}"), 0.0);
    // A family of metrics is told once, however many pairs there are.
    assert_eq!(text.matches("# TYPE tandem_asks counter").count(), 1);
}

#[tokio::test]
async fn a_pair_whose_seats_are_taken_or_whose_models_failed_shows() {
    let slow =
        Scripted { pace: Duration::from_millis(200), seats: 1, ends: false, ..Scripted::default() };
    let failed = slow.failed.clone();
    let further = vec![pair("maths", slow, 1.0)];
    let server = start_pairs(own(), further, config(), ServerLimits::default()).await;
    assert_eq!(server.get("/ready").await.status(), 200);
    let texts = [0, 1].map(|_| {
        let (client, url) = (server.client.clone(), server.url.clone());
        let body = json!({ "model": "maths-small", "messages": user("x"), "max_tokens": 100 });
        tokio::spawn(async move { client.post(format!("{url}{CHAT}")).json(&body).send().await })
    });
    let mut status = 200;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        status = server.get("/ready").await.status().as_u16();
        if status == 503 {
            break;
        }
    }
    assert_eq!(status, 503);
    let health: Value = server.get("/health").await.json().await.unwrap();
    assert_eq!((&health["running"], &health["queued"]), (&json!(1), &json!(1)));
    // The other pair answers meanwhile.
    server.chat(json!({ "messages": user("x"), "max_tokens": 3 })).await;
    texts.iter().for_each(|text| text.abort());
    failed.store(true, Ordering::SeqCst);
    assert_eq!(server.get("/health").await.status(), 503);
}

#[tokio::test]
async fn names_that_could_not_be_told_apart_are_refused() {
    for names in [["maths", "maths"], ["maths", "tandem"], ["Maths", "x"]] {
        let further = names.map(|name| pair(name, Scripted::default(), 1.0)).into();
        assert!(Server::with_pairs(own(), further, config()).await.is_err(), "{names:?}");
    }
}
