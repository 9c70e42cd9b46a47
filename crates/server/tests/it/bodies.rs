//! Bodies that were damaged on the way, or made to do harm, at every route of both servers.

use decode::mutation;
use serde_json::{Value, json};
use tandem_server::cloud::Config;

use crate::{
    common::{self, tiny},
    scripted::{Scripted, config, start, user},
};

/// Damaged bodies for each route.
const ROUNDS: usize = 250;

fn bytes(bodies: &[Value]) -> Vec<Vec<u8>> {
    bodies.iter().map(|body| body.to_string().into_bytes()).collect()
}

async fn send(client: &reqwest::Client, url: &str, body: Vec<u8>) -> (u16, String) {
    let request = client.post(url).header("content-type", "application/json").body(body);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn the_edge_server_reads_or_refuses_every_body() {
    let server = start(Scripted::default(), config()).await;
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": {
        "type": "object", "properties": { "n": { "type": "integer", "minimum": 0, "maximum": 9 } },
    } } });
    let schema = json!({ "type": "object", "properties": { "a": { "enum": ["x", 1, null] } } });
    let chats = [
        json!({
            "model": "tandem-joint", "messages": user("the cat"), "max_tokens": 3, "n": 2, "seed": 1,
            "temperature": 0.5, "top_p": 0.9, "stop": ["x", "y"], "logprobs": true, "top_logprobs": 2,
            "logit_bias": { "5": -100 }, "tandem": { "threshold": 0.5, "trace": true, "router": "top1" },
        }),
        json!({
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": [{ "type": "text", "text": "cat" }] },
                { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function",
                    "function": { "name": "f", "arguments": "{\"n\": 1}" } }] },
                { "role": "tool", "tool_call_id": "c", "content": "2" },
            ],
            "tools": [tool], "tool_choice": "auto", "max_tokens": 3, "stream": true,
            "stream_options": { "include_usage": true },
        }),
        json!({
            "messages": user("a mat"), "max_tokens": 4, "response_format": { "type": "json_schema",
                "json_schema": { "name": "s", "strict": true, "schema": schema } },
        }),
        json!({ "messages": user("a"), "max_tokens": 2, "tandem": { "grammar": "root ::= [a-z]+" } }),
    ];
    let completions = [
        json!({ "prompt": ["the", " cat"], "max_tokens": 3, "echo": false, "logprobs": 1 }),
        json!({ "prompt": " mat", "max_tokens": 2, "tandem": { "budget": 0.1 } }),
    ];
    let responses = [json!({
        "model": "tandem-joint", "input": [{ "role": "user", "content": [
            { "type": "input_text", "text": "cat" } ] }],
        "instructions": "Be brief.", "max_output_tokens": 3, "text": { "format": { "type": "text" } },
    })];
    let messages = [json!({
        "model": "tandem-joint", "max_tokens": 3, "system": [{ "type": "text", "text": "Be brief." }],
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "cat" }] }],
        "stop_sequences": ["x"], "metadata": {},
    })];
    let ollama = [json!({
        "model": "tandem-joint", "messages": user("cat"), "stream": false,
        "options": { "num_predict": 3, "temperature": 0, "stop": ["x"] }, "format": "json",
    })];
    let generate =
        [json!({ "model": "tandem-joint", "prompt": "cat", "options": { "num_predict": 3 } })];
    let routes: [(&str, &[Value]); 6] = [
        ("/v1/chat/completions", &chats),
        ("/v1/completions", &completions),
        ("/v1/responses", &responses),
        ("/v1/messages", &messages),
        ("/api/chat", &ollama),
        ("/api/generate", &generate),
    ];
    for (path, bodies) in routes {
        let (corpus, url) = (bytes(bodies), format!("{}{path}", server.url));
        let (mut good, mut bad) = (0, 0);
        for number in 0..corpus.len() + mutation::count(ROUNDS) {
            let body = mutation::input(&corpus, number);
            let shown = String::from_utf8_lossy(&body).into_owned();
            let (status, answer) = send(&server.client, &url, body).await;
            // What is asked may be served, refused, or too much to wait for; never a failure of ours.
            match status {
                200 => good += 1,
                400..=431 => bad += 1,
                _ => panic!("{path} {number}: {status} {answer}\n{shown}"),
            }
            assert!(number >= corpus.len() || status == 200, "{path}: {answer}\n{shown}");
        }
        // Some that were damaged are sound all the same.
        assert!(good > corpus.len() && bad > 20, "{path}: {good} served, {bad} refused");
    }
    server.idle().await;
    assert_eq!(server.get("/health").await.status(), 200);
}

#[tokio::test]
async fn a_body_of_too_many_values_is_refused_before_it_is_parsed() {
    let server = start(Scripted::default(), config()).await;
    let chat = |values: usize| json!({ "messages": user("cat"), "max_tokens": 1, "metadata": vec![0; values] });
    let path = "/v1/chat/completions";
    let (status, error) = server.refused(path, &chat(33_000)).await;
    assert_eq!((status, error["code"].as_str()), (400, Some("too_many_values")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("32768 values"), "{error}");
    assert_eq!(server.post(path, &chat(32_000)).await.status(), 200);
    // However many commas a text has, it is one value.
    let text = json!({ "prompt": ", [{".repeat(10_000), "max_tokens": 1 });
    let (_, error) = server.refused("/v1/completions", &text).await;
    assert_eq!(error["code"], "context_length_exceeded");
}

#[tokio::test]
async fn the_cloud_refuses_too_many_values_as_well() {
    let home = tempfile::tempdir().unwrap();
    let model = tiny::model(&home.path().join("tiny.gguf"), 5);
    let url = common::start(model, Config::default()).await.to_string();
    let url = format!("{}/v1/sessions", url.trim_end_matches('/'));
    cloud::http::provide_cryptography();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let prompt = json!({ "text": "ab" });
    for (body, refused, told) in [
        (json!({ "prompt": { "tokens": vec![65; 300_000] } }), 400, "262144 values"),
        (
            json!({ "prompt": prompt, "grammar": { "json_schema": { "enum": vec![0; 40_000] } } }),
            400,
            "32768 values",
        ),
    ] {
        let (status, answer) = send(&client, &url, body.to_string().into_bytes()).await;
        assert!(status == refused && answer.contains(told), "{status} {answer}");
    }
}

#[tokio::test]
async fn the_clouds_server_reads_or_refuses_every_body() {
    let home = tempfile::tempdir().unwrap();
    let model = tiny::model(&home.path().join("tiny.gguf"), 5);
    let options = engine::LoadOptions { sequences: 4, cells: 2048, ..model };
    let url = common::start(options, Config::default()).await.to_string();
    let url = url.trim_end_matches('/');
    cloud::http::provide_cryptography();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let opens = [
        json!({ "prompt": { "text": "ab 7" } }),
        json!({ "prompt": { "tokens": [65, 66, 67] }, "vocabulary": "another" }),
        json!({ "prompt": { "text": "ab" }, "from": "0123", "edge": {
            "name": "e", "fingerprint": "f", "hidden": 4 } }),
    ];
    let corpus = bytes(&opens);
    let mut sessions = vec![];
    for number in 0..corpus.len() + mutation::count(ROUNDS) {
        let body = mutation::input(&corpus, number);
        let shown = String::from_utf8_lossy(&body).into_owned();
        let (status, answer) = send(&client, &format!("{url}/v1/sessions"), body).await;
        assert!(status == 200 || (400..=431).contains(&status), "{status} {answer}\n{shown}");
        if let Ok(opened) = serde_json::from_str::<Value>(&answer)
            && let Some(id) = opened["session"].as_str()
        {
            sessions.push(id.to_owned());
        }
    }
    assert!(sessions.len() > 5, "{}", sessions.len());
    let (id, nothing) = (sessions.last().unwrap(), cloud::protocol::prefix_hash(""));
    let sampling = json!({ "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.0, "seed": 1 });
    let next = json!({
        "sequence": 1, "position": 0, "hash": nothing, "append": { "ids": [65, 66] },
        "want": { "tokens": 2 }, "sampling": sampling,
    });
    let word = json!({
        "sequence": 2, "position": 0, "hash": nothing, "append": { "text": "ab" }, "want": { "word": true },
    });
    let score = json!({
        "position": 0, "hash": nothing, "append": { "ids": [65] }, "continuation": { "ids": [66, 67] },
    });
    for (route, bodies) in [("next", vec![next, word]), ("score", vec![score])] {
        let (corpus, url) = (bytes(&bodies), format!("{url}/v1/sessions/{id}/{route}"));
        let mut good = 0;
        for number in 0..corpus.len() + mutation::count(ROUNDS) {
            let body = mutation::input(&corpus, number);
            let shown = String::from_utf8_lossy(&body).into_owned();
            let (status, answer) = send(&client, &url, body).await;
            good += usize::from(status == 200);
            assert!(status == 200 || (400..=431).contains(&status), "{status} {answer}\n{shown}");
        }
        assert!(good > 0, "{route}: nothing answered");
    }
    let health = client.get(format!("{url}/health")).send().await.unwrap();
    assert_eq!(health.status(), 200);
}
