//! What operators look at: the dashboard, names of requests, readiness.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use serde_json::{Value, json};

use crate::scripted::{Scripted, config, start, user};

/// The metrics that a query names.
fn names(query: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = query.split(|c| !word(c)).filter(|w| w.starts_with("tandem_"));
    words.map(str::to_owned).collect()
}

#[tokio::test]
async fn the_dashboard_asks_only_for_what_is_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ops/grafana.json");
    let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let server = start(Scripted::default(), config()).await;
    server.chat(json!({ "messages": user("x") })).await;
    let served = server.get("/metrics").await.text().await.unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            for name in names(target["expr"].as_str().unwrap()) {
                asked += 1;
                // The cloud's own server serves these; its test is beside it.
                if !name.starts_with("tandem_cloud_") {
                    assert!(served.contains(&format!("\n{name}")), "{name} is not in\n{served}");
                }
            }
        }
    }
    assert!(asked > 15, "{asked}");
}

#[tokio::test]
async fn every_answer_has_the_name_of_its_request() {
    let server = start(Scripted::default(), config()).await;
    let url = format!("{}/health", server.url);
    let answer = server.client.get(&url).header("x-request-id", "mine-7").send().await.unwrap();
    assert_eq!(answer.headers()["x-request-id"], "mine-7");
    let long = "x".repeat(200);
    for given in [None, Some(long.as_str()), Some("two words")] {
        let mut request = server.client.get(&url);
        if let Some(given) = given {
            request = request.header("x-request-id", given);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["x-request-id"].len(), 24, "{given:?}");
    }
}

#[tokio::test]
async fn a_server_whose_seats_are_taken_is_alive_and_not_ready() {
    let pace = Duration::from_millis(200);
    let server =
        start(Scripted { pace, seats: 1, ends: false, ..Scripted::default() }, config()).await;
    assert_eq!(server.get("/ready").await.status(), 200);
    let texts = [0, 1].map(|_| {
        let (client, url) = (server.client.clone(), server.url.clone());
        let body = json!({ "messages": user("x"), "max_tokens": 100 });
        tokio::spawn(async move {
            client.post(format!("{url}/v1/chat/completions")).json(&body).send().await
        })
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
    assert_eq!(server.get("/health").await.status(), 200);
    texts.iter().for_each(|text| text.abort());
}
