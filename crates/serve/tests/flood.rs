//! Ten thousand requests, and what is left behind.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod scripted;

use std::sync::{Arc, atomic::Ordering};

use scripted::{Scripted, chunks, config, start, user};
use serde_json::{Value, json};
use serve::edge::Config;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const CHAT: &str = "/v1/chat/completions";

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Requests of mixed kinds on as many connections, a third of them cut off.
async fn flood(server: &Arc<scripted::Running>, requests: usize, connections: usize) -> [usize; 3] {
    let each = requests / connections;
    let tasks = (0..connections).map(|c| {
        let server = server.clone();
        tokio::spawn(async move {
            let (mut good, mut refused, mut cut) = (0, 0, 0);
            for i in 0..each {
                match one(&server, c * each + i).await {
                    Some(200) => good += 1,
                    Some(status) => {
                        assert!((400..=499).contains(&status) || status == 503, "status {status}");
                        refused += 1;
                    }
                    None => cut += 1,
                }
            }
            [good, refused, cut]
        })
    });
    let mut sum = [0; 3];
    for task in tasks.collect::<Vec<_>>() {
        let counts = task.await.unwrap();
        sum.iter_mut().zip(counts).for_each(|(s, c)| *s += c);
    }
    sum
}

/// One request by its number; its status, unless it was cut off.
async fn one(server: &scripted::Running, number: usize) -> Option<u16> {
    let mode = ["small", "joint", "large"][number % 3];
    let stream = number % 2 == 0;
    let message = user(&format!("Request {number} of many"));
    let body = match number % 7 {
        5 => json!({ "messages": 5 }),
        6 => json!({ "messages": message, "tools": [1] }),
        _ => json!({ "messages": message, "stream": stream, "max_tokens": 12,
            "tandem": { "mode": mode, "trace": number % 5 == 0 } }),
    };
    if (number / 3).is_multiple_of(3) {
        cut_off(server, &body, number).await;
        return None;
    }
    let response = server.post(CHAT, &body).await;
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    if status == 200 && stream {
        let data = |event: &str| event.strip_prefix("data: ").map(String::from);
        chunks(&text.split("\n\n").filter_map(data).collect::<Vec<_>>());
    }
    Some(status)
}

/// Goes away in the middle: of the request, or of the answer.
async fn cut_off(server: &scripted::Running, body: &Value, number: usize) {
    let mut socket = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = if number.is_multiple_of(2) { request.len() / 2 } else { request.len() };
    socket.write_all(&request.as_bytes()[..sent]).await.unwrap();
    if sent == request.len() && number % 4 == 1 {
        let mut some = [0; 64];
        drop(socket.read(&mut some).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_requests_leave_nothing_behind() {
    let server = Arc::new(start(Scripted::default(), Config { parallel: 8, ..config() }).await);
    // What is allocated once and kept is not a leak: one flood fills the allocator's pockets, and
    // the client's, who lives in the same process.
    flood(&server, 9_984, 64).await;
    server.idle().await;
    let before = resident();
    let [good, refused, cut] = flood(&server, 9_984, 64).await;
    server.idle().await;
    let after = resident();
    println!("{good} good, {refused} refused, {cut} cut off; {before} kB before, {after} after");
    assert!(cut > 9_984 / 4 && good > 3_000 && refused > 1_000);
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
