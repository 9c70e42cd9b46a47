//! Requests of mixed kinds on many connections, a third of them cut off.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use std::sync::Arc;

use reqwest::Client;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const CHAT: &str = "/v1/chat/completions";

/// Who is flooded.
pub struct Target {
    pub url: String,
    pub client: Client,
}

/// This process's memory, in kilobytes.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Requests of mixed kinds on as many connections, a third of them cut off.
pub async fn flood(server: &Arc<Target>, requests: usize, connections: usize) -> [usize; 3] {
    let each = requests.div_ceil(connections);
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
async fn one(server: &Target, number: usize) -> Option<u16> {
    let mode = ["small", "joint", "large"][number % 3];
    let stream = number.is_multiple_of(2);
    let message = json!([{ "role": "user", "content": format!("Request {number} of many") }]);
    let body = match number % 7 {
        5 => json!({ "messages": 5 }),
        6 => json!({ "messages": message, "tools": [1] }),
        _ => json!({ "messages": message, "stream": stream, "max_tokens": 12,
            "tandem": { "mode": mode, "trace": number.is_multiple_of(5) } }),
    };
    if (number / 3).is_multiple_of(3) {
        cut_off(server, &body, number).await;
        return None;
    }
    let url = format!("{}{CHAT}", server.url);
    let response = server.client.post(url).json(&body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    if status == 200 && stream {
        let data = |event: &str| event.strip_prefix("data: ").map(String::from);
        let events: Vec<_> = text.split("\n\n").filter_map(data).collect();
        assert_eq!(events.last().unwrap(), "[DONE]");
    }
    Some(status)
}

/// Goes away in the middle: of the request, or of the answer.
async fn cut_off(server: &Target, body: &Value, number: usize) {
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
