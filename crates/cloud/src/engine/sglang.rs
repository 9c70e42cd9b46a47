//! SGLang: `/generate`, ids both ways, its radix cache serving every shared beginning.

use decode::{Message, Times, Token};
use serde_json::{Value, json};

use super::{
    Completion, Context, Dialect, Engine, Question, ReplyError, Request, count, id, ids, string,
    time, top_k, usage,
};
use crate::protocol::ScoredToken;

/// How long a session may lie idle before the server forgets it, in seconds.
const SESSION_TIMEOUT: u32 = 600;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sglang {
    /// Whether it keeps sessions that are sent only what is new.
    pub streaming: bool,
}

/// What the engine computes for, and puts into its cache. Newer versions have a name of their own for
/// the salt, older ones read only the other and ignore what they do not know.
fn generate(mut body: Value, salt: Option<&str>) -> Request {
    if let Some(salt) = salt {
        body["extra_key"] = json!(salt);
        body["cache_salt"] = json!(salt);
    }
    Request::new("/generate", body)
}

impl Dialect for Sglang {
    fn engine(&self) -> Engine {
        Engine::Sglang
    }

    fn takes_salt(&self) -> bool {
        true
    }

    fn ask(&self, question: &Question<'_>) -> Request {
        let mut sampling = super::sampling(question);
        sampling["max_new_tokens"] = json!(question.tokens);
        sampling["top_k"] = json!(top_k(question.sampling));
        sampling["repetition_penalty"] = json!(question.sampling.repetition_penalty);
        sampling["sampling_seed"] = json!(question.seed);
        let mut body = json!({
            "sampling_params": sampling,
            "return_logprob": true,
            // Log-probabilities of the prompt would keep its cache from being used.
            "logprob_start_len": -1,
        });
        let name = match question.context {
            Context::Ids(_) => "input_ids",
            Context::Text(_) => "text",
        };
        body[name] = json!(question.context);
        if let Some(stream) = question.stream {
            body["session_params"] = json!({ "id": stream });
        }
        generate(body, question.salt)
    }

    fn answer(&self, reply: &Value) -> Result<Completion, ReplyError> {
        let mut tokens = ids(reply.get("output_ids"))?;
        let decoded = tokens.len();
        // Only end-of-text stops it: no other stop is ever asked for.
        let end = string(reply, "/meta_info/finish_reason/type").as_deref() == Some("stop");
        let closing = if end { tokens.pop() } else { None };
        let prompt = count(reply, "/meta_info/prompt_tokens");
        let cached = count(reply, "/meta_info/cached_tokens");
        let logprob = |i| {
            let path = format!("/meta_info/output_token_logprobs/{i}/0");
            reply.pointer(&path)?.as_f64().map(|p| p as f32)
        };
        Ok(Completion {
            logprobs: (0..tokens.len()).map(logprob).collect(),
            ids: Some(tokens),
            text: string(reply, "/text").unwrap_or_default(),
            end,
            usage: usage(prompt, cached, decoded),
            // It tells only how long everything took.
            times: Times {
                cloud_decode: time(reply, "/meta_info/e2e_latency", 1.0),
                ..Times::default()
            },
            closing,
            ..Completion::default()
        })
    }

    fn tokenize(&self, text: &str, _: bool) -> Option<Request> {
        let body = json!({ "prompt": text, "add_special_tokens": false });
        Some(Request::new("/tokenize", body))
    }

    fn detokenize(&self, ids: &[Token]) -> Option<Request> {
        let body = json!({ "tokens": ids, "skip_special_tokens": false });
        Some(Request::new("/detokenize", body))
    }

    fn text(&self, reply: &Value) -> Result<String, ReplyError> {
        string(reply, "/text").ok_or_else(|| "no text".into())
    }

    fn template(&self, messages: &[Message]) -> Option<Request> {
        let body = json!({ "messages": messages, "add_generation_prompt": true });
        Some(Request::new("/tokenize", body))
    }

    fn open_stream(&self) -> Option<Request> {
        let body =
            json!({ "capacity_of_str_len": 0, "streaming": true, "timeout": SESSION_TIMEOUT });
        self.streaming.then(|| Request::new("/open_session", body))
    }

    fn close_stream(&self, id: &str) -> Option<Request> {
        Some(Request::new("/close_session", json!({ "session_id": id })))
    }

    fn score(&self, ids: &[Token], from: usize, salt: Option<&str>) -> Option<Request> {
        let body = json!({
            "input_ids": ids,
            "sampling_params": { "max_new_tokens": 0, "temperature": 0 },
            "return_logprob": true,
            "logprob_start_len": from.saturating_sub(1),
            "top_logprobs_num": 1,
        });
        Some(generate(body, salt))
    }

    /// What was judged stays in its cache.
    fn judges_asks(&self) -> bool {
        true
    }

    fn scores(
        &self,
        reply: &Value,
        ids: &[Token],
        from: usize,
    ) -> Result<Vec<ScoredToken>, ReplyError> {
        let list = |name: &str| {
            let found = reply.pointer(&format!("/meta_info/{name}")).and_then(Value::as_array);
            found.cloned().ok_or_else(|| format!("no {name}"))
        };
        let (given, top) = (list("input_token_logprobs")?, list("input_top_logprobs")?);
        if given.len() != top.len() {
            return Err("log-probabilities without their likeliest tokens".into());
        }
        let judged = ids.get(from..).unwrap_or_default();
        // Lists begin with the token that `logprob_start_len` names, which nothing predicts.
        let skip = given.len().checked_sub(judged.len()).ok_or("too few log-probabilities")?;
        let pairs = given.iter().zip(&top).skip(skip);
        let scored = pairs.zip(judged).map(|((given, top), &expected)| {
            let given = pair(given)?;
            let greedy = pair(top.get(0).ok_or("no likeliest token")?)?;
            if given.0 != expected {
                return Err(format!("token {} was judged instead of {}", given.0.0, expected.0));
            }
            Ok(ScoredToken::of_ids(given, greedy))
        });
        scored.collect()
    }
}

/// `[logprob, id, text]`.
fn pair(value: &Value) -> Result<(Token, f32), ReplyError> {
    let logprob = value.get(0).and_then(Value::as_f64).ok_or("no log-probability")?;
    Ok((id(value.get(1).unwrap_or(&Value::Null))?, logprob as f32))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use decode::Usage;

    use super::*;

    const SGLANG: Sglang = Sglang { streaming: true };

    #[test]
    fn an_answer_is_read() {
        let reply = json!({
            "text": " Paris.", "output_ids": [7042, 30, 2],
            "meta_info": {
                "finish_reason": { "type": "stop", "matched": 2 }, "prompt_tokens": 21,
                "cached_tokens": 18, "e2e_latency": 0.25,
                "output_token_logprobs": [[-0.5, 7042, null], [-0.1, 30, null], [-0.2, 2, null]],
            },
        });
        let answer = SGLANG.answer(&reply).unwrap();
        assert_eq!(answer.ids, Some(vec![Token(7042), Token(30)]));
        assert!(answer.end);
        assert_eq!(
            answer.usage,
            Usage { prefilled: Some(3), cached: Some(18), decoded: 3, ..Usage::default() }
        );
        assert_eq!(answer.logprobs, [Some(-0.5), Some(-0.1)]);
        assert_eq!(answer.times.cloud_decode, Duration::from_millis(250));
    }

    #[test]
    fn scores_belong_to_the_tokens_behind_the_context() {
        let reply = json!({ "meta_info": {
            "input_token_logprobs": [[null, 198, null], [-0.5, 504, null], [-9.0, 14937, null]],
            "input_top_logprobs": [null, [[-0.5, 504, null]], [[-0.1, 282, null]]],
        }});
        let ids = [1, 198, 504, 14937].map(Token);
        let scores = SGLANG.scores(&reply, &ids, 2).unwrap();
        let given_and_greedy = |i: usize| (scores[i].given.id, scores[i].greedy.id);
        assert_eq!(given_and_greedy(0), (Some(Token(504)), Some(Token(504))));
        assert_eq!(given_and_greedy(1), (Some(Token(14937)), Some(Token(282))));
        assert_eq!(scores[1].given.logprob, Some(-9.0));
        assert!(SGLANG.scores(&reply, &[1, 198, 504, 7].map(Token), 2).is_err());
    }
}
