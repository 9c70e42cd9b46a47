//! Answers that are held to a form.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use decode::Exchange;
use serde_json::{Value, json};

use crate::scripted::{Scripted, chunks, config, content, start, user};

const CHAT: &str = "/v1/chat/completions";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "animal": { "enum": [" the cat", " a cat and a mat", " é"] },
            "legs": { "type": "integer", "minimum": 0, "maximum": 9 },
            "words": { "type": "string", "maxLength": 9 },
            "sat": { "type": "boolean" },
        },
        "required": ["animal", "legs", "words", "sat"],
        "additionalProperties": false,
    })
}

fn format(schema: &Value) -> Value {
    json!({ "type": "json_schema", "json_schema": { "name": "x", "strict": true, "schema": schema } })
}

#[tokio::test]
async fn answers_fit_their_schema_whoever_writes_and_whatever_fails() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (mut asked, mut replaced) = (0, 0);
    for exchange in [Exchange::Ids, Exchange::Text] {
        let server =
            start(Scripted { exchange, gone: 2..3, ..Scripted::default() }, config()).await;
        for (i, mode) in ["small", "joint", "joint", "large"].iter().enumerate() {
            let body = json!({
                "messages": user(&format!("Question {i}")), "response_format": format(&schema),
                "max_tokens": 200, "temperature": i % 2, "seed": i,
                "tandem": { "mode": mode, "threshold": 1, "trace": true },
            });
            let response = server.post(CHAT, &body).await;
            if response.status() == 503 {
                assert_eq!(*mode, "large", "the cloud that fails is nobody else's end");
                continue;
            }
            let answer: Value = response.json().await.unwrap();
            let value: Value = serde_json::from_str(content(&answer)).unwrap();
            assert!(validator.is_valid(&value), "{value}");
            assert_eq!(answer["choices"][0]["finish_reason"], "stop");
            let trace = answer["tandem"]["trace"].as_array().unwrap();
            let of = |mark: &str| trace.iter().filter(|t| t["constrained"] == mark).count();
            assert!(of("forced") > 10, "{trace:?}");
            replaced += of("replaced");
            asked += answer["tandem"]["stats"]["asks"].as_u64().unwrap();
        }
    }
    assert!(asked > 0 && replaced > 0, "{asked} {replaced}");
}

#[tokio::test]
async fn a_stream_joined_is_the_whole_answer() {
    let server = start(Scripted::default(), config()).await;
    let body = json!({
        "messages": user("Same"), "response_format": format(&schema()), "max_tokens": 200, "seed": 1,
    });
    let whole = server.chat(body.clone()).await;
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let parts = chunks(&server.stream(CHAT, &streamed).await);
    let text: String =
        parts.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, content(&whole));
}

#[tokio::test]
async fn other_forms_are_any_object_and_a_grammar() {
    let server = start(Scripted::default(), config()).await;
    let body = json!({
        "messages": user("x"), "response_format": { "type": "json_object" }, "max_tokens": 8,
    });
    assert!(content(&server.chat(body).await).starts_with('{'));
    let grammar = "start: (\" the\" | \" a\") (\" cat\" | \" mat\") \"!\"";
    for route in [CHAT, "/v1/completions"] {
        let mut body = json!({ "tandem": { "grammar": grammar } });
        match route {
            CHAT => body["messages"] = user("x"),
            _ => body["prompt"] = json!("x"),
        }
        let answer: Value = server.post(route, &body).await.json().await.unwrap();
        let choice = &answer["choices"][0];
        let text = choice["text"].as_str().or(choice["message"]["content"].as_str()).unwrap();
        assert!([" the cat!", " the mat!", " a cat!", " a mat!"].contains(&text), "{text}");
    }
}

/// The scripted vocabulary: end-of-text, 256 bytes, then the pieces.
#[tokio::test]
async fn biases_ban_tokens_from_both_models_and_force_them_from_the_small_one() {
    let server = start(Scripted::default(), config()).await;
    let ask = |bias: Value, threshold: u8| {
        json!({
            "messages": user("x"), "logit_bias": bias, "max_tokens": 12,
            "tandem": { "threshold": threshold },
        })
    };
    let forced = server.chat(ask(json!({ "258": 100 }), 0)).await;
    assert_eq!(content(&forced), " cat".repeat(12));
    let banned: serde_json::Map<String, Value> =
        (257..266).filter(|id| *id != 260).map(|id| (id.to_string(), json!(-100))).collect();
    let banned = server.chat(ask(banned.into(), 1)).await;
    let words: Vec<_> = content(&banned).split_inclusive(" on").collect();
    assert!(words.iter().all(|word| *word == " on"), "{}", content(&banned));
    for (bias, named) in
        [(json!({ "x": 1 }), "logit_bias.x"), (json!({ "5": 101 }), "logit_bias.5")]
    {
        assert_eq!(server.refused(CHAT, &ask(bias, 0)).await.1["param"], named);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_within_a_second() {
    let server = start(Scripted::default(), config()).await;
    let many: serde_json::Map<String, Value> =
        (0..9000).map(|i| (format!("property_number_{i}"), json!({}))).collect();
    for (schema, code) in [
        (json!({ "$ref": "#" }), "invalid_grammar"),
        (
            json!({
                "type": "object", "properties": { "me": { "$ref": "#" } }, "required": ["me"]
            }),
            "invalid_grammar",
        ),
        (
            json!({
                "type": ["object"], "required": ["me"], "additionalProperties": { "$ref": "#" }
            }),
            "invalid_grammar",
        ),
        (json!({ "type": "whatever" }), "invalid_grammar"),
        (json!({ "type": "object", "properties": many }), "invalid_grammar"),
    ] {
        let started = Instant::now();
        let body = json!({ "messages": user("x"), "response_format": format(&schema) });
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["code"]), (400, &json!(code)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
    for (field, value, named) in [
        ("response_format", json!({ "type": "xml" }), "response_format.type"),
        ("response_format", json!({ "type": "json_schema" }), "response_format.json_schema.schema"),
        ("response_format", json!(7), "response_format"),
        ("tandem", json!({ "grammar": 7 }), "tandem.grammar"),
    ] {
        let mut body = json!({ "messages": user("x") });
        body[field] = value;
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["param"]), (400, &json!(named)), "{error}");
    }
    let both = json!({
        "messages": user("x"), "response_format": { "type": "json_object" },
        "tandem": { "grammar": "start: \"x\"" },
    });
    assert_eq!(server.refused(CHAT, &both).await.1["param"], "tandem.grammar");
    assert_eq!(server.server.running(), 0);
}

/// Grammars that would grow beyond all bounds, and one that is no grammar.
fn bombs() -> [String; 4] {
    [
        "start: \"a\"{1,100000}{1,100000}".into(),
        format!("start: {}\"a\"{}", "(".repeat(50_000), ")".repeat(50_000)),
        format!("start: {}", vec!["\"ab\""; 30_000].join(" | ")),
        "start: nobody".into(),
    ]
}

#[tokio::test]
async fn grammars_that_explode_are_refused_within_a_second() {
    let server = start(Scripted::default(), config()).await;
    for grammar in bombs() {
        let started = Instant::now();
        let body = json!({ "messages": user("x"), "tandem": { "grammar": grammar } });
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["code"]), (400, &json!("invalid_grammar")), "{error}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
    assert_eq!(server.server.running(), 0);
}

#[tokio::test]
async fn nonsense_is_refused_also_where_others_wait_for_a_seat() {
    let pace = Duration::from_millis(100);
    let pair = Scripted { seats: 1, queue: 8, pace, ends: false, ..Scripted::default() };
    let server = start(pair, config()).await;
    let (client, url) = (server.client.clone(), format!("{}{CHAT}", server.url));
    let long = json!({ "messages": user("x"), "max_tokens": 600 });
    let first = tokio::spawn(async move { client.post(url).json(&long).send().await });
    while server.server.running() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let endless = json!({
        "type": "object", "properties": { "me": { "$ref": "#" } }, "required": ["me"]
    });
    let [bomb, ..] = bombs();
    for (field, value, code) in [
        ("response_format", format(&endless), "invalid_grammar"),
        ("response_format", format(&json!({ "type": "whatever" })), "invalid_grammar"),
        ("tandem", json!({ "grammar": bomb }), "invalid_grammar"),
        ("tandem", json!({ "grammar": "start: \"x\"", "mode": "verify" }), "unsupported_parameter"),
    ] {
        let mut body = json!({ "messages": user("x"), "temperature": 0 });
        body[field] = value;
        let started = Instant::now();
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["code"]), (400, &json!(code)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        assert_eq!(server.server.running(), 1, "the first text is still under way");
    }
    first.abort();
}

#[tokio::test]
async fn what_mode_verify_cannot_do_is_the_callers_mistake() {
    let server = start(Scripted::default(), config()).await;
    for (field, value, said) in [
        ("response_format", json!({ "type": "json_object" }), "for a schema"),
        ("logit_bias", json!({ "5": 1 }), "logit_bias"),
        ("temperature", json!(1), "temperature of 0"),
    ] {
        let mut body = json!({ "model": "tandem-verify", "messages": user("x"), "temperature": 0 });
        body[field] = value;
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["code"]), (400, &json!("unsupported_parameter")), "{error}");
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
    }
}
