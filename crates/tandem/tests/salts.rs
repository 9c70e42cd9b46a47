//! Whose conversation it is, as an engine with a cache for everybody is told.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use cloud::{Endpoint, Engine};
use serde_json::{Value, json};
use tandem::{Mode, Owner, Request, Tandem};

/// The questions that were asked of a made-up vLLM, which answers all with the same token.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Value>>>);

impl Asked {
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                asked.answer(stream.unwrap());
            }
        });
        url
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut line, mut path, mut length) = (String::new(), String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap().to_owned();
            }
            let header = line.to_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (status, reply) = match path.as_str() {
            "/version" => (200, json!({ "version": "0" })),
            "/v1/models" => (200, json!({ "data": [{ "id": "m", "max_model_len": 4096 }] })),
            "/tokenize" => (200, json!({ "tokens": [1, 2, 3] })),
            "/v1/completions" => {
                self.0.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let usage = json!({ "prompt_tokens": 3, "completion_tokens": 1 });
                let choice = json!({ "text": " a", "token_ids": [5], "finish_reason": "length" });
                (200, json!({ "choices": [choice], "usage": usage }))
            }
            _ => (403, json!({})),
        };
        let reply = reply.to_string();
        let head = "content-type: application/json\r\nconnection: close";
        let length = reply.len();
        let answer =
            format!("HTTP/1.1 {status} X\r\n{head}\r\ncontent-length: {length}\r\n\r\n{reply}");
        // Whoever has gone does not listen.
        drop(reader.into_inner().write_all(answer.as_bytes()));
    }
}

#[tokio::test]
async fn every_owner_has_a_salt_of_its_own_and_nobody_none() {
    let asked = Asked::default();
    let endpoint = Endpoint { address: asked.start().parse().unwrap(), key: None, authority: None };
    let builder = Tandem::builder().cloud_at(endpoint, Some(Engine::Vllm)).mode(Mode::Large);
    // One seat, so that each has what the one before left there.
    let tandem = builder.max_tokens(1).build().unwrap();
    let mut salts = vec![];
    for owner in [1, 1, 2, 0, 1] {
        let request = tandem.resolve(Request::user("Hello")).await.unwrap();
        let admission = tandem.admit().await.unwrap();
        let lease = admission.lease(request.mode, &[], Owner(owner)).await.unwrap();
        let answer = lease.begin(request).await.unwrap().finish().await.unwrap();
        assert_eq!(answer.text, " a");
        let last = asked.0.lock().unwrap().pop().unwrap();
        salts.push(last["cache_salt"].as_str().map(String::from));
    }
    assert!(salts[0].is_some() && salts[0] == salts[1] && salts[0] == salts[4], "{salts:?}");
    assert!(salts[2].is_some() && salts[2] != salts[0], "{salts:?}");
    assert_eq!(salts[3], None);
}
