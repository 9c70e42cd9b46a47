//! What a server holds at most, driven by the worst that it takes: the formulas of docs/server.md.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/scripted/mod.rs"]
mod scripted;
#[path = "it/common/tiny.rs"]
mod tiny;

use std::{fs, sync::Arc, time::Duration};

use engine::{Compute, LoadOptions};
use scripted::{Running, Scripted, config, start_with, user};
use serde_json::{Value, json};
use tandem_server::{
    cloud::{self, LazyModel},
    listen::ServerLimits,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    time::timeout,
};

/// The tests measure this process, so they take turns.
static TURN: Mutex<()> = Mutex::const_new(());

const CHAT: &str = "/v1/chat/completions";

const CONNECTIONS: usize = 300;

/// In MiB: a connection's head, its small body and its small answer.
const CONNECTION: f64 = 3.0 * 64.0 / 1024.0;

/// In MiB: bodies that are being read; one that was read; an answer that is made; those to be taken.
const READING: f64 = 64.0;
const BODY: f64 = 14.0;
const ANSWER: f64 = 64.0;
const TAKING: f64 = 128.0;

/// Calls of `tandem cloud` that may wait to be tokenized or for their grammar, or are at work.
const PREPARED: f64 = 34.0;

/// A line of what the kernel says of this process, in MiB.
fn held(line: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// What this process holds now; its peak is counted from here on, where the kernel lets it begin again.
fn begin() -> f64 {
    drop(fs::write("/proc/self/clear_refs", "5"));
    held("VmRSS:")
}

fn peak_since(before: f64) -> f64 {
    held("VmHWM:") - before
}

/// About the largest schema that a request may have, nearly all of it of no use: 9500 objects.
fn schema() -> Value {
    json!({ "type": "object", "examples": vec![json!({ "a": 0 }); 9500] })
}

async fn connect(url: &str) -> TcpStream {
    TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap()
}

/// Sends a request, and reads nothing yet.
async fn send(url: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = connect(url).await;
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close");
    let length = body.len();
    let kind = "Content-Type: application/json";
    let head = format!("{head}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // Whoever is refused early may have hung up.
    drop(stream.write_all(body.as_bytes()).await);
    stream
}

/// The status of an answer, and the bytes of its body as far as they are not kept.
async fn take(mut stream: TcpStream) -> (u16, usize) {
    let (mut head, mut piece, mut length) = (vec![], vec![0; 16 << 10], 0);
    while let Ok(bytes @ 1..) = stream.read(&mut piece).await {
        length += bytes;
        if head.len() < 64 {
            head.extend_from_slice(&piece[..bytes.min(64)]);
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_default(), length)
}

/// As many connections as there may be, each with all that may be said before anything is decided.
async fn unfinished(url: &str, path: &str) -> Vec<TcpStream> {
    let mut streams = vec![];
    let filler = "x".repeat(60 << 10);
    for number in 0..CONNECTIONS - 20 {
        let mut stream = connect(url).await;
        let text = match number % 2 {
            0 => format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Filler: {filler}"),
            _ => {
                let head =
                    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536");
                format!("{head}\r\nContent-Type: application/json\r\n\r\n{{\"a\": \"{filler}")
            }
        };
        stream.write_all(text.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    streams
}

async fn started(pace: Duration) -> Running {
    let pair = Scripted { seats: 2, queue: 8, pace, ends: false, ..Scripted::default() };
    let limits = ServerLimits { connections: CONNECTIONS, ..ServerLimits::default() };
    start_with(pair, config(), limits).await
}

async fn queued(server: &Running) -> u64 {
    let health: Value = server.get("/health").await.json().await.unwrap();
    health["queued"].as_u64().unwrap()
}

/// The largest answer that is told at once: 16 texts of 390 tokens, each with 20 others.
fn largest(tokens: usize) -> String {
    let mut body = json!({ "messages": user("the cat"), "max_tokens": tokens, "n": 16 });
    body["logprobs"] = json!(true);
    body["top_logprobs"] = json!(20);
    body["tandem"] = json!({ "mode": "small" });
    body.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_edge_server_holds_no_more_than_it_says() {
    let _turn = TURN.lock().await;
    let stated = READING + 10.0 * BODY + CONNECTIONS as f64 * CONNECTION + 2.0 * ANSWER + TAKING;
    let slow = started(Duration::from_millis(50)).await;
    let before = begin();

    // Both seats are taken, the queue is full of the largest bodies, and more come.
    let long = json!({ "messages": user("the cat"), "max_tokens": 1500, "stream": true });
    let texts = [slow.post(CHAT, &long).await, slow.post(CHAT, &long).await];
    let form = json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema() } });
    let body = json!({ "messages": user("a mat"), "max_tokens": 1, "response_format": form });
    let body = body.to_string();
    let mut waiting = vec![];
    for _ in 0..40 {
        waiting.push(send(&slow.url, CHAT, &body).await);
    }
    let full = async {
        while queued(&slow).await < 8 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), full).await.unwrap();
    drop(waiting);
    let crowd = unfinished(&slow.url, CHAT).await;
    assert_eq!(slow.get("/health").await.status(), 200);
    drop((crowd, texts));
    slow.idle().await;
    println!("{:.0} MiB for bodies and connections", peak_since(before));

    // More than an answer may tell is refused; what it may is there until it is taken.
    let server = started(Duration::ZERO).await;
    let (status, _) = take(send(&server.url, CHAT, &largest(2000)).await).await;
    assert_eq!(status, 400);
    let (status, length) = take(send(&server.url, CHAT, &largest(390)).await).await;
    assert_eq!(status, 200);
    let mut untaken = vec![];
    for _ in 0..24 {
        untaken.push(send(&server.url, CHAT, &largest(390)).await);
        let taken = async {
            while queued(&server).await > 4 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), taken).await.unwrap();
    }
    let done = async {
        while server.server.running() > 0 || queued(&server).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), done).await.unwrap();
    let (mut good, mut busy) = (0, 0);
    for stream in untaken {
        match timeout(Duration::from_secs(20), take(stream)).await.unwrap() {
            (200, whole) => {
                good += 1;
                assert!(whole.abs_diff(length) < length / 10, "{whole} of {length} bytes");
            }
            (503, _) => busy += 1,
            (status, _) => panic!("status {status}"),
        }
    }
    // There is room again for others.
    assert_eq!(take(send(&server.url, CHAT, &largest(390)).await).await.0, 200);
    let peak = peak_since(before);
    println!(
        "{peak:.0} of {stated:.0} MiB; answers of {length} bytes: {good} good, {busy} refused"
    );
    assert!(good > 2 && busy > 2, "{good} good, {busy} refused");
    assert!(peak < 2.0 * stated, "{peak:.0} MiB, and {stated:.0} are stated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cloud_holds_no_more_than_it_says() {
    let _turn = TURN.lock().await;
    let home = tempfile::tempdir().unwrap();
    let options = tiny::model(&home.path().join("tiny.gguf"), 5);
    let options = LoadOptions { sequences: 8, cells: 8 * 512, ..options };
    let model = LazyModel::new(Compute::start().unwrap(), options);
    model.get().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = cloud::app(model, cloud::Config::default());
    tokio::spawn(cloud::run(listener, app, std::future::pending()));
    ::cloud::http::provide_cryptography();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let stated = READING + PREPARED * BODY + CONNECTIONS as f64 * CONNECTION;
    let before = begin();

    let sessions = format!("{url}/v1/sessions");
    let open = json!({ "prompt": { "text": "the cat sat" } });
    let opened = client.post(&sessions).json(&open).send().await.unwrap();
    assert_eq!(opened.status(), 200, "{}", opened.text().await.unwrap());
    let id = opened.json::<Value>().await.unwrap()["session"].as_str().unwrap().to_owned();

    // Everybody asks one session at once: with what cannot fit, with what is no hash, with what may be said.
    let next = format!("/v1/sessions/{id}/next");
    let asks = |hash: &str, append: Value| {
        let want = json!({ "tokens": 1 });
        json!({ "sequence": 1, "position": 0, "hash": hash, "append": append, "want": want })
            .to_string()
    };
    let bodies = [
        asks("x", json!({ "ids": vec![1; 250_000] })),
        asks("x", json!({ "text": "a".repeat(4_000_000) })),
        asks(&"x".repeat(4_000_000), json!({ "text": "a" })),
        asks("x", json!({ "text": "a" })),
    ];
    let mut form = open.clone();
    form["grammar"] = json!({ "json_schema": schema() });
    // Shared: what the callers hold is no server's.
    let (form, bodies) = (Arc::<str>::from(form.to_string()), bodies.map(Arc::<str>::from));
    let calls = (0..120).map(|number| {
        let (url, path) = (url.clone(), next.clone());
        let (path, body) = match number % 5 {
            4 => ("/v1/sessions".to_owned(), form.clone()),
            kind => (path, bodies[kind].clone()),
        };
        tokio::spawn(async move { take(send(&url, &path, &body).await).await.0 })
    });
    let mut refused = 0;
    for call in calls.collect::<Vec<_>>() {
        let status = timeout(Duration::from_secs(25), call).await.unwrap().unwrap();
        assert!(matches!(status, 200 | 400 | 409 | 410 | 503), "status {status}");
        refused += usize::from(status != 200);
    }
    assert!(refused > 60, "{refused}");
    let crowd = unfinished(&url, "/v1/sessions").await;
    assert_eq!(client.get(format!("{url}/health")).send().await.unwrap().status(), 200);
    drop(crowd);
    let peak = peak_since(before);
    println!("{peak:.0} of {stated:.0} MiB");
    assert!(peak < 2.0 * stated, "{peak:.0} MiB, and {stated:.0} are stated");
}
