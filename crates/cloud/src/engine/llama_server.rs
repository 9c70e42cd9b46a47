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
        let closing = if end { tokens.pop() } else { None };
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
            closing,
            slot: reply.get("id_slot").and_then(Value::as_i64).filter(|slot| *slot >= 0),
        })
    }

    /// Each context goes to a slot of its own, as long as there are any.
    fn ask_each(&self, question: &Question<'_>, contexts: &[&[Token]]) -> Option<Request> {
        let mut request = self.ask(&Question { slot: None, ..*question });
        request.body["prompt"] = json!(contexts);
        Some(request)
    }

    /// A list in any order, or where there was one context, its answer.
    fn answers(&self, reply: &Value) -> Result<Vec<Completion>, ReplyError> {
        let Some(replies) = reply.as_array() else {
            return self.answer(reply).map(|one| vec![one]);
        };
        let mut answers = vec![];
        for reply in replies {
            let index = count(reply, "/index").ok_or("an answer that does not say to what")?;
            answers.push((index, self.answer(reply)?));
        }
        answers.sort_by_key(|(index, _)| *index);
        if answers.iter().enumerate().any(|(place, (index, _))| place != *index) {
            return Err("answers that belong to no context, or to the same".into());
        }
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
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
    use crate::engine::Context;

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
    fn several_contexts_go_in_one_request_and_their_answers_come_in_any_order() {
        let sampling = Default::default();
        let (first, second) = ([1, 2].map(Token), [1, 2, 3].map(Token));
        let context = Context::Ids(&first);
        let question = Question {
            context,
            tokens: 1,
            sampling: &sampling,
            seed: 0,
            slot: Some(3),
            stream: None,
            salt: None,
        };
        let request = LlamaServer.ask_each(&question, &[&first, &second]).unwrap();
        assert_eq!(request.body["prompt"], json!([[1, 2], [1, 2, 3]]));
        assert_eq!(request.body["n_predict"], json!(1));
        // One slot would answer them one after the other.
        assert_eq!(request.body.get("id_slot"), None);
        let answer = |index: usize, id: u32, stop: &str| json!({ "index": index, "content": "", "tokens": [id], "stop_type": stop });
        let reply = json!([answer(1, 2, "eos"), answer(0, 7, "limit")]);
        let answers = LlamaServer.answers(&reply).unwrap();
        assert_eq!((answers[0].ids.clone(), answers[0].closing), (Some(vec![Token(7)]), None));
        assert_eq!((answers[1].ids.clone(), answers[1].closing), (Some(vec![]), Some(Token(2))));
        // One alone is no list.
        assert_eq!(LlamaServer.answers(&answer(0, 7, "limit")).unwrap().len(), 1);
        for reply in [
            json!([answer(0, 7, "limit"), answer(0, 8, "limit")]),
            json!([answer(1, 7, "limit")]),
            json!([{ "content": "", "tokens": [7] }]),
        ] {
            assert!(LlamaServer.answers(&reply).is_err(), "{reply}");
        }
    }

    #[test]
    fn a_reply_without_ids_is_no_answer() {
        assert!(LlamaServer.answer(&json!({ "content": "x" })).is_err());
        assert!(LlamaServer.answer(&json!({ "content": "x", "tokens": [-1] })).is_err());
    }
}
