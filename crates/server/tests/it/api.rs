//! OpenAI's API as callers meet it, over scripted models.
#![allow(clippy::unwrap_used, clippy::panic)]

use decode::Exchange;
use serde_json::{Value, json};

use crate::scripted::{self, Scripted, chunks, config, content, start, user};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

#[tokio::test]
async fn a_chat_has_openais_shape() {
    let server = start(Scripted::default(), config()).await;
    let answer = server
        .chat(json!({ "model": "tandem-joint", "messages": user("Hello there"), "seed": 3 }))
        .await;
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "tandem-joint");
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let choice = &answer["choices"][0];
    assert_eq!((&choice["index"], &choice["message"]["role"]), (&json!(0), &json!("assistant")));
    assert!(["stop", "length"].contains(&choice["finish_reason"].as_str().unwrap()));
    let (usage, stats) = (&answer["usage"], &answer["tandem"]["stats"]);
    assert_eq!(usage["completion_tokens"], stats["tokens"]);
    let sum = usage["prompt_tokens"].as_u64().unwrap() + stats["tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], sum);
    assert_eq!(answer["tandem"]["mode"], "joint");
    assert!(answer["tandem"]["trace"].is_null());
    // The default system message is among what was read.
    let system = json!({ "role": "system", "content": "Be brief." });
    let told = json!({ "messages": [system, { "role": "user", "content": "Hello there" }] });
    let again = server.chat(told).await;
    assert_eq!(again["usage"]["prompt_tokens"], usage["prompt_tokens"]);
    assert_eq!(content(&again), content(&answer));
}

#[tokio::test]
async fn a_models_name_is_a_mode() {
    let server = start(Scripted::default(), config()).await;
    for (model, share) in [("tandem-small", 0.0), ("tandem-large", 1.0)] {
        let answer = server.chat(json!({ "model": model, "messages": user("Hi") })).await;
        assert_eq!(answer["tandem"]["stats"]["routed_share"], share, "{answer}");
    }
    // The field goes before the name.
    let body =
        json!({ "model": "tandem-small", "messages": user("Hi"), "tandem": {"mode": "large"} });
    let answer = server.chat(body).await;
    assert_eq!(
        (&answer["tandem"]["mode"], &answer["model"]),
        (&json!("large"), &json!("tandem-large"))
    );
    let (status, error) =
        server.refused(CHAT, &json!({ "model": "gpt-4", "messages": user("Hi") })).await;
    assert_eq!((status, &error["code"]), (404, &json!("model_not_found")));
    // The ends of the threshold are small and large, token for token.
    let small = server.chat(json!({ "model": "tandem-small", "messages": user("Hi") })).await;
    let large = server.chat(json!({ "model": "tandem-large", "messages": user("Hi") })).await;
    for (tau, same) in [(0, &small), (1, &large)] {
        let body = json!({ "messages": user("Hi"), "tandem": { "threshold": tau } });
        assert_eq!(content(&server.chat(body).await), content(same));
    }
}

#[tokio::test]
async fn a_stream_is_the_whole_in_pieces() {
    for exchange in [Exchange::Ids, Exchange::Text] {
        let server = start(Scripted { exchange, ..Scripted::default() }, config()).await;
        for mode in ["small", "joint", "large"] {
            let body =
                json!({ "messages": user("Tell me"), "tandem": {"mode": mode, "trace": true} });
            let whole = server.chat(body.clone()).await;
            let mut streamed = body;
            streamed["stream"] = json!(true);
            streamed["stream_options"] = json!({ "include_usage": true });
            let chunks = chunks(&server.stream(CHAT, &streamed).await);
            assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
            let text: String = chunks
                .iter()
                .filter_map(|c| c["choices"][0]["delta"]["content"].as_str())
                .collect();
            assert_eq!(text, content(&whole), "{mode}");
            let tokens: Vec<&Value> =
                chunks.iter().filter_map(|c| c["tandem"]["tokens"].as_array()).flatten().collect();
            let told: String = tokens.iter().map(|t| t["text"].as_str().unwrap()).collect();
            assert_eq!(told, text);
            assert_eq!(tokens.len(), whole["tandem"]["trace"].as_array().unwrap().len());
            let (last, counted) = (&chunks[chunks.len() - 2], &chunks[chunks.len() - 1]);
            assert_eq!(last["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
            assert_eq!(last["tandem"]["stats"]["tokens"], whole["tandem"]["stats"]["tokens"]);
            assert_eq!(last["usage"], Value::Null);
            assert_eq!(counted["choices"], json!([]));
            assert_eq!(counted["usage"]["total_tokens"], whole["usage"]["total_tokens"]);
        }
    }
}

#[tokio::test]
async fn the_trace_tells_every_token() {
    let server = start(Scripted::default(), config()).await;
    let body = json!({ "messages": user("Trace"), "max_tokens": 60,
        "tandem": { "threshold": 0.45, "trace": true } });
    let answer = server.chat(body).await;
    let trace = answer["tandem"]["trace"].as_array().unwrap();
    assert_eq!(trace.len() as u64, answer["tandem"]["stats"]["tokens"].as_u64().unwrap());
    let mut sources = std::collections::HashSet::new();
    for token in trace {
        let others = token["alternatives"].as_array().unwrap();
        assert_eq!(others.len(), 5, "{token}");
        let probabilities: Vec<_> =
            others.iter().map(|a| a["probability"].as_f64().unwrap()).collect();
        assert!(probabilities.is_sorted_by(|a, b| a >= b), "{probabilities:?}");
        let source = token["source"].as_str().unwrap();
        let likeliest = (probabilities[0] - token["score"].as_f64().unwrap()).abs();
        assert!(likeliest < 1e-5, "the score of top1 is the likeliest's: {token}");
        if source == "edge" {
            assert_eq!(token["text"], others[0]["text"]);
            assert!(token["sent"].is_null());
        }
        assert!(token["times"]["edge_decode_ms"].is_number());
        sources.insert(source);
    }
    assert!(sources.contains("edge") && sources.contains("cloud"), "{sources:?}");
    assert!(trace.iter().any(|t| t["sent"].as_str().is_some_and(|s| !s.is_empty())));
    assert!(answer["tandem"]["stats"]["sent_bytes"].as_u64().unwrap() > 0);
    // Nobody pays for it unasked.
    let plain = server.chat(json!({ "messages": user("Trace"), "max_tokens": 3 })).await;
    assert!(!plain.to_string().contains("alternatives"));
}

#[tokio::test]
async fn stops_are_found_across_tokens_and_not_shown() {
    let server = start(Scripted { ends: false, ..Scripted::default() }, config()).await;
    let whole = server.chat(json!({ "messages": user("Go on"), "max_tokens": 30 })).await;
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let text = content(&whole).to_owned();
    // From the middle of the fifth word to the middle of the sixth.
    let spaces: Vec<_> = text.char_indices().filter(|(_, c)| *c == ' ').map(|(i, _)| i).collect();
    let from = text[..spaces[5]].char_indices().next_back().unwrap().0;
    let to = spaces[5] + 1 + text[spaces[5] + 1..].chars().next().unwrap().len_utf8();
    let stop = &text[from..to];
    let expected = &text[..text.find(stop).unwrap()];
    for stop in [json!(stop), json!(["never said", stop])] {
        let body = json!({ "messages": user("Go on"), "max_tokens": 30, "stop": stop });
        let answer = server.chat(body.clone()).await;
        assert_eq!(content(&answer), expected);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        let mut streamed = body;
        streamed["stream"] = json!(true);
        let chunks = chunks(&server.stream(CHAT, &streamed).await);
        let parts = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str());
        assert_eq!(parts.collect::<String>(), expected);
    }
}

#[tokio::test]
async fn limits_seeds_and_penalties() {
    let server = start(Scripted { ends: false, ..Scripted::default() }, config()).await;
    let chat = async |extra: Value| {
        let mut body = json!({ "messages": user("x"), "max_tokens": 24, "model": "tandem-small" });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        server.chat(body).await
    };
    for (limits, tokens) in [
        (json!({ "max_tokens": 5 }), 5),
        (json!({ "max_completion_tokens": 6 }), 6),
        (json!({ "max_tokens": 9, "max_completion_tokens": 7 }), 7),
    ] {
        assert_eq!(chat(limits).await["usage"]["completion_tokens"], tokens);
    }
    let warm = json!({ "temperature": 1.2, "seed": 5 });
    let first = chat(warm.clone()).await;
    assert_eq!(content(&first), content(&chat(warm).await));
    let other = chat(json!({ "temperature": 1.2, "seed": 6 })).await;
    assert_ne!(content(&first), content(&other));
    let cold = chat(json!({ "temperature": 1.2, "top_p": 0.0, "seed": 5 })).await;
    let greedy = chat(json!({})).await;
    assert_eq!(content(&cold), content(&greedy));
    // A penalty keeps the likeliest token from being written again and again.
    let distinct = |answer: &Value| {
        let words: std::collections::HashSet<_> = content(answer).split(' ').collect();
        words.len()
    };
    let penalised = chat(json!({ "frequency_penalty": 2.0, "presence_penalty": 2.0 })).await;
    assert!(distinct(&penalised) >= distinct(&greedy));
    assert_ne!(content(&penalised), content(&greedy));
}

#[tokio::test]
async fn several_choices_have_their_own_seeds() {
    let server = start(Scripted::default(), config()).await;
    let body = json!({ "messages": user("Pick"), "n": 3, "temperature": 1.0, "seed": 1 });
    let answer = server.chat(body.clone()).await;
    let choices = answer["choices"].as_array().unwrap();
    let texts: Vec<_> = choices.iter().map(|c| c["message"]["content"].as_str().unwrap()).collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
    assert!(choices.iter().enumerate().all(|(i, c)| c["index"] == i));
    assert!(answer["tandem"].is_null() && choices[1]["tandem"]["stats"]["edge_cached"] != 0);
    let mut one = body.clone();
    one["n"] = json!(1);
    assert_eq!(content(&server.chat(one).await), texts[0]);
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let chunks = chunks(&server.stream(CHAT, &streamed).await);
    for (i, text) in texts.iter().enumerate() {
        let of = chunks.iter().filter(|c| c["choices"][0]["index"] == i);
        let parts = of.filter_map(|c| c["choices"][0]["delta"]["content"].as_str());
        assert_eq!(parts.collect::<String>(), *text);
    }
}

#[tokio::test]
async fn log_probabilities() {
    let server = start(Scripted::default(), config()).await;
    let body = json!({ "messages": user("Odds"), "logprobs": true, "top_logprobs": 3, "model": "tandem-small" });
    let answer = server.chat(body).await;
    let told = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let joined: String = told.iter().map(|t| t["token"].as_str().unwrap()).collect();
    assert_eq!(joined, content(&answer));
    for token in told {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        assert_eq!(top[0]["token"], token["token"]);
        let (own, first) =
            (token["logprob"].as_f64().unwrap(), top[0]["logprob"].as_f64().unwrap());
        assert!((own - first).abs() < 1e-5 && own <= 0.0);
    }
    let body = json!({ "prompt": "Once", "logprobs": 2, "model": "tandem-joint" });
    let answer: Value = server.post(COMPLETIONS, &body).await.json().await.unwrap();
    let (choice, told) = (&answer["choices"][0], &answer["choices"][0]["logprobs"]);
    let tokens = told["tokens"].as_array().unwrap();
    let text: String = tokens.iter().map(|t| t.as_str().unwrap()).collect();
    assert_eq!(choice["text"], text);
    assert_eq!(told["token_logprobs"].as_array().unwrap().len(), tokens.len());
    let offsets: Vec<_> =
        told["text_offset"].as_array().unwrap().iter().map(|o| o.as_u64().unwrap()).collect();
    assert!(offsets[0] == 0 && offsets.is_sorted());
}

#[tokio::test]
async fn completions_continue_texts() {
    let server = start(Scripted::default(), config()).await;
    let answer: Value =
        server.post(COMPLETIONS, &json!({ "prompt": "Once upon" })).await.json().await.unwrap();
    assert_eq!(answer["object"], "text_completion");
    let one = answer["choices"][0]["text"].as_str().unwrap().to_owned();
    let body = json!({ "prompt": ["Once upon", "In the"], "n": 2 });
    let answer: Value = server.post(COMPLETIONS, &body).await.json().await.unwrap();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    assert_eq!((&choices[0]["text"], &choices[1]["text"]), (&json!(one), &json!(one)));
    assert_ne!(choices[2]["text"], one);
    let streamed =
        server.stream(COMPLETIONS, &json!({ "prompt": "Once upon", "stream": true })).await;
    let parts = chunks(&streamed);
    let text: String = parts.iter().map(|c| c["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(text, one);
}

#[tokio::test]
async fn what_would_change_the_answer_is_refused_by_name() {
    let server = start(Scripted::default(), config()).await;
    for (field, value) in [
        ("tool_choice", json!("required")),
        ("functions", json!([{ "name": "f" }])),
        ("logit_bias", json!(5)),
        ("modalities", json!(["audio"])),
        ("audio", json!({ "voice": "x" })),
        ("reasoning_effort", json!("high")),
        ("frobnicate", json!(1)),
        ("temperature", json!(3)),
        ("temperature", json!("warm")),
        ("top_p", json!(-1)),
        ("n", json!(0)),
        ("n", json!(1000)),
        ("max_tokens", json!(0)),
        ("max_tokens", json!(-3)),
        ("max_tokens", json!(1.5)),
        ("seed", json!("x")),
        ("stop", json!(5)),
        ("stop", json!(vec!["x"; 99])),
        ("stream", json!("yes")),
        ("stream_options", json!(7)),
        ("presence_penalty", json!(9)),
        ("top_logprobs", json!(4)),
        ("logprobs", json!(4)),
        ("tandem", json!("joint")),
        ("messages", json!("hi")),
        ("messages", json!([])),
    ] {
        let mut body = json!({ "messages": user("x") });
        body[field] = value.clone();
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!(status, 400, "{field} {value}");
        assert_eq!(error["param"], field, "{error}");
        assert!(error["message"].as_str().unwrap().contains(field), "{error}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    // The message says which numbers a field takes.
    let anthropic = "/v1/messages";
    for (path, field, numbers, range) in [
        (CHAT, "max_tokens", vec![0, -3, 1_000_001, i64::MAX], "from 1 to 1000000"),
        (CHAT, "max_completion_tokens", vec![0, i64::MAX], "from 1 to 1000000"),
        (CHAT, "top_k", vec![-1, 1_000_001, i64::MAX], "from 0 to 1000000"),
        (CHAT, "n", vec![0, 17, i64::MAX], "from 1 to 16"),
        (COMPLETIONS, "max_tokens", vec![0, i64::MAX], "from 1 to 1000000"),
        (anthropic, "top_k", vec![i64::MAX], "from 0 to 1000000"),
        (anthropic, "max_tokens", vec![0, i64::MAX], "from 1 to 1000000"),
    ] {
        for number in numbers {
            let mut body = match path {
                COMPLETIONS => json!({ "prompt": "x" }),
                _ => json!({ "messages": user("x"), "max_tokens": 4 }),
            };
            body[field] = json!(number);
            let (status, error) = server.refused(path, &body).await;
            let message = error["message"].as_str().unwrap();
            assert_eq!(status, 400, "{path} {body}");
            assert!(message.contains(field) && message.contains(range), "{path} {message}");
        }
    }
    for (inside, named) in [
        (json!({ "modus": "joint" }), "tandem.modus"),
        (json!({ "mode": "tiny" }), "tandem.mode"),
        (json!({ "threshold": 2 }), "tandem.threshold"),
        (json!({ "threshold": 0.1, "budget": 0.1 }), "tandem.budget"),
        (json!({ "router": "/etc/passwd" }), "tandem.router"),
        (json!({ "on_cloud_error": "panic" }), "tandem.on_cloud_error"),
        (json!({ "trace": "yes" }), "tandem.trace"),
        (json!(["joint"]), "tandem"),
    ] {
        let body = json!({ "messages": user("x"), "tandem": inside });
        let (status, error) = server.refused(CHAT, &body).await;
        assert_eq!((status, &error["param"]), (400, &json!(named)), "{error}");
    }
    for (message, named) in [
        (json!({ "role": "function", "content": "x" }), "messages[0].role"),
        (json!({ "role": "tool" }), "messages[0].content"),
        (json!({ "role": "king", "content": "x" }), "messages[0].role"),
        (json!({ "role": "user" }), "messages[0].content"),
        (json!({ "role": "user", "content": 5 }), "messages[0].content"),
        (
            json!({ "role": "user", "content": [{ "type": "image_url" }] }),
            "messages[0].content[0].type",
        ),
        (json!({ "role": "assistant", "tool_calls": [1] }), "messages[0].tool_calls[0]"),
        (
            json!({ "role": "user", "content": "x", "tool_calls": [{ "function": { "name": "f" } }] }),
            "messages[0].tool_calls",
        ),
        (json!({ "role": "user", "content": [{ "type": "text" }, "x"] }), "messages[0].content[1]"),
        (json!({ "role": "user", "content": "x", "mood": 1 }), "messages[0].mood"),
        (json!({ "role": 7, "content": "x" }), "messages[0].role"),
        (json!(["user", "hi"]), "messages[0]"),
        (json!("hi"), "messages[0]"),
    ] {
        let (status, error) = server.refused(CHAT, &json!({ "messages": [message] })).await;
        assert_eq!((status, &error["param"]), (400, &json!(named)), "{error}");
        assert!(error["message"].as_str().unwrap().starts_with(named), "{error}");
    }
    for (field, value, code) in [
        ("frobnicate", json!(1), json!("unknown_parameter")),
        ("tandem", json!({ "modus": 1 }), json!("unknown_parameter")),
        ("suffix", json!("x"), json!("unknown_parameter")),
        ("functions", json!([{ "name": "f" }]), json!("unsupported_parameter")),
        (
            "messages",
            json!([{ "role": "function", "content": "x" }]),
            json!("unsupported_parameter"),
        ),
        ("temperature", json!(3), Value::Null),
        ("temperature", json!("warm"), Value::Null),
    ] {
        let mut body = json!({ "messages": user("x") });
        body[field] = value;
        assert_eq!(server.refused(CHAT, &body).await.1["code"], code, "{body}");
    }
    for (field, value) in [
        ("suffix", json!("end")),
        ("echo", json!(true)),
        ("best_of", json!(4)),
        ("prompt", json!([1, 2, 3])),
        ("prompt", json!("")),
        ("prompt", json!([])),
        ("logprobs", json!(50)),
    ] {
        let mut body = json!({ "prompt": "x" });
        body[field] = value;
        let (status, error) = server.refused(COMPLETIONS, &body).await;
        assert_eq!((status, &error["param"]), (400, &json!(field)), "{error}");
    }
}

#[tokio::test]
async fn what_changes_nothing_is_ignored() {
    let server = start(Scripted::default(), config()).await;
    let plain = server.chat(json!({ "messages": user("Same") })).await;
    let decorated = server
        .chat(json!({
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Same" }], "name": "me" }],
            "user": "me", "metadata": { "a": "b" }, "store": true, "service_tier": "auto",
            "parallel_tool_calls": true, "tools": [], "tool_choice": "none", "logit_bias": {},
            "response_format": { "type": "text" }, "modalities": ["text"], "audio": null,
            "safety_identifier": "x", "stream_options": null, "n": 1, "stop": null, "tandem": {},
            "frobnicate": null,
        }))
        .await;
    assert_eq!(content(&plain), content(&decorated));
    let body = json!({ "prompt": "x", "echo": false, "best_of": 1, "suffix": null });
    assert_eq!(server.post(COMPLETIONS, &body).await.status(), 200);
}

#[tokio::test]
async fn a_cloud_that_fails_follows_the_named_policy() {
    let server = start(Scripted { gone: 0..1000, ..Scripted::default() }, config()).await;
    let ask = |policy: &str| json!({ "messages": user("Ask"), "tandem": { "threshold": 1, "on_cloud_error": policy } });
    let kept = server.chat(ask("keep")).await;
    let stats = &kept["tandem"]["stats"];
    assert!(stats["fallbacks"].as_u64().unwrap() >= stats["tokens"].as_u64().unwrap());
    assert_eq!(kept["tandem"]["cloud_error"], "the cloud cannot be reached");
    let (status, error) = server.refused(CHAT, &ask("fail")).await;
    assert_eq!((status, &error["code"]), (503, &json!("cloud_failed")), "{error}");
    assert!(!error.to_string().contains("died"), "the network's own words stay inside: {error}");
    let body = json!({ "model": "tandem-large", "messages": user("Ask") });
    assert_eq!(server.refused(CHAT, &body).await.0, 503);
    // Lost half-way: the stream says so and ends.
    let server = start(Scripted { gone: 3..1000, ..Scripted::default() }, config()).await;
    let mut body = ask("fail");
    body["stream"] = json!(true);
    let events = server.stream(CHAT, &body).await;
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "cloud_failed", "{events:?}");
    assert!(events.len() > 3);
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_is_refused() {
    let server = start(Scripted::default(), config()).await;
    let (status, error) =
        server.refused(CHAT, &json!({ "messages": user(&"x".repeat(5000)) })).await;
    assert_eq!((status, &error["code"]), (400, &json!("context_length_exceeded")));
    // One that just fits ends where the context does.
    let body = json!({ "prompt": "x".repeat(scripted::CONTEXT - 5), "max_tokens": 500, "model": "tandem-small" });
    let answer: Value = server.post(COMPLETIONS, &body).await.json().await.unwrap();
    assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() <= 6, "{answer}");
}
