//! Several callers at once: queue, cancellation, shutdown, the cache of conversations.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tandem_server::{edge::Config, listen::ServerLimits};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::sleep};

use crate::scripted::{self, Scripted, config, content, start, start_with, user};

const CHAT: &str = "/v1/chat/completions";
const PACE: Duration = Duration::from_millis(20);

fn endless() -> Scripted {
    Scripted { pace: PACE, ends: false, ..Scripted::default() }
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    let pair = Scripted { seats: 1, queue: 1, ..endless() };
    let server = Arc::new(start(pair, config()).await);
    let body = json!({ "messages": user("Long"), "max_tokens": 20 });
    let ask = |server: Arc<scripted::Running>, body: Value| {
        tokio::spawn(async move { server.post(CHAT, &body).await })
    };
    let (first, second) = (ask(server.clone(), body.clone()), {
        sleep(PACE * 3).await;
        ask(server.clone(), body.clone())
    });
    sleep(PACE * 3).await;
    let health: Value = server.get("/health").await.json().await.unwrap();
    assert_eq!((&health["running"], &health["queued"]), (&json!(1), &json!(1)));
    let refused = server.post(CHAT, &body).await;
    assert_eq!(refused.status(), 503);
    let pause: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..60).contains(&pause));
    assert_eq!(first.await.unwrap().status(), 200);
    assert_eq!(second.await.unwrap().status(), 200);
    server.chat(body).await;
}

/// A client that goes away stops its text within a step, wherever the text is being made.
#[tokio::test]
async fn a_client_that_goes_away_stops_its_text() {
    for (mode, stream) in
        [("small", true), ("joint", true), ("large", true), ("small", false), ("joint", false)]
    {
        let server = start(endless(), config()).await;
        let body = json!({ "messages": user("On and on"), "max_tokens": 1000, "stream": stream,
            "tandem": { "mode": mode } });
        let request = server.client.post(format!("{}{CHAT}", server.url)).json(&body);
        let sent = tokio::spawn(async move {
            let mut answer = request.send().await.unwrap();
            while answer.chunk().await.unwrap().is_some() {}
        });
        sleep(PACE * 8).await;
        let work = || {
            let watch = &server.watch;
            watch.steps.load(Ordering::SeqCst) + watch.asks.load(Ordering::SeqCst)
        };
        assert!(work() > 1 && server.server.running() == 1, "{mode} {stream}");
        sent.abort();
        drop(sent.await);
        let left = Instant::now();
        server.idle().await;
        assert!(left.elapsed() < PACE * 5, "{mode} {stream}: {:?}", left.elapsed());
        assert_eq!(server.watch.busy.load(Ordering::SeqCst), 0, "the step is given up");
        let then = work();
        sleep(PACE * 4).await;
        assert_eq!(work(), then, "{mode} {stream}");
        // The seat is as good as before.
        server.chat(json!({ "messages": user("Next"), "max_tokens": 3 })).await;
    }
}

#[tokio::test]
async fn a_client_that_gives_up_waiting_leaves_the_queue() {
    let server = start(Scripted { seats: 1, queue: 4, ..endless() }, config()).await;
    let post = |max_tokens: usize| {
        let body = json!({ "messages": user("x"), "max_tokens": max_tokens });
        let request = server.client.post(format!("{}{CHAT}", server.url)).json(&body);
        tokio::spawn(async move { request.send().await.map(|r| r.status()) })
    };
    let (first, second) = (post(30), {
        sleep(PACE * 2).await;
        post(1000)
    });
    sleep(PACE * 2).await;
    second.abort();
    assert_eq!(first.await.unwrap().unwrap(), 200);
    server.idle().await;
    let health: Value = server.get("/health").await.json().await.unwrap();
    assert_eq!(health["queued"], 0);
}

#[tokio::test]
async fn an_answer_may_not_take_for_ever() {
    let config = Config { time: PACE * 8, ..config() };
    let server = start(endless(), config).await;
    let mut body = json!({ "messages": user("Long"), "max_tokens": 1000 });
    let (status, error) = server.refused(CHAT, &body).await;
    assert_eq!((status, &error["code"]), (504, &json!("timeout")));
    body["stream"] = json!(true);
    let events = server.stream(CHAT, &body).await;
    assert!(events.last().unwrap().contains("timeout"), "{events:?}");
    server.idle().await;
}

/// A client that takes nothing, and does not go away either, holds its seat only so long.
#[tokio::test]
async fn a_client_that_does_not_read_is_let_go() {
    let scripted = Scripted { ends: false, ..Scripted::default() };
    let server = start(scripted, Config { time: Duration::from_secs(2), ..config() }).await;
    let mut socket = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let body = json!({ "messages": user("Flood me"), "max_tokens": 1900, "n": 16, "stream": true,
        "tandem": { "trace": true } })
    .to_string();
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(server.server.running(), 1);
    server.idle().await;
    drop(socket);
}

#[tokio::test]
async fn a_shutdown_finishes_what_runs() {
    let mut server = start(endless(), config()).await;
    let body = json!({ "messages": user("Last words"), "max_tokens": 15, "stream": true });
    let request = server.client.post(format!("{}{CHAT}", server.url)).json(&body);
    let answer = tokio::spawn(async move { request.send().await.unwrap().text().await.unwrap() });
    sleep(PACE * 4).await;
    server.stop();
    let text = answer.await.unwrap();
    assert!(text.contains("[DONE]") && text.contains("\"length\""), "{text}");
    server.done.await.unwrap().unwrap();
    assert!(server.client.get(format!("{}/health", server.url)).send().await.is_err());
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let limits = ServerLimits { shutdown: PACE * 5, ..ServerLimits::default() };
    let mut server = start_with(endless(), config(), limits).await;
    let body = json!({ "messages": user("Endless"), "max_tokens": 1900, "stream": true });
    let request = server.client.post(format!("{}{CHAT}", server.url)).json(&body);
    let _answer = tokio::spawn(async move { request.send().await.unwrap().text().await });
    sleep(PACE * 4).await;
    let started = Instant::now();
    server.stop();
    server.done.await.unwrap().unwrap();
    assert!((PACE * 4..PACE * 25).contains(&started.elapsed()), "{:?}", started.elapsed());
}

/// The second turn of a chat reads only what is new, on both sides, whoever came between.
#[tokio::test]
async fn the_next_turn_reads_only_what_is_new() {
    for mode in ["small", "joint", "large"] {
        let server = start(Scripted { seats: 3, ..Scripted::default() }, config()).await;
        let long = "A long question about the cat on the mat. ".repeat(12);
        let mut messages = vec![json!({ "role": "user", "content": long })];
        let ask = async |messages: &[Value]| {
            server
                .chat(json!({ "messages": messages, "seed": 4, "temperature": 0.9,
                    "tandem": { "mode": mode, "threshold": 0.9 } }))
                .await
        };
        let first = ask(&messages).await;
        let count =
            |answer: &Value, name: &str| answer["tandem"]["stats"][name].as_u64().unwrap_or(0);
        let (read, side) =
            if mode == "large" { ("cloud_prefilled", "cloud") } else { ("edge_prefilled", "edge") };
        assert!(count(&first, read) > 300, "{side} {first}");
        // Others come and go.
        for i in 0..2 {
            server.chat(json!({ "messages": user(&format!("Something else {i}")) })).await;
        }
        messages.push(json!({ "role": "assistant", "content": content(&first) }));
        messages.push(json!({ "role": "user", "content": "And then?" }));
        let second = ask(&messages).await;
        // The turn's own marks and words, byte by byte, and no more.
        let new = "<user>And then?<assistant>".len() as u64;
        if mode != "large" {
            assert!(count(&second, "edge_prefilled") <= new + 1, "{mode} {second}");
            assert!(count(&second, "edge_cached") > 300);
            assert_eq!(
                second["usage"]["prompt_tokens_details"]["cached_tokens"],
                count(&second, "edge_cached")
            );
        }
        if mode != "small" {
            // What it reads after its own tokens is one an ask.
            let asks = count(&second, "asks");
            let (tokens, read) = (count(&second, "tokens"), count(&second, "cloud_prefilled"));
            assert!(read <= new + tokens + asks + count(&first, "tokens"), "{mode} {second}");
            assert!(count(&second, "cloud_cached") > 300, "{mode} {second}");
        }
        // Somebody who says something else altogether is not taken for it.
        let other = server.chat(json!({ "messages": user("Quite another matter") })).await;
        let fresh = start(Scripted::default(), config()).await;
        let same = fresh.chat(json!({ "messages": user("Quite another matter") })).await;
        assert_eq!(content(&other), content(&same));
    }
}
