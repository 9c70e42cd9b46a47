//! What the edge server says of itself, over scripted models: models and metrics.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};
use tandem::CloudState;

use crate::scripted::{Scripted, config, start, user};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn about_itself() {
    let server = start(Scripted::default(), config()).await;
    let about: Value = server.get("/v1/tandem").await.json().await.unwrap();
    assert_eq!(about["cloud"], json!({ "name": "fake-large", "place": "embedded" }));
    assert_eq!(about["policy"], json!({ "threshold": 0.5 }));
    assert_eq!(about["router"], json!({ "name": "top1", "trained": false }));
    // The slider of the page follows this: both numbers rise.
    let table = about["tables"]["top1"].as_array().unwrap();
    let pair = |point: &Value| (point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
    assert!(table.is_sorted_by(|a, b| pair(a).0 < pair(b).0 && pair(a).1 <= pair(b).1));
    let health: Value = server.get("/health").await.json().await.unwrap();
    assert_eq!((&health["status"], &health["running"]), (&json!("ok"), &json!(0)));
    let models: Value = server.get("/v1/models").await.json().await.unwrap();
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["tandem-joint", "tandem-small", "tandem-large", "tandem-verify"]);
    let one: Value = server.get("/v1/models/tandem-small").await.json().await.unwrap();
    assert_eq!(one["id"], "tandem-small");
    assert_eq!(server.get("/v1/models/gpt-4").await.status(), 404);
}

/// The page tells by this that a model is being loaded.
#[tokio::test]
async fn the_clouds_state_is_a_word() {
    let words = [
        (None, json!(null)),
        (Some(CloudState::NotLoaded), json!("not_loaded")),
        (Some(CloudState::Loading), json!("loading")),
        (Some(CloudState::Ready), json!("ready")),
        (Some(CloudState::Unreachable), json!("unreachable")),
    ];
    for (cloud_state, word) in words {
        let server = start(Scripted { cloud_state, ..Scripted::default() }, config()).await;
        let about: Value = server.get("/v1/tandem").await.json().await.unwrap();
        assert_eq!(about["cloud_state"], word);
    }
}

#[tokio::test]
async fn figures_add_up() {
    let server = start(Scripted::default(), config()).await;
    let answer =
        server.chat(json!({ "messages": user("Count"), "tandem": {"threshold": 0.8} })).await;
    drop(server.post(CHAT, &json!({ "messages": 5 })).await);
    drop(server.get("/nowhere/at/all").await);
    let text = server.get("/metrics").await.text().await.unwrap();
    let value = |name: &str| {
        let line = text.lines().find(|l| l.strip_prefix(name).is_some_and(|r| r.starts_with(' ')));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let stats = &answer["tandem"]["stats"];
    assert_eq!(
        value("tandem_tokens_total{pair=\"tandem\",source=\"cloud\"}"),
        stats["cloud_tokens"].as_f64().unwrap()
    );
    assert_eq!(value("tandem_asks_total{pair=\"tandem\"}"), stats["asks"].as_f64().unwrap());
    assert_eq!(
        value("tandem_sent_bytes_total{pair=\"tandem\"}"),
        stats["sent_bytes"].as_f64().unwrap()
    );
    assert_eq!(
        value("tandem_prefilled_tokens_total{pair=\"tandem\",side=\"edge\"}"),
        stats["edge_prefilled"].as_f64().unwrap()
    );
    assert_eq!(value("tandem_requests_total{route=\"/v1/chat/completions\",status=\"200\"}"), 1.0);
    assert_eq!(value("tandem_requests_total{route=\"/v1/chat/completions\",status=\"400\"}"), 1.0);
    assert_eq!(value("tandem_requests_total{route=\"other\",status=\"404\"}"), 1.0);
    assert_eq!(value("tandem_time_to_first_token_seconds_count{pair=\"tandem\"}"), 1.0);
    assert_eq!(value("tandem_running{pair=\"tandem\"}"), 0.0);
    assert!(text.ends_with("# EOF\n"));
}
