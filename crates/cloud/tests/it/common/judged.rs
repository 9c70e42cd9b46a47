//! What engines reply where a draft is judged: by several contexts in one request, or by
//! log-probabilities of the prompt.

use decode::{Token, sampling};
use serde_json::{Value, json};

use super::{Fake, ids};

impl Fake {
    /// `None` where the request is an ask like any other.
    pub(super) fn judged(&self, body: &Value) -> Option<Value> {
        if body["prompt"][0].is_array() {
            let prompts = body["prompt"].as_array()?.iter().enumerate();
            let answer = |(index, prompt): (usize, &Value)| {
                let one = json!({ "prompt": prompt, "n_predict": body["n_predict"] });
                let mut answer = self.answer(&one, None);
                answer["index"] = json!(index);
                answer
            };
            // Slots are done when they are done.
            let answers: Vec<_> = prompts.rev().map(answer).collect();
            return Some(match answers.as_slice() {
                [only] => only.clone(),
                _ => json!(answers),
            });
        }
        if body["prompt_logprobs"].is_u64() {
            let entries = self.entries(&ids(&body["prompt"]), 0).into_iter();
            let entry = |(id, given, greedy, best): (Token, f32, Token, f32)| {
                let mut entry = json!({});
                entry[id.0.to_string()] = json!({ "logprob": given, "rank": 2 });
                entry[greedy.0.to_string()] = json!({ "logprob": best, "rank": 1 });
                entry
            };
            let entries: Vec<_> = [Value::Null].into_iter().chain(entries.map(entry)).collect();
            return Some(json!({ "choices": [{ "prompt_logprobs": entries }] }));
        }
        if body["top_logprobs_num"].is_u64() {
            let from = body["logprob_start_len"].as_u64()? as usize;
            let (all, first) = (ids(&body["input_ids"]), json!([null, 0, null]));
            let entries = self.entries(&all, from);
            let given = entries.iter().map(|(id, given, ..)| json!([given, id, null]));
            let top = entries.iter().map(|(.., greedy, best)| json!([[best, greedy, null]]));
            let given: Vec<_> = [first].into_iter().chain(given).collect();
            let top: Vec<_> = [Value::Null].into_iter().chain(top).collect();
            return Some(json!({ "meta_info": {
                "input_token_logprobs": given, "input_top_logprobs": top,
            }}));
        }
        None
    }

    /// Each id behind the first `from` + 1, and the likeliest there, with their log-probabilities.
    fn entries(&self, all: &[Token], from: usize) -> Vec<(Token, f32, Token, f32)> {
        let model = self.model();
        let entry = |at: usize| {
            let logits = model.logits(&all[..at]);
            let greedy = sampling::argmax(&logits).unwrap();
            let logprob = |id| sampling::logprob(&logits, id);
            (all[at], logprob(all[at]), greedy, logprob(greedy))
        };
        (from + 1..all.len()).map(entry).collect()
    }
}
