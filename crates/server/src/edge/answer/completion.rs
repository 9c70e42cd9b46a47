//! What a choice of `/v1/completions` looks like, whole or as a part of a stream.

use serde_json::{Value, json};

/// Some words, and why they are the last if they are.
pub fn choice(index: usize, words: &str, finish: Option<&str>) -> Value {
    json!({ "index": index, "text": words, "logprobs": null, "finish_reason": finish })
}
