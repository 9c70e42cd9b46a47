//! The document at `/openapi.json` against real requests, answers, streams and errors.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use decode::Exchange;
use serde_json::{Value, json};
use tandem_server::{
    edge::{Config, app},
    http::Keys,
};

use crate::scripted::{Running, Scripted, chunks, config, start, user};

mod apis;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// The document, with every object closed: a field it does not name is a mistake.
struct Document(Value);

impl Document {
    async fn of(server: &Running) -> Self {
        let mut document: Value = server.get("/openapi.json").await.json().await.unwrap();
        let plain = document.clone();
        close(&mut document["components"]["schemas"], &plain);
        Self(document)
    }

    /// The schema of a body.
    fn body(&self, path: &str, place: &str) -> &Value {
        let schema = self.0["paths"][path].pointer(place);
        schema.unwrap_or_else(|| panic!("the document has no {place} of {path}"))
    }

    fn mistakes(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut schema = schema.clone();
        schema["components"] = self.0["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        validator.iter_errors(value).map(|e| format!("{e} at {}", e.instance_path())).collect()
    }

    fn request_mistakes(&self, path: &str, request: &Value) -> Vec<String> {
        let schema = self.body(path, "/post/requestBody/content/application~1json/schema");
        self.mistakes(schema, request)
    }

    /// Holds an answer of a route to what the document says of its status.
    fn hold(&self, (path, method): (&str, &str), status: u16, kind: &str, answer: &Value) {
        let kind = kind.replace('/', "~1");
        let place = format!("/{method}/responses/{status}/content/{kind}/schema");
        let mistakes = self.mistakes(self.body(path, &place), answer);
        assert!(mistakes.is_empty(), "{method} {path} {status}: {mistakes:#?} in {answer:#}");
    }

    fn properties(&self, schema: &str) -> BTreeSet<String> {
        let properties = &self.0["components"]["schemas"][schema]["properties"];
        properties.as_object().unwrap().keys().cloned().collect()
    }
}

/// Merges what objects are made of, and lets them have no other fields.
fn close(schema: &mut Value, document: &Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(|value| close(value, document)),
        Value::Object(map) => {
            let parts = map.remove("allOf");
            if parts.is_some() {
                map.insert("type".into(), "object".into());
            }
            for part in parts.into_iter().flat_map(|p| p.as_array().unwrap().clone()) {
                let part = match part["$ref"].as_str() {
                    Some(name) => document.pointer(name.trim_start_matches('#')).unwrap().clone(),
                    None => part,
                };
                let properties = part["properties"].as_object().unwrap().clone();
                let known = map.entry("properties").or_insert(json!({}));
                known.as_object_mut().unwrap().extend(properties);
                let required = part["required"].as_array().cloned().unwrap_or_default();
                let known = map.entry("required").or_insert(json!([]));
                known.as_array_mut().unwrap().extend(required);
            }
            map.values_mut().for_each(|value| close(value, document));
            if map.contains_key("properties") {
                map.insert("additionalProperties".into(), false.into());
            }
        }
        _ => {}
    }
}

/// Sends a request that both the document and the server take; its answer, or its chunks.
async fn good(server: &Running, document: &Document, path: &str, body: Value) -> Vec<Value> {
    assert_eq!(document.request_mistakes(path, &body), [""; 0], "{body}");
    if body["stream"] == true {
        let chunks = chunks(&server.stream(path, &body).await);
        for chunk in &chunks {
            document.hold((path, "post"), 200, "text/event-stream", chunk);
        }
        return chunks;
    }
    let response = server.post(path, &body).await;
    let status = response.status().as_u16();
    let answer: Value = response.json().await.unwrap();
    document.hold((path, "post"), status, "application/json", &answer);
    assert_eq!(status, 200, "{answer}");
    vec![answer]
}

#[tokio::test]
async fn every_route_is_there_and_says_what_the_document_says() {
    let server = start(Scripted::default(), config()).await;
    let document = Document::of(&server).await;
    assert_eq!(document.0["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document.0["openapi"], "3.1.0");
    let paths = document.0["paths"].as_object().unwrap();
    for (path, methods) in paths {
        let address = path.replace("{id}", "tandem-small").replace("{file}", "page.js");
        for name in methods.as_object().unwrap().keys() {
            let method = name.to_uppercase().parse().unwrap();
            let url = format!("{}{address}", server.url);
            let response = server.client.request(method, url).send().await.unwrap();
            let status = response.status().as_u16();
            let expected = match name.as_str() {
                "post" if path.contains("embed") => 400,
                "post" => 415,
                _ => 200,
            };
            assert_eq!(status, expected, "{name} {path}");
            let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
            let kind = kind.split(';').next().unwrap().to_owned();
            let text = response.text().await.unwrap();
            let answer = match kind.as_str() {
                "application/json" => serde_json::from_str(&text).unwrap(),
                _ => Value::String(text),
            };
            document.hold((path, name), status, &kind, &answer);
        }
    }
    assert_eq!(document.0["paths"]["/health"]["get"]["security"], json!([{}]));
    assert_eq!(document.0["components"]["securitySchemes"]["key"]["scheme"], "bearer");
}

/// The table of routes can be listed only by what it shows when it is debugged.
#[tokio::test]
async fn no_route_is_missing_in_the_document() {
    let server = start(Scripted::default(), config()).await;
    let document = Document::of(&server).await;
    let table = format!("{:?}", app(&server.server));
    let served: BTreeSet<_> = table
        .split('"')
        .filter(|text| text.starts_with('/') && !text.contains("__private"))
        .collect();
    let described = document.0["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(served.contains("/health") && served.contains("/v1/models/{id}"), "{table}");
    assert_eq!(served, described);
}

#[tokio::test]
async fn answers_are_as_described_whole_and_in_chunks() {
    let mut token_fields = BTreeSet::new();
    for exchange in [Exchange::Ids, Exchange::Text] {
        let server = start(Scripted { exchange, ..Scripted::default() }, config()).await;
        let document = Document::of(&server).await;
        for mode in ["small", "joint", "large"] {
            for stream in [false, true] {
                let tandem = json!({ "mode": mode, "threshold": 0.6, "trace": true });
                let chat = json!({ "messages": user("Tell me"), "stream": stream, "tandem": tandem,
                    "logprobs": true, "top_logprobs": 2, "stream_options": { "include_usage": true } });
                let form = json!({ "messages": user("Tell me"), "stream": stream, "tandem": tandem,
                    "response_format": { "type": "json_schema", "json_schema": {
                        "name": "x", "schema": { "enum": [" the cat", " the mat"] } } } });
                let mut answers = good(&server, &document, CHAT, chat).await;
                answers.extend(good(&server, &document, CHAT, form).await);
                for told in answers {
                    let tokens = told["tandem"].get("trace").or(told["tandem"].get("tokens"));
                    for token in tokens.into_iter().flat_map(|t| t.as_array().unwrap()) {
                        token_fields.extend(token.as_object().unwrap().keys().cloned());
                    }
                    if let Some(stats) = told["tandem"].get("stats") {
                        let told: BTreeSet<_> =
                            stats.as_object().unwrap().keys().cloned().collect();
                        assert_eq!(told, document.properties("Stats"));
                    }
                }
                let several = json!({ "messages": user("Tell me"), "stream": stream, "n": 2,
                    "model": format!("tandem-{mode}"), "max_tokens": 8, "stop": ["never", "ever"] });
                good(&server, &document, CHAT, several).await;
                let text = json!({ "prompt": ["Once", "Twice"], "stream": stream, "logprobs": 2,
                    "temperature": 0.8, "seed": 4, "tandem": { "mode": mode } });
                good(&server, &document, COMPLETIONS, text).await;
                let plain = json!({ "prompt": "Once", "stream": stream, "tandem": tandem });
                good(&server, &document, COMPLETIONS, plain).await;
            }
        }
        if exchange == Exchange::Text {
            // Only where asks are on their way while the edge goes on, which scripted clouds do not do.
            token_fields.insert("speculation".to_owned());
            // Nothing is promised that never comes.
            assert_eq!(token_fields, document.properties("Token"));
        }
    }
}

/// What the other tests rely on: an answer with a field too many, too few or of another kind is a
/// mistake, however deep it is.
#[tokio::test]
async fn an_answer_that_is_not_as_described_is_noticed() {
    let server = start(Scripted::default(), config()).await;
    let document = Document::of(&server).await;
    let body = json!({ "messages": user("Tell me"), "logprobs": true, "top_logprobs": 1,
        "tandem": { "threshold": 0.6, "trace": true } });
    let answer = good(&server, &document, CHAT, body).await.remove(0);
    let schema = document.body(CHAT, "/post/responses/200/content/application~1json/schema");
    for place in [
        "",
        "/usage",
        "/usage/prompt_tokens_details",
        "/choices/0",
        "/choices/0/message",
        "/choices/0/logprobs/content/0",
        "/tandem",
        "/tandem/stats",
        "/tandem/trace/0",
        "/tandem/trace/0/times",
        "/tandem/trace/0/alternatives/0",
    ] {
        let names: Vec<String> =
            answer.pointer(place).unwrap().as_object().unwrap().keys().cloned().collect();
        let mut more = answer.clone();
        more.pointer_mut(place).unwrap()["unheard_of"] = json!(1);
        assert!(!document.mistakes(schema, &more).is_empty(), "{place} takes any field");
        let mut other = answer.clone();
        other.pointer_mut(place).unwrap()[&names[0]] = json!([{}]);
        assert!(!document.mistakes(schema, &other).is_empty(), "{place}/{} is anything", names[0]);
        let optional =
            ["tandem", "trace", "id", "eligible", "exchange", "cloud", "alternatives", "sent"];
        for name in names.iter().filter(|name| !optional.contains(&name.as_str())) {
            let mut fewer = answer.clone();
            fewer.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(name);
            assert!(!document.mistakes(schema, &fewer).is_empty(), "{place}/{name} may be missing");
        }
    }
}

#[tokio::test]
async fn errors_are_as_described() {
    let keys = Config { keys: Keys::new(["sesame"]).unwrap(), ..config() };
    let locked = start(Scripted::default(), keys).await;
    let server = start(Scripted { gone: 3..1000, ..Scripted::default() }, config()).await;
    let document = Document::of(&server).await;
    let fail = json!({ "threshold": 1, "on_cloud_error": "fail" });
    for (server, path, body, expected) in [
        (&locked, CHAT, json!({ "messages": user("x") }), 401),
        (&server, CHAT, json!({ "messages": user("x"), "model": "gpt-4" }), 404),
        (&server, CHAT, json!({ "messages": user("x"), "frobnicate": 1 }), 400),
        (&server, COMPLETIONS, json!({ "prompt": "x".repeat(5 << 20) }), 413),
        (&server, COMPLETIONS, json!({ "prompt": "x", "tandem": fail }), 503),
    ] {
        let response = server.post(path, &body).await;
        assert_eq!(response.status(), expected);
        let error: Value = response.json().await.unwrap();
        document.hold((path, "post"), expected, "application/json", &error);
    }
    let missing: Value = server.get("/v1/models/gpt-4").await.json().await.unwrap();
    document.hold(("/v1/models/{id}", "get"), 404, "application/json", &missing);
    let url = format!("{}/health", server.url);
    let stranger = server.client.get(url).header("host", "evil.example").send().await.unwrap();
    let stranger: Value = stranger.json().await.unwrap();
    document.hold(("/health", "get"), 403, "application/json", &stranger);
}

/// What the document calls wrong the server refuses, and what it calls right is taken.
#[tokio::test]
async fn the_document_and_the_server_refuse_the_same() {
    let server = start(Scripted::default(), config()).await;
    let document = Document::of(&server).await;
    let chat = json!({ "messages": user("x") });
    let text = json!({ "prompt": "x" });
    for (path, base, field, right, wrong) in [
        (CHAT, &chat, "messages", user("y"), json!([])),
        (CHAT, &chat, "messages", user("y"), json!([{ "content": "no role" }])),
        (CHAT, &chat, "messages", user("y"), json!([{ "role": "king", "content": "x" }])),
        (CHAT, &chat, "messages", user("y"), json!([["user", "a list"]])),
        (CHAT, &chat, "logprobs", json!(true), json!(1)),
        (CHAT, &chat, "top_logprobs", json!(0), json!(21)),
        (CHAT, &chat, "response_format", json!({ "type": "text" }), json!({ "type": "xml" })),
        (CHAT, &chat, "model", json!("tandem-small"), json!("gpt-4")),
        (CHAT, &chat, "stream", json!(false), json!("yes")),
        (CHAT, &chat, "stream_options", json!({}), json!(["include_usage"])),
        (CHAT, &chat, "max_tokens", json!(3), json!(0)),
        (CHAT, &chat, "max_completion_tokens", json!(3), json!(1.5)),
        (CHAT, &chat, "temperature", json!(2), json!(2.1)),
        (CHAT, &chat, "top_p", json!(0), json!(1.1)),
        (CHAT, &chat, "top_k", json!(5), json!(-1)),
        (CHAT, &chat, "min_p", json!(0.1), json!(2)),
        (CHAT, &chat, "repetition_penalty", json!(1.1), json!(0)),
        (CHAT, &chat, "presence_penalty", json!(-2), json!(3)),
        (CHAT, &chat, "frequency_penalty", json!(0.5), json!("much")),
        (CHAT, &chat, "seed", json!(-7), json!(0.5)),
        (CHAT, &chat, "n", json!(2), json!(17)),
        (CHAT, &chat, "stop", json!("."), json!([1])),
        (CHAT, &chat, "tandem", json!({ "mode": "small" }), json!({ "mode": "tiny" })),
        (CHAT, &chat, "tandem", json!({ "budget": 0.1 }), json!({ "budget": 2 })),
        (CHAT, &chat, "tandem", json!({ "threshold": 0.1 }), json!({ "threshold": -1 })),
        (CHAT, &chat, "tandem", json!({ "trace": false }), json!({ "trace": 1 })),
        (
            CHAT,
            &chat,
            "tandem",
            json!({ "on_cloud_error": "wait" }),
            json!({ "on_cloud_error": 1 }),
        ),
        (CHAT, &chat, "tandem", json!({ "router": "margin" }), json!({ "rooter": "margin" })),
        (COMPLETIONS, &text, "prompt", json!(["y", "z"]), json!([1, 2])),
        (COMPLETIONS, &text, "prompt", json!("y"), Value::Null),
        (COMPLETIONS, &text, "logprobs", json!(5), json!(6)),
        (COMPLETIONS, &text, "seed", Value::Null, json!("x")),
    ] {
        let mut body = base.clone();
        body[field] = right;
        good(&server, &document, path, body.clone()).await;
        body[field] = wrong;
        assert!(!document.request_mistakes(path, &body).is_empty(), "{body}");
        let (status, error) = server.refused(path, &body).await;
        assert!([400, 404].contains(&status), "{body}");
        assert!(error["param"].as_str().is_some_and(|p| p.starts_with(field)), "{body}: {error}");
    }
    // Every field the document names was tried above, or is one of these.
    let tried = ["messages", "prompt"];
    for schema in ["ChatCompletionRequest", "CompletionRequest"] {
        for name in document.properties(schema) {
            let base =
                if schema == "CompletionRequest" { (COMPLETIONS, &text) } else { (CHAT, &chat) };
            let mut body = base.1.clone();
            if !tried.contains(&name.as_str()) {
                body[&name] = json!([[{ "wrong": 1 }]]);
                let (status, error) = server.refused(base.0, &body).await;
                assert_eq!(status, 400, "{name}");
                assert_ne!(error["code"], "unknown_parameter", "{name}: {error}");
            }
        }
    }
}
