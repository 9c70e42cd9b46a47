//! What only the HTTP server of the cloud does: it reads bodies, asks for keys, and names addresses that
//! are not there. What it serves is in `protocol`.
#![allow(clippy::unwrap_used, clippy::panic)]

use cloud::{Address, protocol::prefix_hash};
use engine::LoadOptions;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tandem_server::{cloud::Config, http::Keys};

use crate::common::{small, start};

struct Peer {
    client: Client,
    address: Address,
}

impl Peer {
    async fn new(options: LoadOptions, config: Config) -> Self {
        let address = start(options, config).await;
        cloud::http::provide_cryptography();
        Self { client: Client::builder().no_proxy().build().unwrap(), address }
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(path, body.to_string().into_bytes()).await
    }

    async fn send(&self, path: &str, body: Vec<u8>) -> (StatusCode, Value) {
        let url = format!("{}{path}", self.address);
        let request = self.client.post(url).header("content-type", "application/json").body(body);
        let response = request.send().await.unwrap();
        (response.status(), response.json().await.unwrap_or_default())
    }
}

#[tokio::test]
async fn garbage_is_refused_with_a_reason_and_the_server_lives() {
    let peer = Peer::new(small(), Config::default()).await;
    let (_, opened) = peer.post("/v1/sessions", &json!({"prompt": {"text": "Hello?"}})).await;
    let next = format!("/v1/sessions/{}/next", opened["session"].as_str().unwrap());
    let good = json!({
        "sequence": 1,
        "position": 0,
        "hash": prefix_hash(""),
        "append": {"ids": []},
        "want": {"tokens": 1},
    });
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string().into_bytes()
    };
    let deep = format!("{{\"prompt\":{}", "[".repeat(100_000)).into_bytes();
    for (path, body) in [
        ("/v1/sessions", b"".to_vec()),
        ("/v1/sessions", b"not json".to_vec()),
        ("/v1/sessions", b"\xff\xfe\x00".to_vec()),
        ("/v1/sessions", b"{}".to_vec()),
        ("/v1/sessions", b"[]".to_vec()),
        ("/v1/sessions", deep),
        ("/v1/sessions", br#"{"prompt":{"text":""}}"#.to_vec()),
        ("/v1/sessions", br#"{"prompt":{"messages":[]}}"#.to_vec()),
        ("/v1/sessions", br#"{"prompt":{"tokens":[99999999]}}"#.to_vec()),
        ("/v1/sessions", br#"{"prompt":{"messages":[{"role":"alien","content":"x"}]}}"#.to_vec()),
        (&next, with("want", json!({"tokens": 0}))),
        (&next, with("want", json!({"tokens": 1_000_000}))),
        (&next, with("want", json!({"word": true}))),
        (&next, with("want", json!("all"))),
        (&next, with("append", json!({"text": "hi"}))),
        (&next, with("append", json!({"ids": [-1]}))),
        (&next, with("append", json!({"ids": [4_000_000_000u64]}))),
        (&next, with("position", json!(-1))),
        (&next, with("sampling", json!({"temperature": -1}))),
        (&next, with("sampling", json!({"temperatur": 1}))),
    ] {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let (status, error) = peer.send(path, body).await;
        assert_eq!(status, 400, "{shown}: {error}");
        assert!(
            error["error"]["message"].as_str().is_some_and(|m| m.len() > 10),
            "{shown}: {error}"
        );
    }
    let (status, error) = peer.send("/v1/sessions", vec![b' '; 5 << 20]).await;
    assert_eq!((status.as_u16(), error["error"]["code"].as_str()), (413, Some("too_large")));
    let (status, error) = peer.post("/v1/nowhere", &json!({})).await;
    assert_eq!((status.as_u16(), error["error"]["code"].as_str()), (404, Some("not_found")));
    let wrong_method =
        peer.client.get(format!("{}/v1/sessions", peer.address)).send().await.unwrap();
    assert_eq!(wrong_method.status(), 405);
    assert_eq!(peer.post(&next, &good).await.0, 200);
}

#[tokio::test]
async fn a_key_is_wanted_where_one_is_set() {
    let config = Config { keys: Keys::new(["secret"]).unwrap(), ..Config::default() };
    let peer = Peer::new(small(), config).await;
    let body = json!({"prompt": {"text": "x"}});
    let (status, error) = peer.post("/v1/sessions", &body).await;
    assert_eq!((status.as_u16(), error["error"]["code"].as_str()), (401, Some("unauthorized")));
    assert!(!error.to_string().contains("secret"));
    // The scheme's name has no case.
    for (authorization, expected) in
        [("Bearer wrong", 401), ("Bearer secret", 200), ("bearer secret", 200), ("secret", 401)]
    {
        let url = format!("{}/v1/sessions", peer.address);
        let request = peer.client.post(url).header("authorization", authorization).json(&body);
        assert_eq!(request.send().await.unwrap().status().as_u16(), expected, "{authorization}");
    }
    let health = peer.client.get(format!("{}/health", peer.address)).send().await.unwrap();
    let health: Value = health.json().await.unwrap();
    assert_eq!(health["service"], "tandem-cloud");
}

/// A page of somebody else's must not use a cloud through the browser of whoever looks at it.
#[tokio::test]
async fn pages_of_others_cannot_use_a_cloud_without_a_key() {
    let peer = Peer::new(small(), Config::default()).await;
    let body = json!({"prompt": {"text": "x"}});
    let url = format!("{}/v1/sessions", peer.address);
    // A browser sends this without asking first.
    let form = peer.client.post(&url).header("content-type", "text/plain").body(body.to_string());
    let refused = form.send().await.unwrap();
    assert_eq!(refused.status(), 415);
    let error: Value = refused.json().await.unwrap();
    assert_eq!(error["error"]["code"], "invalid_request", "edges read a code in every error");
    let as_host = async |config: Config, host: &str| {
        let peer = Peer::new(small(), config).await;
        let request = peer.client.get(format!("{}/health", peer.address)).header("host", host);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(as_host(Config::default(), "evil.example").await, 403);
    assert_eq!(as_host(Config::default(), "localhost:8090").await, 200);
    let open = Config { loopback: false, ..Config::default() };
    assert_eq!(as_host(open, "box.example").await, 200);
    let keyed = Config { keys: Keys::new(["secret"]).unwrap(), ..Config::default() };
    assert_eq!(as_host(keyed, "box.example").await, 200);
}

#[tokio::test]
async fn a_mistake_is_named_by_its_path() {
    let peer = Peer::new(small(), Config::default()).await;
    let messages = json!([{"role": "user", "content": "x"}, {"role": "alien", "content": "x"}]);
    let (status, error) =
        peer.post("/v1/sessions", &json!({"prompt": {"messages": messages}})).await;
    assert_eq!(status, 400);
    assert!(error["error"]["param"].as_str().unwrap().ends_with("[1].role"), "{error}");
}
