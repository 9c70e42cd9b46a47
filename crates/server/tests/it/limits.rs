//! What many or odd requests may cost.

use std::{sync::atomic::Ordering, time::Duration};

use axum::{Router, routing::get};
use engine::{Compute, LoadOptions};
use serde_json::{Value, json};
use tandem::{Mode, Share, Tandem};
use tandem_server::{
    cloud::{self, LazyModel},
    edge::{Allowed, Config},
    http::{Keys, Quota},
    listen::{ServerLimits, listen},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::scripted::{self, CONTEXT, Scripted, config, defaults, start, start_with, user};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_prompt_is_not_read_before_there_is_a_seat() {
    let pace = Duration::from_millis(20);
    let pair = Scripted { seats: 1, queue: 1, pace, ends: false, ..Scripted::default() };
    let read = pair.watch.tokenized.clone();
    let server = start(pair, config()).await;
    let long = json!({ "messages": user("the cat"), "max_tokens": 200, "stream": true });
    let first = server.post(CHAT, &long).await;
    assert_eq!(first.status(), 200);
    let before = read.load(Ordering::SeqCst);
    // One waits; the others are refused. None of them was tokenized for that.
    let (client, url) = (server.client.clone(), format!("{}{CHAT}", server.url));
    let waiting = tokio::spawn(async move { client.post(url).json(&long).send().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (status, error) = server.refused(CHAT, &json!({ "messages": user("a mat") })).await;
    assert_eq!((status, error["code"].as_str()), (503, Some("busy")));
    assert_eq!(read.load(Ordering::SeqCst), before);
    // Whoever goes away while it waits is never tokenized.
    waiting.abort();
    drop(first);
    server.idle().await;
    assert_eq!(read.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn tokens_are_not_counted_before_there_is_a_seat() {
    let pace = Duration::from_millis(20);
    let pair = Scripted { seats: 1, queue: 0, pace, ends: false, ..Scripted::default() };
    let server = start(pair, config()).await;
    let tokenized = || server.watch.tokenized.load(Ordering::SeqCst);
    let long = json!({ "messages": user("the cat"), "max_tokens": 500, "stream": true });
    let first = server.post(CHAT, &long).await;
    assert_eq!(first.status(), 200);
    let before = tokenized();
    let (path, count) = ("/v1/messages/count_tokens", json!({ "messages": user("a mat") }));
    assert_eq!(server.refused(path, &count).await.0, 503);
    assert_eq!(tokenized(), before);
    drop(first);
    server.idle().await;
    let counted: Value = server.post(path, &count).await.json().await.unwrap();
    assert!(counted["input_tokens"].as_u64().unwrap() > 0, "{counted}");
    // What cannot fit is not tokenized at all, and takes nobody's turn.
    let before = tokenized();
    let too_long = json!({ "messages": user(&"x".repeat(1_000_000)) });
    assert_eq!(server.refused(path, &too_long).await.0, 400);
    assert_eq!(tokenized(), before);
}

#[tokio::test]
async fn a_grammar_is_compiled_within_the_time_of_an_answer() {
    let pair = Scripted { seats: 1, compiling: Duration::from_secs(2), ..Scripted::default() };
    let time = Duration::from_millis(300);
    let server = start(pair, Config { time, ..config() }).await;
    let form = json!({ "type": "json_object" });
    let body = json!({ "messages": user("the cat"), "max_tokens": 4, "response_format": form });
    let (status, error) = server.refused(CHAT, &body).await;
    assert_eq!((status, error["code"].as_str()), (504, Some("timeout")), "{error}");
    // The seat is free at once, though the grammar is still being compiled.
    let free = timeout(Duration::from_secs(1), server.idle()).await;
    assert!(free.is_ok());
}

#[tokio::test]
async fn what_cannot_fit_is_refused_by_its_length() {
    let server = start(Scripted::default(), config()).await;
    let tokenized = || server.watch.tokenized.load(Ordering::SeqCst);
    let before = tokenized();
    let many: Vec<Value> =
        (0..=CONTEXT).map(|_| json!({ "role": "user", "content": "" })).collect();
    let bodies = [
        (CHAT, json!({ "messages": user(&"x".repeat(3_000_000)) })),
        (CHAT, json!({ "messages": many })),
        ("/v1/completions", json!({ "prompt": " cat".repeat(CONTEXT * 10) })),
    ];
    for (path, body) in bodies {
        let (status, error) = server.refused(path, &body).await;
        assert_eq!((status, error["code"].as_str()), (400, Some("context_length_exceeded")));
    }
    assert_eq!(tokenized(), before);
}

/// Sends a request for a document again and again, and reads none of the answers.
async fn never_reads(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n");
    loop {
        let sent = timeout(Duration::from_millis(500), stream.write_all(request.as_bytes())).await;
        if !matches!(sent, Ok(Ok(()))) {
            return stream;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_never_reads_is_given_up() {
    let stalled = Duration::from_millis(500);
    let limits = ServerLimits { stalled, connections: 2, ..ServerLimits::default() };
    let server = start_with(Scripted::default(), config(), limits).await;
    let address = server.url.strip_prefix("http://").unwrap();
    let (mut one, _two) = tokio::join!(never_reads(address), never_reads(address));
    // Both connections there may be are taken. Soon they are not.
    let health = timeout(Duration::from_secs(20), server.get("/health")).await;
    assert_eq!(health.unwrap().status(), 200);
    let mut rest = vec![];
    let ended = timeout(Duration::from_secs(20), one.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is still open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_next_to_nothing_is_given_up_too() {
    // A megabyte or two a second would be enough for anybody; here it is made too little.
    let (stalled, least_taken) = (Duration::from_secs(1), 32 << 20);
    let limits = ServerLimits { stalled, least_taken, ..ServerLimits::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/", get(|| async { vec![b'x'; 64 << 20] }));
    tokio::spawn(listen(listener, app, limits, std::future::pending()));
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let (mut taken, mut piece) = (0, vec![0; 16 << 10]);
    let reading = async {
        while let Ok(bytes @ 1..) = slow.read(&mut piece).await {
            taken += bytes;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // All of it would take forty seconds.
    let ended = timeout(Duration::from_secs(20), reading).await;
    assert!(ended.is_ok(), "{taken} bytes, and it is still served");
    assert!(taken < 32 << 20, "{taken}");
}

fn with(allowed: Allowed) -> Config {
    Config { allowed, keys: Keys::new(["one", "two"]).unwrap(), ..config() }
}

async fn post(server: &scripted::Running, key: &str, body: &Value) -> reqwest::Response {
    let request = server.client.post(format!("{}{CHAT}", server.url)).bearer_auth(key);
    request.json(body).send().await.unwrap()
}

#[tokio::test]
async fn each_key_has_its_own_minute() {
    let quota = Quota { requests: Some(3), cloud_tokens: None };
    let server = start(Scripted::default(), with(Allowed { quota, ..Allowed::default() })).await;
    let body = json!({ "messages": user("the cat"), "max_tokens": 4 });
    for _ in 0..3 {
        assert_eq!(post(&server, "one", &body).await.status(), 200);
    }
    let refused = post(&server, "one", &body).await;
    assert_eq!(refused.status(), 429);
    let pause: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=20).contains(&pause), "{pause}");
    let error: Value = refused.json().await.unwrap();
    assert_eq!(error["error"]["code"], "rate_limit_exceeded");
    assert_eq!(post(&server, "two", &body).await.status(), 200);
    // A wrong key costs nobody anything.
    assert_eq!(post(&server, "three", &body).await.status(), 401);
}

#[tokio::test]
async fn tokens_of_the_cloud_are_charged_to_their_key() {
    let quota = Quota { requests: None, cloud_tokens: Some(10) };
    let server = start(Scripted::default(), with(Allowed { quota, ..Allowed::default() })).await;
    let body = json!({
        "messages": user("the cat"),
        "max_tokens": 30,
        "tandem": { "threshold": 1.0 },
    });
    let answer = post(&server, "one", &body).await;
    assert_eq!(answer.status(), 200);
    let answer: Value = answer.json().await.unwrap();
    assert!(answer["tandem"]["stats"]["cloud_tokens"].as_u64().unwrap() >= 10, "{answer}");
    assert_eq!(post(&server, "one", &body).await.status(), 429);
    assert_eq!(post(&server, "two", &body).await.status(), 200);
}

#[tokio::test]
async fn a_request_cannot_overrule_the_operator() {
    let allowed = Allowed { modes: vec![Mode::Joint, Mode::Small], ..Allowed::default() };
    let config = Config { allowed, ..config() };
    let routers = scripted::routers(0.5).limited(Share::new(0.1).unwrap());
    let tandem = Tandem::new(Scripted::default(), routers, defaults(), (4, 4));
    let server = scripted::start_tandem(tandem, config, ServerLimits::default()).await;
    let of = |extra: Value| {
        let mut body = json!({ "messages": user("the cat"), "max_tokens": 40 });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    for extra in [
        json!({ "model": "tandem-large" }),
        json!({ "tandem": { "mode": "large" } }),
        json!({ "tandem": { "budget": 0.5 } }),
    ] {
        let (status, error) = server.refused(CHAT, &of(extra.clone())).await;
        assert_eq!((status, error["code"].as_str()), (403, Some("not_allowed")), "{extra}");
    }
    // What is not allowed is not offered either, whatever API lists it.
    let list = async |path: &str, list: &str, name: &str| -> Vec<String> {
        let told: Value = server.get(path).await.json().await.unwrap();
        let names =
            told[list].as_array().unwrap().iter().map(|model| model[name].as_str().unwrap());
        names.map(|name| name.trim_end_matches(":latest").to_owned()).collect()
    };
    for (path, models, name) in [
        ("/v1/models", "data", "id"),
        ("/api/tags", "models", "name"),
        ("/api/ps", "models", "name"),
    ] {
        assert_eq!(list(path, models, name).await, ["tandem-joint", "tandem-small"], "{path}");
    }
    for (model, status) in [("tandem-small", 200), ("tandem-large", 404)] {
        assert_eq!(server.get(&format!("/v1/models/{model}")).await.status(), status, "{model}");
        let show = server.post("/api/show", &json!({ "model": model })).await;
        assert_eq!(show.status(), status, "{model}");
    }
    // What is allowed stays within the share, over all requests.
    let (mut tokens, mut cloud) = (0, 0);
    for i in 0..20 {
        let tandem = match i % 2 {
            0 => json!({ "threshold": 1.0 }),
            _ => json!({ "router": "always", "threshold": 1.0 }),
        };
        let answer = server.chat(of(json!({ "tandem": tandem }))).await;
        let stats = &answer["tandem"]["stats"];
        tokens += stats["tokens"].as_u64().unwrap();
        cloud += stats["cloud_tokens"].as_u64().unwrap();
    }
    assert!(cloud > 0 && cloud as f64 <= tokens as f64 * 0.1 + 2.0, "{cloud} of {tokens}");
}

#[tokio::test]
async fn what_the_large_model_writes_or_judges_is_within_no_share() {
    let server_with = async |share: f32| {
        let routers = scripted::routers(0.5).limited(Share::new(share).unwrap());
        let tandem = Tandem::new(Scripted::default(), routers, defaults(), (4, 4));
        scripted::start_tandem(tandem, config(), ServerLimits::default()).await
    };
    let (bounded, unbounded) = (server_with(0.1).await, server_with(1.0).await);
    for extra in [
        json!({ "model": "tandem-large" }),
        json!({ "model": "tandem-verify" }),
        json!({ "tandem": { "mode": "verify" } }),
    ] {
        let mut body = json!({ "messages": user("the cat"), "max_tokens": 4 });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let (status, error) = bounded.refused(CHAT, &body).await;
        assert_eq!((status, error["code"].as_str()), (403, Some("not_allowed")), "{extra}");
        assert!(error["message"].as_str().unwrap().contains("10%"), "{error}");
        assert_ne!(unbounded.post(CHAT, &body).await.status(), 403, "{extra}");
    }
}

#[tokio::test]
async fn one_key_is_not_told_what_another_asked() {
    let pair = Scripted { seats: 1, ..Scripted::default() };
    let server = start(pair, with(Allowed::default())).await;
    let body = json!({
        "messages": user("the cat sat on a mat and the cat sat"),
        "max_tokens": 4,
        "tandem": { "mode": "small" },
    });
    let cached = |answer: Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    let mut told = vec![];
    for key in ["one", "one", "two", "two", "one"] {
        told.push(cached(post(&server, key, &body).await.json().await.unwrap()).unwrap());
    }
    assert!(told[1] > 0 && told[3] > 0, "{told:?}");
    assert_eq!([told[0], told[2], told[4]], [0, 0, 0], "{told:?}");
}

#[tokio::test]
async fn a_server_without_its_models_does_not_look_alive() {
    let pair = Scripted::default();
    let failed = pair.failed.clone();
    let server = start(pair, config()).await;
    assert_eq!(server.get("/health").await.status(), 200);
    failed.store(true, Ordering::SeqCst);
    let health = server.get("/health").await;
    assert_eq!(health.status(), 503);
    assert_eq!(health.json::<Value>().await.unwrap()["status"], "failed");
}

/// What a mistake leaves behind, and what is one itself: no work may end the thread otherwise.
struct LastStraw;

impl Drop for LastStraw {
    fn drop(&mut self) {
        panic!("the thread is gone");
    }
}

#[tokio::test]
async fn a_cloud_without_its_model_does_not_look_alive() {
    let compute = Compute::start().unwrap();
    let model = LazyModel::new(compute.clone(), LoadOptions::new("none.gguf", 512, 1));
    let failed = model.watch();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/health", listener.local_addr().unwrap());
    let app = cloud::app(model, cloud::Config::default());
    tokio::spawn(cloud::run(listener, app, std::future::pending()));
    ::cloud::http::provide_cryptography();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let health = async || {
        let health = client.get(&url).send().await.unwrap();
        (health.status().as_u16(), health.json::<Value>().await.unwrap())
    };
    let (status, told) = health().await;
    assert_eq!((status, told["status"].as_str()), (200, Some("ok")));
    assert!(compute.work::<()>(|| std::panic::panic_any(LastStraw)).await.is_err());
    assert_eq!(failed.await, "the thread is gone");
    let (status, told) = health().await;
    assert_eq!((status, told["status"].as_str()), (503, Some("failed")));
}
