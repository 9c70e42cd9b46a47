//! Ten thousand requests to scripted models, and what is left behind.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/mixed/mod.rs"]
mod mixed;
#[path = "it/scripted/mod.rs"]
mod scripted;

use std::sync::{Arc, atomic::Ordering};

use mixed::{Target, flood, resident};
use scripted::{Scripted, config, start, user};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_leave_nothing_behind() {
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
