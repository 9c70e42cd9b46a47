//! The other APIs against the document.

use serde_json::{Value, json};
use tandem_server::{edge::Config, http::Keys};

use super::Document;
use crate::scripted::{Running, Scripted, config, start, user};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/api/chat";
const GENERATE: &str = "/api/generate";

/// What a body holds, by its kind: one value, lines or events.
fn values(kind: &str, text: &str) -> Vec<Value> {
    let value = |text: &str| serde_json::from_str(text).unwrap();
    match kind {
        "application/json" => vec![value(text)],
        "application/x-ndjson" => text.lines().map(value).collect(),
        _ => text.split("\n\n").filter_map(|e| Some(value(e.split_once("data: ")?.1))).collect(),
    }
}

/// Sends a request that both the document and the server take; what was answered, which is as the
/// document says.
async fn good(server: &Running, document: &Document, path: &str, body: &Value) -> Vec<Value> {
    assert_eq!(document.request_mistakes(path, body), [""; 0], "{body}");
    let response = server.post(path, body).await;
    let status = response.status().as_u16();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let answer = values(&kind, &response.text().await.unwrap());
    assert_eq!(status, 200, "{answer:?}");
    for value in &answer {
        document.hold((path, "post"), 200, &kind, value);
    }
    answer
}

fn parameters() -> Value {
    json!({ "type": "object", "properties": { "legs": { "type": "integer" } } })
}

/// Requests for texts and for calls, of every API.
fn requests() -> [(&'static str, Value); 8] {
    let tandem = json!({ "threshold": 0.6 });
    let function = json!({ "name": "count", "description": "Counts.", "parameters": parameters() });
    let offered = json!([{ "type": "function", "function": function }]);
    let options = json!({ "temperature": 0.5, "num_predict": 20, "stop": ["never"], "seed": 3 });
    [
        (MESSAGES, json!({ "messages": user("Hello"), "max_tokens": 20, "tandem": tandem })),
        (
            MESSAGES,
            json!({
                "max_tokens": 100, "system": [{ "type": "text", "text": "Count." }],
                "messages": [
                    { "role": "user", "content": "How many?" },
                    { "role": "assistant", "content": [
                        { "type": "tool_use", "id": "x", "name": "count", "input": { "legs": 4 } },
                    ] },
                    { "role": "user", "content": [
                        { "type": "tool_result", "tool_use_id": "x", "content": "4" },
                    ] },
                ],
                "tools": [{ "name": "count", "input_schema": parameters() }],
                "tool_choice": { "type": "any", "disable_parallel_tool_use": true },
            }),
        ),
        (RESPONSES, json!({ "input": "Hello", "max_output_tokens": 20, "tandem": tandem })),
        (
            RESPONSES,
            json!({
                "instructions": "Count.",
                "input": [
                    { "role": "user", "content": [{ "type": "input_text", "text": "How many?" }] },
                    { "type": "function_call", "call_id": "x", "name": "count",
                      "arguments": "{\"legs\":4}" },
                    { "type": "function_call_output", "call_id": "x", "output": "4" },
                ],
                "tools": [{ "type": "function", "name": "count", "parameters": parameters() }],
                "tool_choice": "required", "parallel_tool_calls": false, "max_output_tokens": 100,
            }),
        ),
        (CHAT, json!({ "messages": user("Hello"), "options": options, "tandem": tandem })),
        (
            CHAT,
            json!({
                "messages": [
                    { "role": "user", "content": "How many?" },
                    { "role": "assistant", "content": "", "tool_calls": [
                        { "function": { "name": "count", "arguments": { "legs": 4 } } },
                    ] },
                    { "role": "tool", "tool_name": "count", "content": "4" },
                ],
                "tools": offered, "format": "",
            }),
        ),
        (GENERATE, json!({ "prompt": "Hello", "system": "Be brief.", "options": options })),
        (GENERATE, json!({ "model": "tandem-joint:latest" })),
    ]
}

#[tokio::test]
async fn other_apis_answer_as_described_whole_and_in_pieces() {
    let server = start(Scripted::default(), config()).await;
    let document = Document::of(&server).await;
    for (path, mut body) in requests() {
        for stream in [false, true] {
            body["stream"] = json!(stream);
            let told = good(&server, &document, path, &body).await;
            assert!(!stream || told.len() > 1 || body["prompt"].is_null(), "{body}: {told:?}");
        }
    }
    let count = json!({ "messages": user("Hello") });
    good(&server, &document, "/v1/messages/count_tokens", &count).await;
    good(&server, &document, "/api/show", &json!({ "model": "tandem-small" })).await;
}

/// An answer with a field too many, too few or of another kind is a mistake.
#[tokio::test]
async fn an_answer_of_another_api_that_is_not_as_described_is_noticed() {
    let server = start(Scripted::default(), config()).await;
    let document = Document::of(&server).await;
    let places: [&[&str]; 8] = [
        &["", "/usage", "/content/0", "/tandem"],
        &["/content/0"],
        &["", "/usage", "/usage/input_tokens_details", "/output/0", "/output/0/content/0"],
        &["/output/0"],
        &["", "/message", "/tandem"],
        &["/message"],
        &["", "/tandem/stats"],
        &[""],
    ];
    let optional = ["tandem", "response", "message", "done_reason", "tool_calls"];
    for ((path, mut body), places) in requests().into_iter().zip(places) {
        body["stream"] = json!(false);
        let answer = good(&server, &document, path, &body).await.remove(0);
        let schema =
            document.body(path, "/post/responses/200/content/application~1json/schema").clone();
        for place in places {
            let object = answer.pointer(place).and_then(Value::as_object);
            let object = object.unwrap_or_else(|| panic!("no {place} in {answer:#}"));
            let changed = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
                let mut answer = answer.clone();
                change(answer.pointer_mut(place).unwrap().as_object_mut().unwrap());
                document.mistakes(&schema, &answer)
            };
            let more = changed(&|object| drop(object.insert("unheard_of".into(), json!(1))));
            assert!(!more.is_empty(), "{path} {place} takes any field");
            for name in object.keys() {
                // What a request gave comes back as it was, and Ollama's costs come with the end.
                let repeated = ["tool_choice", "instructions", "metadata", "text", "tools"];
                let costs = name.ends_with("_duration") || name.ends_with("_count");
                let any = ["input", "arguments"].contains(&name.as_str());
                if repeated.contains(&name.as_str()) && path == RESPONSES || any {
                    continue;
                }
                let other = changed(&|object| drop(object.insert(name.clone(), json!([{}]))));
                assert!(!other.is_empty(), "{path} {place}/{name} is anything");
                if !optional.contains(&name.as_str()) && !costs && *place != "/tandem" {
                    let fewer = changed(&|object| drop(object.remove(name)));
                    assert!(!fewer.is_empty(), "{path} {place}/{name} may be missing");
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_of_other_apis_are_as_described() {
    let keys = Config { keys: Keys::new(["sesame"]).unwrap(), ..config() };
    let locked = start(Scripted::default(), keys).await;
    let server = start(Scripted { gone: 3..1000, ..Scripted::default() }, config()).await;
    let document = Document::of(&server).await;
    let fail = json!({ "threshold": 1, "on_cloud_error": "fail" });
    let large = "x".repeat(5 << 20);
    for (path, base, text) in [
        (MESSAGES, json!({ "messages": user("x") }), "system"),
        ("/v1/messages/count_tokens", json!({ "messages": user("x") }), "system"),
        (RESPONSES, json!({ "input": "x" }), "instructions"),
        (CHAT, json!({ "messages": user("x") }), "model"),
        (GENERATE, json!({ "prompt": "x" }), "system"),
    ] {
        let with = |field: &str, value: Value| {
            let mut body = base.clone();
            body[field] = value;
            body
        };
        let mut cases = vec![
            (&locked, base.clone(), 401),
            (&server, with("model", json!("gpt-4")), 404),
            (&server, with("frobnicate", json!(1)), 400),
            (&server, with("tandem", json!({ "frobnicate": 1 })), 400),
            (&server, with(text, json!(large)), 413),
        ];
        if !path.ends_with("count_tokens") {
            cases.push((&server, with("tandem", fail.clone()), 503));
        }
        for (server, mut body, expected) in cases {
            body["stream"] = json!(false);
            let response = server.post(path, &body).await;
            assert_eq!(response.status(), expected, "{path}");
            let error: Value = response.json().await.unwrap();
            document.hold((path, "post"), expected, "application/json", &error);
        }
    }
    let unknown = server.post("/api/show", &json!({ "model": "llama" })).await;
    assert_eq!(unknown.status(), 404);
    document.hold(("/api/show", "post"), 404, "application/json", &unknown.json().await.unwrap());
    for path in ["/api/tags", "/api/ps"] {
        let error: Value = locked.get(path).await.json().await.unwrap();
        document.hold((path, "get"), 401, "application/json", &error);
    }
}

/// What the document calls wrong the server refuses, and what it calls right is taken.
#[tokio::test]
async fn other_apis_and_the_document_refuse_the_same() {
    let server = start(Scripted::default(), config()).await;
    let document = Document::of(&server).await;
    let messages = json!({ "messages": user("x") });
    let input = json!({ "input": "x" });
    let prompt = json!({ "prompt": "x" });
    let named = |name: &str| json!([{ "name": name, "input_schema": parameters() }]);
    for (path, base, field, right, wrong) in [
        (MESSAGES, &messages, "messages", user("y"), json!([])),
        (MESSAGES, &messages, "messages", user("y"), json!([{ "role": "king", "content": "x" }])),
        (
            MESSAGES,
            &messages,
            "messages",
            json!([{ "role": "user", "content": [{ "type": "text", "text": "y" }] }]),
            json!([{ "role": "user", "content": [{ "type": "image" }] }]),
        ),
        (MESSAGES, &messages, "system", json!("y"), json!([{ "type": "image" }])),
        (MESSAGES, &messages, "model", json!("tandem-small"), json!("claude")),
        (MESSAGES, &messages, "max_tokens", json!(3), json!(0)),
        (MESSAGES, &messages, "stream", json!(false), json!("yes")),
        (MESSAGES, &messages, "temperature", json!(1), json!(2.1)),
        (MESSAGES, &messages, "top_p", json!(1), json!(1.1)),
        (MESSAGES, &messages, "top_k", json!(1), json!(-1)),
        (MESSAGES, &messages, "stop_sequences", json!(["never"]), json!("never")),
        (MESSAGES, &messages, "tools", named("count"), named("no blanks")),
        (MESSAGES, &messages, "tool_choice", json!({ "type": "auto" }), json!({ "type": "king" })),
        (
            MESSAGES,
            &messages,
            "thinking",
            json!({ "type": "disabled" }),
            json!({ "type": "enabled" }),
        ),
        (MESSAGES, &messages, "tandem", json!({ "budget": 0.1 }), json!({ "budget": 2 })),
        (RESPONSES, &input, "input", json!("y"), json!(1)),
        (
            RESPONSES,
            &input,
            "input",
            json!([{ "role": "user", "content": "y" }]),
            json!([{ "type": "image_generation_call" }]),
        ),
        (
            RESPONSES,
            &input,
            "input",
            json!([{ "role": "user", "content": [{ "type": "input_text", "text": "y" }] }]),
            json!([{ "role": "user", "content": [{ "type": "input_image", "text": "y" }] }]),
        ),
        (RESPONSES, &input, "instructions", json!("y"), json!(1)),
        (RESPONSES, &input, "model", json!("tandem-small"), json!("gpt-4")),
        (RESPONSES, &input, "max_output_tokens", json!(3), json!(0)),
        (RESPONSES, &input, "temperature", json!(1), json!(2.1)),
        (RESPONSES, &input, "top_p", json!(1), json!(1.1)),
        (
            RESPONSES,
            &input,
            "tools",
            json!([{ "type": "function", "name": "count", "parameters": parameters() }]),
            json!([{ "type": "web_search", "name": "x" }]),
        ),
        (
            RESPONSES,
            &input,
            "text",
            json!({ "format": { "type": "text" } }),
            json!({ "format": { "type": "xml" } }),
        ),
        (CHAT, &messages, "messages", user("y"), json!([["user", "a list"]])),
        (
            CHAT,
            &messages,
            "messages",
            user("y"),
            json!([{ "role": "user", "content": "y", "images": ["x"] }]),
        ),
        (CHAT, &messages, "model", json!("tandem-small:latest"), json!("llama")),
        (CHAT, &messages, "options", json!({ "top_k": 3 }), json!({ "top_k": -3 })),
        (CHAT, &messages, "options", json!({ "stop": "never" }), json!({ "frobnicate": 1 })),
        (CHAT, &messages, "think", json!(false), json!("high")),
        (GENERATE, &prompt, "system", json!("y"), json!(1)),
        (GENERATE, &prompt, "template", json!(""), json!("{{ .Prompt }}")),
        (GENERATE, &prompt, "images", json!([]), json!(["x"])),
    ] {
        let mut body = base.clone();
        body[field] = right;
        good(&server, &document, path, &body).await;
        body[field] = wrong;
        assert!(!document.request_mistakes(path, &body).is_empty(), "{body}");
        let status = server.post(path, &body).await.status().as_u16();
        assert!([400, 404].contains(&status), "{path} {body}: {status}");
    }
}
