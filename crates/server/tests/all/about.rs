//! What the edge server says of itself, over scripted models: models, document, metrics.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use serde_json::{Value, json};

use crate::scripted::{Scripted, config, start, user};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

#[tokio::test]
async fn about_itself() {
    let server = start(Scripted::default(), config()).await;
    let about: Value = server.get("/v1/tandem").await.json().await.unwrap();
    assert_eq!(about["cloud"], json!({ "name": "fake-large", "place": "embedded" }));
    assert_eq!(about["bar"], json!({ "threshold": 0.5 }));
    assert_eq!(about["router"], json!({ "name": "top1", "trained": false }));
    let health: Value = server.get("/health").await.json().await.unwrap();
    assert_eq!((&health["status"], &health["running"]), (&json!("ok"), &json!(0)));
    let models: Value = server.get("/v1/models").await.json().await.unwrap();
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["tandem-joint", "tandem-small", "tandem-large"]);
    let one: Value = server.get("/v1/models/tandem-small").await.json().await.unwrap();
    assert_eq!(one["id"], "tandem-small");
    assert_eq!(server.get("/v1/models/gpt-4").await.status(), 404);
}

/// The document names every route, and every field it promises is there.
#[tokio::test]
async fn the_document_is_held_to_the_server() {
    let server = start(Scripted::default(), config()).await;
    let document: Value = server.get("/openapi.json").await.json().await.unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "tandem-small").replace("{file}", "index.html");
        for method in methods.as_object().unwrap().keys() {
            let url = format!("{}{path}", server.url);
            let method = method.to_uppercase().parse().unwrap();
            let status = server.client.request(method, url).send().await.unwrap().status().as_u16();
            assert!([200, 415].contains(&status), "{path}: {status}");
        }
    }
    let body = json!({ "messages": user("x"), "tandem": { "trace": true, "threshold": 0.6 } });
    let answer = server.chat(body).await;
    let schemas = &document["components"]["schemas"];
    for (schema, value) in [
        ("Chat", &answer),
        ("Tandem", &answer["tandem"]),
        ("Stats", &answer["tandem"]["stats"]),
        ("Token", &answer["tandem"]["trace"][0]),
        ("Usage", &answer["usage"]),
    ] {
        let promised = schemas[schema]["properties"].as_object().unwrap();
        for name in value.as_object().unwrap().keys() {
            assert!(promised.contains_key(name), "{schema} does not name {name}");
        }
    }
    let promised = schemas["Stats"]["properties"].as_object().unwrap().len();
    assert_eq!(promised, answer["tandem"]["stats"].as_object().unwrap().len());
    // Requests: every field the document names is taken.
    for (schema, path, base) in [
        ("ChatRequest", CHAT, json!({ "messages": user("x") })),
        ("CompletionRequest", COMPLETIONS, json!({ "prompt": "x" })),
    ] {
        for name in schemas[schema]["properties"].as_object().unwrap().keys() {
            let mut body = base.clone();
            body.as_object_mut().unwrap().entry(name.as_str()).or_insert(json!({ "wrong": 1 }));
            let response = server.post(path, &body).await;
            let text = response.text().await.unwrap();
            assert!(
                !text.contains("is not known here")
                    || text.contains("stream_options.wrong")
                    || text.contains("tandem.wrong"),
                "{name}: {text}"
            );
        }
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
        value("tandem_tokens_total{source=\"cloud\"}"),
        stats["cloud_tokens"].as_f64().unwrap()
    );
    assert_eq!(value("tandem_asks_total"), stats["asks"].as_f64().unwrap());
    assert_eq!(value("tandem_sent_bytes_total"), stats["sent_bytes"].as_f64().unwrap());
    assert_eq!(
        value("tandem_prefilled_tokens_total{side=\"edge\"}"),
        stats["edge_prefilled"].as_f64().unwrap()
    );
    assert_eq!(value("tandem_requests_total{route=\"/v1/chat/completions\",status=\"200\"}"), 1.0);
    assert_eq!(value("tandem_requests_total{route=\"/v1/chat/completions\",status=\"400\"}"), 1.0);
    assert_eq!(value("tandem_requests_total{route=\"other\",status=\"404\"}"), 1.0);
    assert_eq!(value("tandem_time_to_first_token_seconds_count"), 1.0);
    assert_eq!(value("tandem_running"), 0.0);
    assert!(text.ends_with("# EOF\n"));
}
