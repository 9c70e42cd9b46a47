//! How likely tokens were, in the shape each route has for it.
//!
//! A token's own is its writer's. Those of others are the edge's: it alone tells what it held
//! likeliest. Where a cloud does not say, there is null.

use decode::{Accepted, Alternative};
use serde_json::{Map, Value, json};

/// A chat's.
pub fn chat(tokens: &[Accepted], top: usize) -> Value {
    let other =
        |a: &Alternative| json!({ "token": a.text, "logprob": a.logprob, "bytes": a.bytes });
    let told = |t: &Accepted| {
        let others: Vec<_> = t.alternatives.iter().take(top).map(other).collect();
        json!({
            "token": t.text,
            "logprob": t.logprob,
            "bytes": t.text.as_bytes(),
            "top_logprobs": others,
        })
    };
    json!({ "content": tokens.iter().map(told).collect::<Vec<_>>(), "refusal": null })
}

/// A completion's; its text begins at this offset.
pub fn completion(tokens: &[Accepted], top: usize, mut offset: usize) -> Value {
    let mut offsets = vec![];
    for token in tokens {
        offsets.push(offset);
        offset += token.text.chars().count();
    }
    let others = |t: &Accepted| {
        let told = t.alternatives.iter().take(top);
        told.map(|a| (a.text.clone(), json!(a.logprob))).collect::<Map<_, _>>()
    };
    json!({
        "tokens": tokens.iter().map(|t| t.text.as_str()).collect::<Vec<_>>(),
        "token_logprobs": tokens.iter().map(|t| t.logprob).collect::<Vec<_>>(),
        "top_logprobs": tokens.iter().map(others).collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}
