//! Tools: calls that are held to their schema, whole and in chunks.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scripted::{Scripted, chunks, config, start, user};

const CHAT: &str = "/v1/chat/completions";

fn tools() -> Value {
    let parameters = json!({
        "type": "object",
        "properties": {
            "animal": { "type": "string", "maxLength": 8 },
            "legs": { "type": "integer", "minimum": 0, "maximum": 9 },
        },
        "required": ["animal", "legs"],
    });
    json!([
        { "type": "function", "function": { "name": "count_legs", "parameters": parameters } },
        { "type": "function", "function": { "name": "say_nothing", "description": "Nothing." } },
    ])
}

fn body(choice: Value, parallel: bool) -> Value {
    json!({
        "messages": user("How many legs?"), "tools": tools(), "tool_choice": choice,
        "parallel_tool_calls": parallel, "max_tokens": 120, "seed": 3,
    })
}

/// The calls of a streamed answer, put together as clients do.
fn joined(chunks: &[Value]) -> Vec<(String, String, String)> {
    let mut calls: Vec<(String, String, String)> = vec![];
    let parts = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"].as_array());
    for part in parts.flatten() {
        let (index, function) = (part["index"].as_u64().unwrap() as usize, &part["function"]);
        if let Some(id) = part["id"].as_str() {
            assert_eq!((index, &part["type"]), (calls.len(), &json!("function")));
            calls.push((id.into(), function["name"].as_str().unwrap().into(), String::new()));
        }
        calls[index].2 += function["arguments"].as_str().unwrap();
    }
    calls
}

#[tokio::test]
async fn a_call_that_must_be_made_is_made_and_fits_its_schema() {
    let server = start(Scripted::default(), config()).await;
    let named = json!({ "type": "function", "function": { "name": "count_legs" } });
    for (choice, name) in [(json!("required"), None), (named, Some("count_legs"))] {
        for threshold in [0, 1] {
            let mut body = body(choice.clone(), false);
            body["tandem"] = json!({ "threshold": threshold });
            let answer = server.chat(body.clone()).await;
            let choice = &answer["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
            assert_eq!(choice["message"]["content"], Value::Null);
            let calls = choice["message"]["tool_calls"].as_array().unwrap();
            assert_eq!(calls.len(), 1);
            let function = &calls[0]["function"];
            assert!(name.is_none_or(|name| function["name"] == name), "{function}");
            let arguments = function["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            if function["name"] == "count_legs" {
                assert!(arguments["animal"].is_string() && arguments["legs"].is_i64());
            } else {
                assert_eq!(arguments, json!({}));
            }
            body["stream"] = json!(true);
            let parts = chunks(&server.stream(CHAT, &body).await);
            let streamed = joined(&parts);
            assert_eq!(streamed.len(), 1);
            assert_eq!(function["name"], streamed[0].1);
            assert_eq!(function["arguments"], streamed[0].2);
            assert!(
                parts.iter().all(|c| c["choices"][0]["delta"]["content"]
                    .as_str()
                    .is_none_or(str::is_empty))
            );
            let last = &parts.last().unwrap()["choices"][0];
            assert_eq!(last["finish_reason"], "tool_calls");
        }
    }
}

#[tokio::test]
async fn results_go_back_into_the_conversation() {
    let server = start(Scripted::default(), config()).await;
    let first = server.chat(body(json!("required"), false)).await;
    let call = first["choices"][0]["message"].clone();
    let id = call["tool_calls"][0]["id"].clone();
    let messages = json!([
        { "role": "user", "content": "How many legs?" },
        call,
        { "role": "tool", "tool_call_id": id, "content": "4" },
    ]);
    let mut next = body(json!("auto"), true);
    next["messages"] = messages;
    let answer = server.chat(next).await;
    let choice = &answer["choices"][0];
    assert_ne!(choice["finish_reason"], "tool_calls", "{answer}");
    // The scripted model writes no brackets by itself, so it only talks.
    assert!(choice["message"].get("tool_calls").is_none());
    assert!(!choice["message"]["content"].as_str().unwrap().is_empty());
    let mut none = body(json!("none"), true);
    none["messages"] = user("How many legs?");
    let without = server.chat(json!({
        "messages": user("How many legs?"), "max_tokens": 120, "seed": 3,
    }));
    let (none, without) = (server.chat(none).await, without.await);
    assert_eq!(none["choices"][0]["message"], without["choices"][0]["message"]);
}

/// Asks with the results of two calls, in the order of the calls and the other way around.
async fn with_results(path: &str, body: Value, calls: Value, results: [Value; 2]) -> [Value; 2] {
    let server = start(Scripted::default(), config()).await;
    let field = if path == "/v1/responses" { "input" } else { "messages" };
    let (first, second) = (results[0].clone(), results[1].clone());
    let mut answers = vec![];
    for results in [[first.clone(), second.clone()], [second, first]] {
        let mut turns = vec![json!({ "role": "user", "content": "How many legs?" })];
        turns.extend(calls.as_array().unwrap().iter().cloned());
        if path == "/v1/messages" {
            turns.push(json!({ "role": "user", "content": results }));
        } else {
            turns.extend(results);
        }
        let mut body = body.clone();
        body[field] = turns.into();
        let answer = server.post(path, &body).await;
        assert_eq!(answer.status(), 200, "{path}");
        let answer: Value = answer.json().await.unwrap();
        let told = ["/choices/0/message", "/content", "/output/0/content"];
        answers.push(told.iter().find_map(|at| answer.pointer(at)).unwrap().clone());
    }
    answers.try_into().unwrap()
}

#[tokio::test]
async fn results_are_told_in_the_order_of_their_calls_whatever_order_they_come_in() {
    let function = json!({ "name": "say_nothing", "arguments": "{}" });
    let call = |id: &str| json!({ "id": id, "type": "function", "function": function });
    let result =
        |id: &str, text: &str| json!({ "role": "tool", "tool_call_id": id, "content": text });
    let calls = json!([{ "role": "assistant", "tool_calls": [call("a"), call("b")] }]);
    let results = [result("a", "4"), result("b", "6")];
    let [one, other] = with_results(CHAT, json!({ "seed": 1 }), calls.clone(), results).await;
    assert_eq!(one, other);
    // The models do go by the order: without ids it is another conversation.
    let nameless =
        [json!({ "role": "tool", "content": "4" }), json!({ "role": "tool", "content": "6" })];
    let [one, other] = with_results(CHAT, json!({ "seed": 1 }), calls, nameless).await;
    assert_ne!(one, other);

    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "f", "input": {} });
    let calls = json!([{ "role": "assistant", "content": [call("a"), call("b")] }]);
    let result =
        |id: &str, text: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": text });
    let results = [result("a", "4"), result("b", "6")];
    let body = json!({ "max_tokens": 40 });
    let [one, other] = with_results("/v1/messages", body, calls, results).await;
    assert_eq!(one, other);

    let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{}" });
    let result = |id: &str, text: &str| json!({ "type": "function_call_output", "call_id": id, "output": text });
    let results = [result("a", "4"), result("b", "6")];
    let calls = json!([call("a"), call("b")]);
    let [one, other] = with_results("/v1/responses", json!({}), calls, results).await;
    assert_eq!(one, other);
}

#[tokio::test]
async fn what_clients_add_of_their_own_is_taken() {
    let server = start(Scripted::default(), config()).await;
    let mut body = body(json!("auto"), true);
    body["tools"][0]["cache_control"] = json!({ "type": "ephemeral" });
    body["messages"] = json!([
        { "role": "user", "content": "How many legs?", "type": "text" },
        { "role": "assistant", "content": null, "parsed": null, "reasoning": "Hm.", "tool_calls": [{
            "id": "call_1", "type": "function", "index": 0,
            "function": { "name": "say_nothing", "arguments": "{}", "parsed_arguments": {} },
        }] },
        { "role": "tool", "tool_call_id": "call_1", "content": "4", "type": "text" },
    ]);
    server.chat(body).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_by_name_and_at_once() {
    let server = start(Scripted::default(), config()).await;
    let many = |count: usize| {
        let tool = |i| json!({ "type": "function", "function": { "name": format!("tool_{i}") } });
        (0..count).map(tool).collect::<Value>()
    };
    let tool = |function: Value| json!([{ "type": "function", "function": function }]);
    let endless = json!({
        "type": "object", "properties": { "me": { "$ref": "#" } }, "required": ["me"]
    });
    for (field, value, named) in [
        ("tools", many(1000), "tools[128]"),
        ("tools", json!([{ "type": "function" }]), "tools[0].function"),
        ("tools", json!([{ "type": "retrieval" }]), "tools[0].type"),
        ("tools", tool(json!({})), "tools[0].function.name"),
        ("tools", tool(json!({ "name": "two words" })), "tools[0]"),
        ("tools", tool(json!({ "name": "f", "parameters": 7 })), "tools[0]"),
        ("tools", json!([tools()[0], tools()[0]]), "tools[1]"),
        ("tools", tool(json!({ "name": "f", "parameters": endless })), "tools[0]"),
        ("tool_choice", json!("maybe"), "tool_choice"),
        ("tool_choice", json!({ "type": "function", "function": { "name": "x" } }), "tool_choice"),
        ("tandem", json!({ "grammar": "start: \"x\"" }), "tandem.grammar"),
    ] {
        let started = Instant::now();
        let mut body = body(json!("auto"), true);
        body[field] = value;
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["param"]), (400, &json!(named)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(1));
    }
    // So many that they are not even parsed.
    let started = Instant::now();
    let mut body = body(json!("auto"), true);
    body["tools"] = many(10_000);
    let (status, error) = server.refused(CHAT, &body).await;
    assert_eq!((status, &error["code"]), (400, &json!("too_many_values")), "{error}");
    assert!(started.elapsed() < Duration::from_secs(1));
}
