//! Somebody who asks `tandem serve` for a text: as usual, slowly, or not to the end.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

/// How somebody speaks and listens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    Usual,
    /// The request comes a few bytes at a time.
    SlowWriter,
    /// The answer is taken a few bytes at a time.
    SlowReader,
    /// Goes away after that time, whatever came.
    Leaves(Duration),
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    Text(Text),
    /// Refused or failed, with the code that programs read.
    Failed(String),
    /// Nobody took the request.
    NotTaken,
    /// The answer began, and its end is missing.
    CutOff,
    Left,
}

/// A whole text.
#[derive(Debug)]
pub struct Text {
    pub content: String,
    /// Every token, as the trace has it.
    pub tokens: Vec<Value>,
    pub stats: Value,
}

impl Text {
    /// As the program itself reports texts.
    pub fn report(&self) -> Value {
        json!({ "text": self.content, "tokens": self.tokens })
    }
}

pub async fn call(address: SocketAddr, body: &Value, pace: Pace) -> Outcome {
    let asked = async {
        match exchange(address, body, pace).await {
            Ok(bytes) if bytes.is_empty() => Outcome::NotTaken,
            Ok(bytes) => read(&bytes).unwrap_or(Outcome::CutOff),
            Err(_) => Outcome::NotTaken,
        }
    };
    match pace {
        Pace::Leaves(after) => timeout(after, asked).await.unwrap_or(Outcome::Left),
        _ => asked.await,
    }
}

/// The bytes of the answer, as many as came.
async fn exchange(address: SocketAddr, body: &Value, pace: Pace) -> io::Result<Vec<u8>> {
    let socket = TcpSocket::new_v4()?;
    if pace == Pace::SlowReader {
        // Otherwise this side's buffers take the answer for it.
        socket.set_recv_buffer_size(2048)?;
    }
    let mut stream = socket.connect(address).await?;
    let body = body.to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    if pace == Pace::SlowWriter {
        for piece in request.as_bytes().chunks(8) {
            stream.write_all(piece).await?;
            sleep(Duration::from_millis(4)).await;
        }
    } else {
        stream.write_all(request.as_bytes()).await?;
    }
    let mut answer = vec![];
    match listen(&mut stream, &mut answer, pace).await {
        // An answer that breaks off is told from one that never began by what came of it.
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

async fn listen(stream: &mut TcpStream, answer: &mut Vec<u8>, pace: Pace) -> io::Result<()> {
    let mut buffer = vec![0; if pace == Pace::SlowReader { 64 } else { 1 << 14 }];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            n => answer.extend_from_slice(&buffer[..n]),
        }
        if pace == Pace::SlowReader {
            sleep(Duration::from_millis(4)).await;
        }
    }
}

/// What an answer says; `None` where its end is missing.
fn read(bytes: &[u8]) -> Option<Outcome> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let body = &bytes[end + 4..];
    let body = if head.contains("transfer-encoding: chunked") {
        joined(body)?
    } else {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
        body.get(..length.trim().parse().ok()?)?.to_vec()
    };
    let body = String::from_utf8(body).unwrap();
    if head.contains("text/event-stream") {
        return streamed(&body);
    }
    let answer: Value = serde_json::from_str(&body).unwrap();
    if let Some(code) = failed(&answer) {
        return Some(Outcome::Failed(code));
    }
    let content = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().into();
    let tokens = answer["tandem"]["trace"].as_array().unwrap().clone();
    Some(Outcome::Text(Text { content, tokens, stats: answer["tandem"]["stats"].clone() }))
}

/// The chunks of a body without their lengths; `None` where the last one is missing.
fn joined(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = vec![];
    loop {
        let line = body.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&body[..line]).ok()?, 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(body.get(line + 2..line + 2 + length)?);
        body = body.get(line + 2 + length + 2..)?;
    }
}

fn streamed(body: &str) -> Option<Outcome> {
    let (mut content, mut tokens, mut stats) = (String::new(), vec![], Value::Null);
    for event in body.split("\n\n").filter_map(|event| event.strip_prefix("data: ")) {
        if event == "[DONE]" {
            return Some(Outcome::Text(Text { content, tokens, stats }));
        }
        let chunk: Value = serde_json::from_str(event).unwrap();
        if let Some(code) = failed(&chunk) {
            return Some(Outcome::Failed(code));
        }
        content += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        tokens.extend(chunk["tandem"]["tokens"].as_array().into_iter().flatten().cloned());
        if chunk["tandem"]["stats"].is_object() {
            stats = chunk["tandem"]["stats"].clone();
        }
    }
    None
}

fn failed(answer: &Value) -> Option<String> {
    let error = answer.get("error").filter(|error| error.is_object())?;
    Some(error["code"].as_str().unwrap_or_default().to_owned())
}
