//! vLLM: `/inference/v1/generate` where it is switched on, else `/v1/completions`; ids both ways on
//! either.

use decode::{Message, Token};
use serde_json::{Value, json};

use super::{
    Completion, Context, Dialect, Engine, Question, ReplyError, Request, count, ids, string, top_k,
    usage,
};
use crate::protocol::ScoredToken;

#[derive(Clone, Debug)]
pub(crate) struct Vllm {
    /// The name of the model; the server has a default.
    pub model: Option<String>,
    /// Whether the token route is switched on.
    pub generate: bool,
}

impl Vllm {
    pub const GENERATE: &str = "/inference/v1/generate";
    const COMPLETIONS: &str = "/v1/completions";

    fn request(&self, path: &'static str, mut body: Value) -> Request {
        if let Some(model) = &self.model {
            body["model"] = json!(model);
        }
        Request::new(path, body)
    }

    /// What the engine computes for, and puts into its cache.
    fn salted(&self, path: &'static str, mut body: Value, salt: Option<&str>) -> Request {
        if let Some(salt) = salt {
            body["cache_salt"] = json!(salt);
        }
        self.request(path, body)
    }
}

impl Dialect for Vllm {
    fn engine(&self) -> Engine {
        Engine::Vllm
    }

    fn takes_salt(&self) -> bool {
        true
    }

    fn ask(&self, question: &Question<'_>) -> Request {
        let mut sampling = super::sampling(question);
        sampling["max_tokens"] = json!(question.tokens);
        sampling["top_k"] = json!(top_k(question.sampling));
        sampling["repetition_penalty"] = json!(question.sampling.repetition_penalty);
        sampling["seed"] = json!(question.seed);
        sampling["logprobs"] = json!(1);
        if let (true, Context::Ids(ids)) = (self.generate, question.context) {
            let body =
                json!({ "token_ids": ids, "sampling_params": sampling, "output_mode": "text" });
            return self.salted(Self::GENERATE, body, question.salt);
        }
        sampling["prompt"] = json!(question.context);
        sampling["return_token_ids"] = json!(true);
        // The template has put every special token where it belongs.
        sampling["add_special_tokens"] = json!(false);
        self.salted(Self::COMPLETIONS, sampling, question.salt)
    }

    fn answer(&self, reply: &Value) -> Result<Completion, ReplyError> {
        let choice = reply.pointer("/choices/0").ok_or("no choice")?;
        let mut tokens = ids(choice.get("token_ids"))?;
        let decoded = tokens.len();
        // Only end-of-text stops it: no other stop is ever asked for.
        let end = string(choice, "/finish_reason").as_deref() == Some("stop");
        if end {
            tokens.pop();
        }
        let prompt = count(reply, "/usage/prompt_tokens");
        let cached = count(reply, "/usage/prompt_tokens_details/cached_tokens");
        Ok(Completion {
            logprobs: (0..tokens.len()).map(|i| logprob(choice, i)).collect(),
            ids: Some(tokens),
            text: string(choice, "/text").unwrap_or_default(),
            end,
            usage: usage(prompt, cached, decoded),
            ..Completion::default()
        })
    }

    fn tokenize(&self, text: &str, _: bool) -> Option<Request> {
        let body = json!({ "prompt": text, "add_special_tokens": false });
        Some(self.request("/tokenize", body))
    }

    fn detokenize(&self, ids: &[Token]) -> Option<Request> {
        Some(self.request("/detokenize", json!({ "tokens": ids })))
    }

    fn text(&self, reply: &Value) -> Result<String, ReplyError> {
        string(reply, "/prompt").ok_or_else(|| "no prompt".into())
    }

    fn template(&self, messages: &[Message]) -> Option<Request> {
        let body = json!({ "messages": messages, "add_generation_prompt": true });
        Some(self.request("/tokenize", body))
    }

    fn score(&self, ids: &[Token], _: usize, salt: Option<&str>) -> Option<Request> {
        let body = json!({
            "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1,
            "return_token_ids": true,
        });
        Some(self.salted(Self::COMPLETIONS, body, salt))
    }

    fn scores(
        &self,
        reply: &Value,
        ids: &[Token],
        from: usize,
    ) -> Result<Vec<ScoredToken>, ReplyError> {
        let entries = reply.pointer("/choices/0/prompt_logprobs").and_then(Value::as_array);
        let entries = entries.ok_or("no log-probabilities of the prompt")?;
        if entries.len() != ids.len() {
            return Err(format!("{} log-probabilities for {} ids", entries.len(), ids.len()));
        }
        entries.iter().zip(ids).skip(from).map(|(entry, &id)| judged(entry, id)).collect()
    }
}

/// The two routes give log-probabilities in shapes of their own.
fn logprob(choice: &Value, i: usize) -> Option<f32> {
    let paths = [format!("/logprobs/content/{i}/logprob"), format!("/logprobs/token_logprobs/{i}")];
    let found = paths.iter().find_map(|path| choice.pointer(path)?.as_f64());
    found.map(|p| p as f32)
}

/// One position: the given token, and the likeliest where that is another.
fn judged(entry: &Value, id: Token) -> Result<ScoredToken, ReplyError> {
    let entries = entry.as_object().ok_or("a position without log-probabilities")?;
    let logprob = |value: &Value| value.get("logprob").and_then(Value::as_f64).map(|p| p as f32);
    let given = entries.get(&id.0.to_string()).and_then(logprob);
    let greedy = entries.iter().find(|(_, e)| e.get("rank") == Some(&json!(1)));
    let greedy = greedy.and_then(|(key, e)| Some((Token(key.parse().ok()?), logprob(e)?)));
    match (given, greedy) {
        (Some(logprob), Some(greedy)) => Ok(ScoredToken::of_ids((id, logprob), greedy)),
        _ => Err(format!("token {} was not judged", id.0)),
    }
}

#[cfg(test)]
mod tests {
    use decode::Usage;

    use super::*;

    const VLLM: Vllm = Vllm { model: None, generate: true };

    #[test]
    fn both_routes_are_read() {
        let usage = json!({
            "prompt_tokens": 150, "prompt_tokens_details": { "cached_tokens": 128 },
        });
        let generate = json!({ "usage": usage, "choices": [{
            "finish_reason": "stop", "text": " of", "token_ids": [282, 2],
            "logprobs": { "content": [{ "logprob": -0.5 }, { "logprob": -0.25 }] },
        }]});
        let answer = VLLM.answer(&generate).unwrap();
        assert_eq!((answer.ids, answer.end), (Some(vec![Token(282)]), true));
        assert_eq!(
            answer.usage,
            Usage { prefilled: Some(22), cached: Some(128), decoded: 2, ..Usage::default() }
        );
        assert_eq!(answer.logprobs, [Some(-0.5)]);
        let completions = json!({ "choices": [{
            "finish_reason": "length", "text": "x", "token_ids": [5],
            "logprobs": { "token_logprobs": [-0.5] },
        }]});
        let answer = VLLM.answer(&completions).unwrap();
        assert_eq!((answer.logprobs, answer.usage.cached), (vec![Some(-0.5)], None));
    }

    #[test]
    fn text_goes_where_text_is_taken() {
        let sampling = Default::default();
        let ask = |context| {
            let question = Question {
                context,
                tokens: 3,
                sampling: &sampling,
                seed: 1,
                slot: None,
                stream: None,
                salt: Some("pepper"),
            };
            VLLM.ask(&question)
        };
        let request = ask(Context::Ids(&[Token(1)]));
        assert_eq!(request.path, Vllm::GENERATE);
        assert_eq!(request.body["cache_salt"], json!("pepper"));
        let request = ask(Context::Text("hi"));
        assert_eq!(request.path, Vllm::COMPLETIONS);
        assert_eq!(request.body["prompt"], json!("hi"));
        assert_eq!(request.body["cache_salt"], json!("pepper"));
        assert_eq!(request.body["top_k"], json!(-1));
    }

    #[test]
    fn scores_name_the_likeliest() {
        let reply = json!({ "choices": [{ "prompt_logprobs": [
            null,
            { "7": { "logprob": -3.0, "rank": 9 }, "8": { "logprob": -0.5, "rank": 1 } },
            { "9": { "logprob": -0.1, "rank": 1 } },
        ]}]});
        let ids = [1, 7, 9].map(Token);
        let scores = VLLM.scores(&reply, &ids, 1).unwrap();
        assert_eq!((scores[0].given.logprob, scores[0].greedy.id), (Some(-3.0), Some(Token(8))));
        assert_eq!(scores[1].greedy.id, Some(Token(9)));
        assert!(VLLM.scores(&reply, &ids[..2], 1).is_err());
    }
}
