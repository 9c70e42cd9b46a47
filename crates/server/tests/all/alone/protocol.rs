//! The session protocol over real HTTP, with the real small model.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::time::{Duration, Instant};

use cloud::{
    Address,
    protocol::{id_bytes, prefix_hash},
};
use decode::{Ask, Cloud, Sampling, Token, Vocabulary, Want};
use engine::LoadOptions;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tandem_server::cloud::Config;

use crate::common::{self, SURE, remote, small, start};

/// No answer to this ends within a few tokens.
const LONG: &str = "Tell me a very long story.";

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
        let response = self.client.post(url).body(body).send().await.unwrap();
        (response.status(), response.json().await.unwrap_or_default())
    }

    /// Opens a session without an edge's vocabulary: ids travel.
    async fn open(&self, question: &str) -> String {
        let body = json!({"prompt": {"messages": [{"role": "user", "content": question}]}});
        let (status, opened) = self.post("/v1/sessions", &body).await;
        assert_eq!(status, 200, "{opened}");
        assert_eq!(opened["exchange"], "ids");
        opened["session"].as_str().unwrap().to_owned()
    }

    /// Opens a session for an edge with another vocabulary: text travels.
    async fn open_text(&self, question: &str) -> String {
        let body = json!({"prompt": {"text": question}, "vocabulary": "another"});
        let (status, opened) = self.post("/v1/sessions", &body).await;
        assert_eq!(status, 200, "{opened}");
        assert_eq!(opened["exchange"], "text");
        opened["session"].as_str().unwrap().to_owned()
    }

    async fn next(&self, id: &str, body: &Value) -> (StatusCode, Value) {
        self.post(&format!("/v1/sessions/{id}/next"), body).await
    }
}

fn ids(sequence: u64, before: &[u64], append: &[u64], tokens: usize) -> Value {
    let prefix: Vec<Token> = before.iter().map(|&t| Token(t as u32)).collect();
    json!({
        "sequence": sequence,
        "position": before.len(),
        "hash": prefix_hash(id_bytes(&prefix)),
        "append": {"ids": append},
        "want": {"tokens": tokens},
    })
}

fn text(sequence: u64, before: &str, append: &str) -> Value {
    json!({
        "sequence": sequence,
        "position": before.len(),
        "hash": prefix_hash(before),
        "append": {"text": append},
        "want": {"word": true},
    })
}

fn answered(answer: &Value) -> Vec<u64> {
    answer["tokens"].as_array().unwrap().iter().map(|t| t["id"].as_u64().unwrap()).collect()
}

fn joined(answer: &Value) -> String {
    let tokens = answer["tokens"].as_array().unwrap();
    tokens.iter().map(|t| t["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn ids_one_at_a_time_are_ids_at_once() {
    let peer =
        Peer::new(LoadOptions { sequences: 2, cells: 2048, ..small() }, Config::default()).await;
    let id = peer.open(LONG).await;
    let (status, whole) = peer.next(&id, &ids(1, &[], &[], 8)).await;
    assert_eq!(status, 200, "{whole}");
    let whole = answered(&whole);
    assert_eq!(whole.len(), 8);

    // The same parts are read: the prompt, and then a token at a time.
    let id = peer.open(LONG).await;
    let mut single = vec![];
    for sequence in 1..=8 {
        // What the cloud itself wrote need not be sent back.
        let (status, answer) = peer.next(&id, &ids(sequence, &single, &[], 1)).await;
        assert_eq!(status, 200, "{answer}");
        if sequence > 1 {
            assert_eq!(answer["prefilled"], 1, "{answer}");
        }
        single.extend(answered(&answer));
    }
    assert_eq!(single, whole);
}

#[tokio::test]
async fn a_replayed_question_gets_the_same_answer_and_costs_nothing() {
    let peer = Peer::new(small(), Config::default()).await;
    let id = peer.open(LONG).await;
    let question = ids(7, &[], &[], 3);
    let (_, first) = peer.next(&id, &question).await;
    let (status, again) = peer.next(&id, &question).await;
    assert_eq!(status, 200);
    assert_eq!(first, again);
    // An older one is no longer known.
    let (status, stale) = peer.next(&id, &ids(6, &[], &[], 3)).await;
    assert_eq!((status.as_u16(), stale["error"]["code"].as_str()), (409, Some("conflict")));
    assert_eq!(stale["have"]["position"], 3);
}

#[tokio::test]
async fn a_lower_position_truncates_and_a_wrong_one_is_refused() {
    let peer = Peer::new(small(), Config::default()).await;
    let id = peer.open(LONG).await;
    let (_, answer) = peer.next(&id, &ids(1, &[], &[], 4)).await;
    let first = answered(&answer);
    // Back to the second token, and on from there: the same tokens come again.
    let (status, again) = peer.next(&id, &ids(2, &first[..2], &[], 2)).await;
    assert_eq!(status, 200, "{again}");
    assert_eq!(answered(&again), first[2..]);
    assert_eq!(again["prefilled"], 1, "{again}");

    let have = json!({"position": 4, "hash": ids(0, &first, &[], 1)["hash"]});
    let (status, high) = peer.next(&id, &ids(3, &[&first[..], &[1, 2]].concat(), &[], 1)).await;
    assert_eq!((status.as_u16(), &high["have"]), (409, &have));
    let (status, other) = peer.next(&id, &ids(4, &[1, 2], &[], 1)).await;
    assert_eq!((status.as_u16(), &other["have"]), (409, &have));
    // And nothing was lost.
    assert_eq!(peer.next(&id, &ids(5, &first, &[], 1)).await.0, 200);
}

#[tokio::test]
async fn words_come_whole_and_look_ahead_does_not_stay() {
    let peer = Peer::new(small(), Config::default()).await;
    let id = peer.open_text("The capital of France is Paris. The capital of Italy is").await;
    let (status, answer) = peer.next(&id, &text(1, "", "")).await;
    assert_eq!(status, 200, "{answer}");
    let word = joined(&answer);
    let letters = word.strip_prefix(' ').unwrap_or_else(|| panic!("{word:?}"));
    assert!(letters.len() > 2 && letters.chars().all(char::is_alphabetic), "{word:?}");
    // The word is in the cloud's context, its look-ahead is not: only what is new is read.
    let (status, answer) = peer.next(&id, &text(2, &word, ". The capital of Spain is")).await;
    assert_eq!(status, 200, "{answer}");
    let prefilled = answer["prefilled"].as_u64().unwrap();
    assert!(prefilled <= 6 + 2, "{answer}");
    // A position inside the word is a place like any other.
    let (status, _) = peer.next(&id, &text(3, &word[..3], "tterdam")).await;
    assert_eq!(status, 200);
    let part = format!("{}tt", &word[..3]);
    let (status, answer) = peer.next(&id, &text(4, &part, "")).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn score_judges_every_token_and_leaves_no_trace() {
    let peer = Peer::new(small(), Config::default()).await;
    let id = peer.open_text("The capital of Italy is Rome. The capital of France is").await;
    let path = format!("/v1/sessions/{id}/score");
    let mut body = text(0, "", "");
    for field in ["sequence", "want"] {
        body.as_object_mut().unwrap().remove(field);
    }
    body["continuation"] = json!({"text": " Paris, as everybody banana"});
    let (status, scores) = peer.post(&path, &body).await;
    assert_eq!(status, 200, "{scores}");
    let tokens = scores["tokens"].as_array().unwrap();
    let read: String = tokens.iter().map(|t| t["text"].as_str().unwrap()).collect();
    assert_eq!(read, " Paris, as everybody banana");
    // So begun, there is no doubt what comes.
    assert!(tokens[0]["greedy"]["logprob"].as_f64().unwrap().exp() > SURE.into(), "{tokens:?}");
    assert_eq!(tokens[0]["greedy"]["text"], " Paris");
    assert_eq!(tokens[0]["logprob"], tokens[0]["greedy"]["logprob"]);
    assert!(tokens.last().unwrap()["logprob"].as_f64().unwrap() < -8.0, "{tokens:?}");
    let (_, answer) = peer.next(&id, &text(1, "", "")).await;
    assert_eq!(joined(&answer), " Paris");
    assert_eq!(answer["prefilled"], 1, "the context was cached: {answer}");
    // Ids where text travels, and nothing at all, are refused.
    body["continuation"] = json!({"ids": [1]});
    assert_eq!(peer.post(&path, &body).await.0, 400);
    body["continuation"] = json!({"text": ""});
    assert_eq!(peer.post(&path, &body).await.0, 400);
}

#[tokio::test]
async fn the_least_recently_used_session_is_evicted_and_told_so() {
    let peer =
        Peer::new(LoadOptions { sequences: 2, cells: 2048, ..small() }, Config::default()).await;
    let (a, b) = (peer.open("One?").await, peer.open("Two?").await);
    assert_eq!(peer.next(&a, &ids(1, &[], &[], 1)).await.0, 200);
    let c = peer.open("Three?").await;
    let (status, gone) = peer.next(&b, &ids(1, &[], &[], 1)).await;
    assert_eq!((status.as_u16(), gone["error"]["code"].as_str()), (410, Some("evicted")));
    assert_eq!(peer.next(&a, &ids(2, &[], &[], 1)).await.0, 200);
    assert_eq!(peer.next(&c, &ids(1, &[], &[], 1)).await.0, 200);
    let (status, unknown) = peer.next("0123", &ids(1, &[], &[], 1)).await;
    assert_eq!(
        (status.as_u16(), unknown["error"]["code"].as_str()),
        (404, Some("unknown_session"))
    );
}

#[tokio::test]
async fn memory_that_is_full_evicts_too() {
    let options = LoadOptions { sequences: 4, cells: 256, context: 256, ..small() };
    let peer = Peer::new(options, Config::default()).await;
    let long = "word ".repeat(140);
    let (a, b) = (peer.open(&long).await, peer.open(&long).await);
    assert_eq!(peer.next(&a, &ids(1, &[], &[], 1)).await.0, 200);
    assert_eq!(peer.next(&b, &ids(1, &[], &[], 1)).await.0, 200);
    assert_eq!(peer.next(&a, &ids(2, &[], &[], 1)).await.0, 410);
    // A conversation that fits nowhere is said so.
    let body = json!({"prompt": {"text": "word ".repeat(400)}});
    let (status, full) = peer.post("/v1/sessions", &body).await;
    assert_eq!((status.as_u16(), full["error"]["code"].as_str()), (400, Some("context_full")));
    let words = json!({"ids": vec![100; 200]});
    let mut question = ids(2, &[], &[], 1);
    question["append"] = words;
    let (status, full) = peer.next(&b, &question).await;
    assert_eq!((status.as_u16(), full["error"]["code"].as_str()), (400, Some("context_full")));
}

#[tokio::test]
async fn a_context_that_fills_up_in_an_answer_ends_it_with_length() {
    let options = LoadOptions { cells: 256, context: 256, ..small() };
    let peer = Peer::new(options, Config::default()).await;
    let body = json!({"prompt": {"text": "one two three ".repeat(75)}});
    let (_, opened) = peer.post("/v1/sessions", &body).await;
    let id = opened["session"].as_str().unwrap();
    let (status, answer) = peer.next(id, &ids(1, &[], &[], 200)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["finish_reason"], "length");
}

#[tokio::test]
async fn an_edge_survives_eviction_and_loss_of_step() {
    let address = start(small(), Config::default()).await;
    let sampling = Sampling::default();
    let ask = |tokens| Ask { tokens, text: "", want: Want::Tokens(1), sampling: &sampling };
    // An answer that is begun so has one way to go on, whether it is read at once or in parts.
    let mut mine = remote(&address, None, "Count to twenty.");
    mine.open().await.unwrap();
    let begun = common::edge().await.vocabulary().encode("1, 2, 3, 4, 5, 6, 7, 8, 9");
    let first = mine.next(ask(&begun)).await.unwrap();
    let first = [&begun[..], &[first.tokens[0].id.unwrap()]].concat();
    let second = mine.next(ask(&first)).await.unwrap();
    assert!(second.tokens[0].logprob.unwrap().exp() > SURE, "{second:?}");
    let second = second.tokens[0].id;
    // One sequence only: another session takes it.
    let mut other = remote(&address, None, "Something else?");
    other.open().await.unwrap();
    let again = mine.next(ask(&first)).await.unwrap();
    assert_eq!(again.tokens[0].id, second);
    assert!(again.usage.prefilled > Some(20), "the whole context was read again");
    // Something was accepted that the cloud never wrote.
    let astray = [&first[..], &[Token(100), Token(200)]].concat();
    assert!(mine.next(ask(&astray)).await.is_ok());
    let back = mine.next(ask(&first)).await.unwrap();
    assert_eq!(back.tokens[0].id, second);
    assert!(back.usage.prefilled <= Some(2), "{:?}", back.usage);
}

#[tokio::test]
async fn a_follow_up_takes_over_the_cache() {
    let address = start(small(), Config::default()).await;
    let sampling = Sampling::default();
    let ask = Ask { tokens: &[], text: "", want: Want::Tokens(4), sampling: &sampling };
    let long = format!("{} What is the capital of France?", "Please think well. ".repeat(20));
    let mut client = remote(&address, None, &long);
    client.open().await.unwrap();
    let first = client.next(ask).await.unwrap();
    assert!(first.usage.prefilled > Some(80));
    let mut messages = common::messages(&long);
    messages.push(decode::Message::assistant(first.text()));
    messages.push(decode::Message::user("And of Italy?"));
    let prompt = cloud::protocol::Prompt::Messages(messages);
    client.reopen(cloud::Opening::alone(prompt));
    client.open().await.unwrap();
    let second = client.next(ask).await.unwrap();
    assert!(second.usage.prefilled < Some(30), "{:?}", second.usage);
    client.close().await;
}

#[tokio::test]
async fn garbage_is_refused_with_a_reason_and_the_server_lives() {
    let peer = Peer::new(small(), Config::default()).await;
    let id = peer.open("Hello?").await;
    let next = format!("/v1/sessions/{id}/next");
    let good = ids(1, &[], &[], 1);
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
    assert_eq!(peer.next(&id, &good).await.0, 200);
}

#[tokio::test]
async fn a_key_is_wanted_where_one_is_set() {
    let config = Config { key: Some("secret".into()), ..Config::default() };
    let peer = Peer::new(small(), config).await;
    let body = json!({"prompt": {"text": "x"}});
    let (status, error) = peer.post("/v1/sessions", &body).await;
    assert_eq!((status.as_u16(), error["error"]["code"].as_str()), (401, Some("unauthorized")));
    assert!(!error.to_string().contains("secret"));
    for (key, expected) in [("wrong", 401), ("secret", 200)] {
        let url = format!("{}/v1/sessions", peer.address);
        let request = peer.client.post(url).bearer_auth(key).body(body.to_string());
        assert_eq!(request.send().await.unwrap().status().as_u16(), expected);
    }
    let health = peer.client.get(format!("{}/health", peer.address)).send().await.unwrap();
    let health: Value = health.json().await.unwrap();
    assert_eq!(health["service"], "tandem-cloud");
}

#[tokio::test]
async fn a_caller_that_goes_away_stops_the_work() {
    let peer =
        Peer::new(LoadOptions { sequences: 2, cells: 2048, ..small() }, Config::default()).await;
    let (a, b) = (peer.open(LONG).await, peer.open(LONG).await);
    assert_eq!(peer.next(&a, &ids(1, &[], &[], 1)).await.0, 200);
    let url = format!("{}/v1/sessions/{a}/next", peer.address);
    let request = peer.client.post(url).body(ids(2, &[], &[], 256).to_string());
    assert!(request.timeout(Duration::from_millis(50)).send().await.is_err());
    // The session is free long before the answer could have been written.
    let started = Instant::now();
    assert_eq!(peer.next(&a, &ids(3, &[], &[], 1)).await.0, 200);
    let freed = started.elapsed();
    let started = Instant::now();
    let (_, whole) = peer.next(&b, &ids(1, &[], &[], 256)).await;
    // How long that takes is this machine's own measure.
    let each = started.elapsed() / answered(&whole).len() as u32;
    assert!(freed < each * 100, "{freed:?}, and {each:?} a token");
}
