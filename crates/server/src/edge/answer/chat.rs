//! What a choice of `/v1/chat/completions` looks like.

use serde_json::{Value, json};

/// A whole one.
pub fn choice(index: usize, words: &str, finish: &str) -> Value {
    let message = json!({ "role": "assistant", "content": words, "refusal": null });
    json!({ "index": index, "message": message, "logprobs": null, "finish_reason": finish })
}

/// The first of a stream: who speaks.
pub fn opening(index: usize) -> Value {
    part(index, json!({ "role": "assistant", "content": "" }), None)
}

/// More words.
pub fn delta(index: usize, words: &str) -> Value {
    part(index, json!({ "content": words }), None)
}

/// The last of a stream.
pub fn end(index: usize, finish: &str) -> Value {
    part(index, json!({}), Some(finish))
}

fn part(index: usize, delta: Value, finish: Option<&str>) -> Value {
    json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish })
}
