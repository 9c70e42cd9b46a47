//! Ten thousand requests to scripted models, and what is left behind.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/mixed/mod.rs"]
mod mixed;
#[path = "it/scripted/mod.rs"]
mod scripted;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mixed::{Target, flood, resident};
use scripted::{Scripted, config, start, user};
use serde_json::json;
use tokio::sync::Mutex;

/// Each test measures what this process holds, so they take turns.
static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_leave_nothing_behind() {
    let _turn = TURN.lock().await;
    let server = Arc::new(start(Scripted { seats: 8, ..Scripted::default() }, config()).await);
    let target = Target { url: server.url.clone(), client: server.client.clone() };
    let target = Arc::new(target);
    // What is allocated once and kept is not a leak: one flood fills the allocator's pockets, and
    // the client's, who lives in the same process.
    flood(&target, 10_000, 64).await;
    server.idle().await;
    let before = resident();
    let [good, refused, cut] = flood(&target, 10_000, 64).await;
    server.idle().await;
    let after = resident();
    println!("{good} good, {refused} refused, {cut} cut off; {before} kB before, {after} after");
    assert!(cut > 10_000 / 4 && good > 3_000 && refused > 1_000);
    assert!(after as f64 <= before as f64 * 1.05, "{before} kB before, {after} after");
    assert_eq!(server.watch.busy.load(Ordering::SeqCst), 0);
    let metrics = server.get("/metrics").await.text().await.unwrap();
    assert!(!metrics.contains("status=\"500\""), "{metrics}");
    // Every seat is there: as many texts at once as ever.
    let all = (0..8).map(|i| {
        let server = server.clone();
        tokio::spawn(async move { server.chat(json!({ "messages": user(&format!("{i}")) })).await })
    });
    for answer in all.collect::<Vec<_>>() {
        answer.await.unwrap();
    }
    server.idle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_hold_what_they_ask_for_and_not_their_json() {
    let _turn = TURN.lock().await;
    let pace = Duration::from_millis(50);
    let pair = Scripted { seats: 1, queue: 40, pace, ends: false, ..Scripted::default() };
    let server = start(pair, config()).await;
    let long = json!({ "messages": user("the cat"), "max_tokens": 1500, "stream": true });
    let first = server.post("/v1/chat/completions", &long).await;
    assert_eq!(first.status(), 200);
    // 120 KB of JSON, 9 MB once it is parsed, and nothing that the answer needs.
    let metadata = vec![json!({ "a": 0 }); 15_000];
    let body = json!({ "messages": user("a mat"), "max_tokens": 1, "metadata": metadata });
    let body = body.to_string();
    let before = resident();
    let post = || {
        let request = server.client.post(format!("{}/v1/chat/completions", server.url));
        request.header("content-type", "application/json").body(body.clone())
    };
    let waiting: Vec<_> = (0..40).map(|_| tokio::spawn(post().send())).collect();
    let queued = async || {
        let health = server.get("/health").await.json::<serde_json::Value>().await.unwrap();
        health["queued"].as_u64().unwrap()
    };
    let all = async {
        while queued().await < 40 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    let held = resident().saturating_sub(before);
    println!("{held} kB for 40 requests that wait");
    assert!(held < 150_000, "{held} kB for 40 requests that wait");
    for request in &waiting {
        request.abort();
    }
    drop(first);
    server.idle().await;
}
