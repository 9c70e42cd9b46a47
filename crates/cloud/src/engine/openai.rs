//! Any server with OpenAI's `/v1/completions`: text alone goes both ways.

use decode::Sampling;
use serde_json::{Value, json};

use super::{Completion, Dialect, Engine, Question, ReplyError, Request, count, string, usage};

#[derive(Clone, Debug)]
pub(crate) struct OpenAi {
    /// The name of the model, which this API cannot do without.
    pub model: String,
}

impl Dialect for OpenAi {
    fn engine(&self) -> Engine {
        Engine::OpenAi
    }

    fn has_ids(&self) -> bool {
        false
    }

    fn lacks(&self, sampling: &Sampling) -> Option<&'static str> {
        let Sampling { top_k, min_p, repetition_penalty, .. } = *sampling;
        let known = top_k == 0 && min_p == 0.0 && repetition_penalty == 1.0;
        let lacks = "does not know top-k, min-p and repetition-penalty: leave them out";
        (!known).then_some(lacks).or_else(|| super::counts(sampling))
    }

    fn ask(&self, question: &Question<'_>) -> Request {
        let s = question.sampling;
        // Only what the API itself defines: a strict server refuses anything else.
        let body = json!({
            "model": self.model,
            "prompt": question.context,
            "max_tokens": question.tokens,
            "temperature": s.temperature,
            "top_p": s.top_p,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "seed": question.seed,
            "stream": false,
        });
        Request::new("/v1/completions", body)
    }

    fn answer(&self, reply: &Value) -> Result<Completion, ReplyError> {
        let text = string(reply, "/choices/0/text").ok_or("no text in its first choice")?;
        let finish = string(reply, "/choices/0/finish_reason");
        let prompt = count(reply, "/usage/prompt_tokens");
        let cached = count(reply, "/usage/prompt_tokens_details/cached_tokens");
        let decoded = count(reply, "/usage/completion_tokens");
        Ok(Completion {
            ids: None,
            usage: usage(prompt, cached, decoded.unwrap_or(usize::from(!text.is_empty()))),
            text,
            end: finish.as_deref() == Some("stop"),
            ..Completion::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use decode::Usage;

    use super::*;

    #[test]
    fn an_answer_is_read() {
        let reply = json!({
            "choices": [{ "text": " Paris", "finish_reason": "length" }],
            "usage": {
                "prompt_tokens": 20, "completion_tokens": 2,
                "prompt_tokens_details": { "cached_tokens": 16 },
            },
        });
        let answer = OpenAi { model: "m".into() }.answer(&reply).unwrap();
        assert_eq!((answer.text.as_str(), answer.ids, answer.end), (" Paris", None, false));
        assert_eq!(
            answer.usage,
            Usage { prefilled: Some(4), cached: Some(16), decoded: 2, ..Usage::default() }
        );
    }

    #[test]
    fn what_is_not_said_is_not_known() {
        let reply = json!({ "choices": [{ "text": "", "finish_reason": "stop" }] });
        let answer = OpenAi { model: "m".into() }.answer(&reply).unwrap();
        assert_eq!((answer.usage.prefilled, answer.usage.cached, answer.end), (None, None, true));
        assert!(OpenAi { model: "m".into() }.answer(&json!({ "choices": [] })).is_err());
    }
}
