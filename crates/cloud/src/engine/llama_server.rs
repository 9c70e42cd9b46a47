//! llama.cpp's server: `/completion`, with the conversation pinned to a slot.

use decode::{Message, Times, Token, Usage};
use serde_json::{Value, json};

use super::{Completion, Dialect, Engine, Question, ReplyError, Request, count, ids, string, time};
use crate::protocol::Piece;

/// How many of the latest tokens a penalty looks at, as on the edge.
const PENALTY_WINDOW: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LlamaServer;

impl Dialect for LlamaServer {
    fn engine(&self) -> Engine {
        Engine::LlamaServer
    }

    fn ask(&self, question: &Question<'_>) -> Request {
        let mut body = super::sampling(question);
        body["prompt"] = json!(question.context);
        body["n_predict"] = json!(question.tokens);
        body["top_k"] = json!(question.sampling.top_k);
        body["typical_p"] = json!(1);
        body["repeat_penalty"] = json!(question.sampling.repetition_penalty);
        body["repeat_last_n"] = json!(PENALTY_WINDOW);
        body["seed"] = json!(question.seed);
        body["cache_prompt"] = json!(true);
        body["return_tokens"] = json!(true);
        body["n_probs"] = json!(1);
        if let Some(slot) = question.slot {
            body["id_slot"] = json!(slot);
        }
        Request::new("/completion", body)
    }

    fn answer(&self, reply: &Value) -> Result<Completion, ReplyError> {
        let mut tokens = ids(reply.get("tokens"))?;
        let decoded = tokens.len();
        let stop = string(reply, "/stop_type");
        let end = stop.as_deref() == Some("eos");
        if end {
            tokens.pop();
        }
        Ok(Completion {
            logprobs: logprobs(reply, &tokens),
            ids: Some(tokens),
            text: string(reply, "/content").ok_or("no content")?,
            end,
            full: reply.get("truncated") == Some(&json!(true)),
            usage: Usage {
                prefilled: count(reply, "/timings/prompt_n"),
                cached: count(reply, "/timings/cache_n"),
                decoded,
                ..Usage::default()
            },
            times: Times {
                cloud_prefill: time(reply, "/timings/prompt_ms", 1000.0),
                cloud_decode: time(reply, "/timings/predicted_ms", 1000.0),
                ..Times::default()
            },
            closing: None,
            slot: reply.get("id_slot").and_then(Value::as_i64).filter(|slot| *slot >= 0),
        })
    }

    fn tokenize(&self, text: &str, whole: bool) -> Option<Request> {
        // Its own template leaves out a beginning-of-text that its tokenizer adds.
        let body = json!({ "content": text, "add_special": whole, "parse_special": true });
        Some(Request::new("/tokenize", body))
    }

    fn detokenize(&self, ids: &[Token]) -> Option<Request> {
        Some(Request::new("/detokenize", json!({ "tokens": ids })))
    }

    fn text(&self, reply: &Value) -> Result<String, ReplyError> {
        string(reply, "/content").ok_or_else(|| "no content".into())
    }

    fn template(&self, messages: &[Message]) -> Option<Request> {
        Some(Request::new("/apply-template", json!({ "messages": messages })))
    }

    fn templated(&self, reply: &Value) -> Result<Piece, ReplyError> {
        let prompt = string(reply, "/prompt").ok_or("no prompt")?;
        Ok(Piece::Text(prompt))
    }
}

/// A token that ends inside a character has no entry, so entries are matched by their ids, in
/// order.
fn logprobs(reply: &Value, tokens: &[Token]) -> Vec<Option<f32>> {
    let entries = reply.get("completion_probabilities").and_then(Value::as_array);
    let mut entries = entries.into_iter().flatten().peekable();
    let mut logprob = |token: &Token| {
        let entry = entries.next_if(|e| e.get("id") == Some(&json!(token)))?;
        entry.get("logprob")?.as_f64().map(|p| p as f32)
    };
    tokens.iter().map(&mut logprob).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_is_read() {
        let reply = json!({
            "content": " is 🦀", "tokens": [314, 10813, 116, 218], "id_slot": 1, "stop_type": "limit",
            "truncated": false,
            "timings": { "cache_n": 16, "prompt_n": 2, "prompt_ms": 10.5, "predicted_ms": 43.5 },
            "completion_probabilities": [
                { "id": 314, "logprob": -0.5 }, { "id": 218, "logprob": -1.5 },
            ],
        });
        let answer = LlamaServer.answer(&reply).unwrap();
        assert_eq!(answer.ids, Some([314, 10813, 116, 218].map(Token).to_vec()));
        assert_eq!(answer.logprobs, [Some(-0.5), None, None, Some(-1.5)]);
        assert_eq!(
            answer.usage,
            Usage { prefilled: Some(2), cached: Some(16), decoded: 4, ..Usage::default() }
        );
        assert_eq!(answer.slot, Some(1));
        assert_eq!(answer.times.cloud_prefill, Duration::from_micros(10_500));
        assert!(!answer.end && !answer.full);
    }

    #[test]
    fn the_token_that_ends_the_text_is_not_part_of_it() {
        let reply = json!({ "content": "", "tokens": [2], "stop_type": "eos" });
        let answer = LlamaServer.answer(&reply).unwrap();
        assert!(answer.end && answer.ids == Some(vec![]) && answer.usage.decoded == 1);
        assert_eq!(answer.usage.cached, None);
    }

    #[test]
    fn a_reply_without_ids_is_no_answer() {
        assert!(LlamaServer.answer(&json!({ "content": "x" })).is_err());
        assert!(LlamaServer.answer(&json!({ "content": "x", "tokens": [-1] })).is_err());
    }
}
