//! Other APIs over the same core: Anthropic's, Ollama's, and the newer of OpenAI's.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};
use tandem_server::{edge::Config, http::Keys};

use crate::scripted::{Running, Scripted, config, content, start, user};

const TOOL: &str = "count_legs";

fn parameters() -> Value {
    json!({
        "type": "object", "properties": { "legs": { "type": "integer", "minimum": 0, "maximum": 9 } },
        "required": ["legs"],
    })
}

async fn post(server: &Running, path: &str, body: &Value) -> Value {
    let response = server.post(path, body).await;
    let status = response.status();
    let answer: Value = response.json().await.unwrap();
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The events of a stream, which must have the names that their data say.
async fn events(server: &Running, path: &str, body: &Value) -> Vec<Value> {
    let response = server.post(path, body).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let event = |event: &str| {
        let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
        let value: Value = serde_json::from_str(data).unwrap();
        assert_eq!(value["type"], name);
        Some(value)
    };
    text.split("\n\n").filter_map(event).collect()
}

/// What any face has to say to the same question.
async fn plain(server: &Running) -> String {
    let body = json!({ "messages": user("Hello"), "seed": 1 });
    content(&server.chat(body).await).to_owned()
}

#[tokio::test]
async fn messages_in_anthropics_shapes() {
    let server = start(Scripted::default(), config()).await;
    let plain = plain(&server).await;
    let path = "/v1/messages";
    let mut body = json!({
        "model": "tandem-joint", "max_tokens": 40, "messages": user("Hello"), "metadata": {},
    });
    let answer = post(&server, path, &body).await;
    assert_eq!(answer["content"], json!([{ "type": "text", "text": plain }]));
    assert_eq!((&answer["role"], &answer["type"]), (&json!("assistant"), &json!("message")));
    let usage = &answer["usage"];
    assert!(usage["output_tokens"].as_u64().unwrap() > 0 && usage["input_tokens"].is_u64());
    body["stream"] = json!(true);
    let told = events(&server, path, &body).await;
    let kinds: Vec<_> = told.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["message_start", "content_block_start"]);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let text: String = told.iter().filter_map(|e| e["delta"]["text"].as_str()).collect();
    assert_eq!(text, plain);

    // What ended it is told, and stands in no answer.
    let word = format!(" {}", plain.split_whitespace().last().unwrap());
    body["stop_sequences"] = json!(["not there", word]);
    let told = events(&server, path, &body).await;
    let end = &told.iter().find(|e| e["type"] == "message_delta").unwrap()["delta"];
    assert_eq!(
        (&end["stop_reason"], &end["stop_sequence"]),
        (&json!("stop_sequence"), &json!(word))
    );
    body["stream"] = json!(false);
    let answer = post(&server, path, &body).await;
    assert_eq!(answer["stop_sequence"], json!(word));
    let text = answer["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(text, plain.split(&word).next().unwrap());

    let tool = json!({ "name": TOOL, "description": "Counts.", "input_schema": parameters() });
    let mut body = json!({
        "model": "tandem-joint", "max_tokens": 100, "system": [{ "type": "text", "text": "Count." }],
        "messages": user("How many?"), "tools": [tool], "tool_choice": { "type": "any" },
    });
    body["tool_choice"]["disable_parallel_tool_use"] = json!(true);
    let answer = post(&server, path, &body).await;
    assert_eq!(answer["stop_reason"], "tool_use");
    let call = answer["content"][0].clone();
    assert_eq!((&call["type"], &call["name"]), (&json!("tool_use"), &json!(TOOL)));
    assert!(call["input"]["legs"].is_i64());
    body["stream"] = json!(true);
    let told = events(&server, path, &body).await;
    let parts: String = told.iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&parts).unwrap(), call["input"]);
    body["stream"] = json!(false);
    body["tool_choice"] = json!({ "type": "auto" });
    body["messages"] = json!([
        { "role": "user", "content": "How many?" },
        { "role": "assistant", "content": [call] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": call["id"], "content": "4" },
            { "type": "text", "text": "And?" },
        ] },
    ]);
    assert_eq!(post(&server, path, &body).await["content"][0]["type"], "text");
    let counted = post(&server, "/v1/messages/count_tokens", &body).await;
    assert!(counted["input_tokens"].as_u64().unwrap() > 50);
    for (field, value) in [
        ("thinking", json!({ "type": "enabled", "budget_tokens": 9 })),
        ("mcp_servers", json!([])),
        ("messages", json!([{ "role": "user", "content": [{ "type": "image" }] }])),
        ("temperature", json!(9)),
    ] {
        let mut body = body.clone();
        body[field] = value;
        let response = server.post(path, &body).await;
        assert_eq!(response.status(), 400, "{field}");
        let error: Value = response.json().await.unwrap();
        assert_eq!(
            (&error["type"], &error["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
    }
}

#[tokio::test]
async fn answers_in_the_shapes_of_responses() {
    let server = start(Scripted::default(), config()).await;
    let plain = plain(&server).await;
    let path = "/v1/responses";
    let mut body = json!({ "model": "tandem-joint", "input": "Hello", "store": false });
    let answer = post(&server, path, &body).await;
    assert_eq!(answer["object"], "response");
    // The scripted model talks until it is cut off.
    let ended = format!("response.{}", answer["status"].as_str().unwrap());
    assert!(["response.completed", "response.incomplete"].contains(&ended.as_str()), "{ended}");
    assert_eq!(answer["output"][0]["content"][0]["text"], plain);
    body["stream"] = json!(true);
    let told = events(&server, path, &body).await;
    assert!(told.iter().enumerate().all(|(i, e)| e["sequence_number"] == i));
    let text: String = told
        .iter()
        .filter(|e| e["type"] == "response.output_text.delta")
        .map(|e| e["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text, plain);
    let last = told.last().unwrap();
    assert_eq!(last["type"], ended);
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], plain);

    let tool = json!({ "type": "function", "name": TOOL, "parameters": parameters() });
    let mut body = json!({
        "input": [{ "role": "user", "content": [{ "type": "input_text", "text": "How many?" }] }],
        "instructions": "Count.", "tools": [tool], "tool_choice": "required",
        "parallel_tool_calls": false, "max_output_tokens": 100,
    });
    let call = post(&server, path, &body).await["output"][0].clone();
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!(TOOL)));
    body["stream"] = json!(true);
    let told = events(&server, path, &body).await;
    let done = told.iter().find(|e| e["type"] == "response.function_call_arguments.done").unwrap();
    assert_eq!(done["arguments"], call["arguments"]);
    let result =
        json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "4" });
    let next = json!({ "input": [body["input"][0], call, result], "tools": [tool] });
    assert_eq!(post(&server, path, &next).await["output"][0]["type"], "message");
    let format = json!({ "type": "json_schema", "name": "x", "schema": { "enum": ["a", "b"] } });
    let body = json!({ "input": "x", "text": { "format": format } });
    let text = post(&server, path, &body).await["output"][0]["content"][0]["text"].clone();
    assert!(["\"a\"", "\"b\""].contains(&text.as_str().unwrap()), "{text}");
    let refused = json!({ "input": "x", "previous_response_id": "resp_1" });
    assert_eq!(server.refused(path, &refused).await.1["param"], "previous_response_id");
    assert_eq!(server.refused("/v1/embeddings", &json!({ "input": "x" })).await.0, 400);
}

#[tokio::test]
async fn chats_and_texts_in_ollamas_shapes() {
    let server = start(Scripted::default(), config()).await;
    let plain = plain(&server).await;
    let tags: Value = server.get("/api/tags").await.json().await.unwrap();
    assert_eq!(tags["models"][0]["name"].as_str().unwrap().split(':').nth(1), Some("latest"));
    let version: Value = server.get("/api/version").await.json().await.unwrap();
    assert!(version["version"].is_string());
    let shown = post(&server, "/api/show", &json!({ "model": "tandem-joint:latest" })).await;
    assert!(shown["capabilities"].as_array().unwrap().contains(&json!("tools")));
    assert_eq!(server.post("/api/show", &json!({ "model": "llama" })).await.status(), 404);
    assert_eq!(server.get("/api/ps").await.status(), 200);

    let options = json!({ "temperature": 0, "num_predict": 40, "num_ctx": 4096, "seed": 1 });
    let chat = json!({
        "model": "tandem-joint:latest", "messages": user("Hello"), "options": options,
        "keep_alive": "5m",
    });
    let response = server.post("/api/chat", &chat).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let text = response.text().await.unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let joined: String = lines.iter().map(|l| l["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(joined, plain);
    let last = lines.last().unwrap();
    assert!(last["done"] == true && lines[0]["done"] == false);
    assert!(["stop", "length"].contains(&last["done_reason"].as_str().unwrap()), "{last}");
    assert!(last["eval_count"].as_u64().unwrap() > 0 && last["total_duration"].is_u64());
    let generate = json!({ "model": "tandem-joint", "prompt": "Hello", "stream": false });
    assert_eq!(post(&server, "/api/generate", &generate).await["response"], plain);
    let loading = json!({ "model": "tandem-joint" });
    assert_eq!(post(&server, "/api/generate", &loading).await["done_reason"], "load");
    let format = json!({ "model": "tandem-joint", "prompt": "x", "stream": false,
        "format": { "enum": ["a", "b"] } });
    let text = post(&server, "/api/generate", &format).await["response"].clone();
    assert!(["\"a\"", "\"b\""].contains(&text.as_str().unwrap()), "{text}");

    let tool =
        json!({ "type": "function", "function": { "name": TOOL, "parameters": parameters() } });
    let history = json!([
        { "role": "user", "content": "How many?" },
        { "role": "assistant", "content": "",
          "tool_calls": [{ "function": { "name": TOOL, "arguments": { "legs": 4 } } }] },
        { "role": "tool", "tool_name": TOOL, "content": "4" },
    ]);
    let body = json!({ "messages": history, "tools": [tool], "stream": false });
    assert!(post(&server, "/api/chat", &body).await["message"]["content"].is_string());
    let wrong = json!({ "messages": user("x"), "options": { "frobnicate": 1 } });
    let response = server.post("/api/chat", &wrong).await;
    assert_eq!(response.status(), 400);
    let error: Value = response.json().await.unwrap();
    assert!(error["error"].as_str().unwrap().contains("options.frobnicate"), "{error}");
}

#[tokio::test]
async fn a_key_may_come_in_anthropics_header() {
    let keys = Config { keys: Keys::new(["sesame"]).unwrap(), ..config() };
    let server = start(Scripted::default(), keys).await;
    let body = json!({ "max_tokens": 5, "messages": user("Hello") });
    let url = format!("{}/v1/messages", server.url);
    for (key, status) in [("sesame", 200), ("wrong", 401), ("", 401)] {
        let request = server.client.post(&url).header("x-api-key", key).json(&body);
        assert_eq!(request.send().await.unwrap().status(), status, "{key}");
    }
    for path in ["/api/tags", "/api/ps"] {
        assert_eq!(server.get(path).await.status(), 401, "{path}");
    }
}
