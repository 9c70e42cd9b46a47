//! Answers in OpenAI's shapes, whole or in chunks.
//!
//! - [`chat`] and [`completion`]: what a choice looks like on each route
//! - [`stream`]: chunks as server-sent events
//! - [`logprobs`]: how likely tokens were

pub mod chat;
pub mod completion;
pub mod logprobs;
pub mod stream;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use decode::{Accepted, FinishReason};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    error::ApiError,
    request::{Delivery, GenerationRequest},
    writer::{Ending, Event},
};

/// Which route is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRoute {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completion,
}

/// An answer's frame: what all its chunks have in common.
#[derive(Debug)]
pub struct Answer {
    kind: AnswerRoute,
    id: String,
    created: u64,
    request: Arc<GenerationRequest>,
}

/// Tokens counted over all texts of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    prompt: usize,
    cached: usize,
    completion: usize,
}

impl Usage {
    fn add(&mut self, ending: &Ending) {
        self.prompt += ending.prompt_tokens;
        self.cached += ending.cached_tokens;
        self.completion += ending.summary.summary.stats.tokens;
    }

    fn value(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": { "cached_tokens": self.cached },
        })
    }
}

/// A whole text.
#[derive(Debug)]
struct Text {
    tokens: Vec<Accepted>,
    ending: Ending,
}

impl Answer {
    /// The frame of an answer to this request.
    pub fn new(kind: AnswerRoute, request: Arc<GenerationRequest>) -> Self {
        let name = match kind {
            AnswerRoute::Chat => "chatcmpl",
            AnswerRoute::Completion => "cmpl",
        };
        let random = || RandomState::new().hash_one(0u8);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = format!("{name}-{:016x}{:016x}", random(), random());
        Self { kind, id, created: since.as_secs(), request }
    }

    fn frame(&self, object: &str) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.request.model,
        })
    }

    fn chunk_frame(&self) -> Value {
        let mut chunk = self.frame(match self.kind {
            AnswerRoute::Chat => "chat.completion.chunk",
            AnswerRoute::Completion => "text_completion",
        });
        if self.request.telling == (Delivery::Stream { usage: true }) {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// Waits for every text and tells them at once.
    pub async fn whole(&self, mut events: mpsc::Receiver<Event>) -> Result<Value, ApiError> {
        let mut usage = Usage::default();
        let mut texts: Vec<Text> = vec![];
        let mut open: Vec<Accepted> = vec![];
        while let Some(event) = events.recv().await {
            match event {
                Event::Tokens { tokens, .. } => open.extend(tokens),
                Event::End { ending, .. } => {
                    usage.add(&ending);
                    texts.push(Text { tokens: std::mem::take(&mut open), ending: *ending });
                }
                Event::Failed(error) => return Err(error),
            }
        }
        if texts.len() < self.request.texts() {
            return Err(ApiError::stopping());
        }
        let mut answer = self.frame(match self.kind {
            AnswerRoute::Chat => "chat.completion",
            AnswerRoute::Completion => "text_completion",
        });
        let alone = texts.len() == 1;
        let choices: Vec<Value> = texts
            .into_iter()
            .enumerate()
            .map(|(i, text)| {
                let (mut choice, told) = self.choice(i, text);
                // Several texts have several accounts of themselves.
                if alone {
                    answer["tandem"] = told;
                } else {
                    choice["tandem"] = told;
                }
                choice
            })
            .collect();
        answer["choices"] = choices.into();
        answer["usage"] = usage.value();
        Ok(answer)
    }

    fn choice(&self, index: usize, text: Text) -> (Value, Value) {
        let Text { tokens, ending: Ending { reason, mut summary, .. } } = text;
        let words = joined(&tokens);
        let finish = finish_reason(reason);
        let mut choice = match self.kind {
            AnswerRoute::Chat => chat::choice(index, &words, finish),
            AnswerRoute::Completion => completion::choice(index, &words, Some(finish)),
        };
        choice["logprobs"] = self.logprobs(&tokens, 0);
        summary.trace = self.request.trace.then_some(tokens);
        (choice, json!(summary))
    }

    fn logprobs(&self, tokens: &[Accepted], offset: usize) -> Value {
        match (self.request.logprobs, self.kind) {
            (None, _) => Value::Null,
            (Some(top), AnswerRoute::Chat) => logprobs::chat(tokens, top),
            (Some(top), AnswerRoute::Completion) => logprobs::completion(tokens, top, offset),
        }
    }

    /// The chunk that opens a text, where the route has one.
    fn opening(&self, index: usize) -> Option<Value> {
        let mut chunk = self.chunk_frame();
        chunk["choices"] = json!([chat::opening(index)]);
        (self.kind == AnswerRoute::Chat).then_some(chunk)
    }

    /// A chunk with tokens; `None` where it would tell nothing. `offset` is where its text stands.
    fn chunk(&self, index: usize, tokens: Vec<Accepted>, offset: usize) -> Option<Value> {
        let words = joined(&tokens);
        if words.is_empty() && !self.request.trace && self.request.logprobs.is_none() {
            return None;
        }
        let mut chunk = self.chunk_frame();
        let mut choice = match self.kind {
            AnswerRoute::Chat => chat::delta(index, &words),
            AnswerRoute::Completion => completion::choice(index, &words, None),
        };
        choice["logprobs"] = self.logprobs(&tokens, offset);
        chunk["choices"] = json!([choice]);
        if self.request.trace {
            chunk["tandem"] = json!({ "tokens": tokens });
        }
        Some(chunk)
    }

    /// The chunk that ends a text.
    fn last(&self, index: usize, ending: &Ending) -> Value {
        let mut chunk = self.chunk_frame();
        let finish = finish_reason(ending.reason);
        let choice = match self.kind {
            AnswerRoute::Chat => chat::end(index, finish),
            AnswerRoute::Completion => completion::choice(index, "", Some(finish)),
        };
        chunk["choices"] = json!([choice]);
        chunk["tandem"] = json!(ending.summary);
        chunk
    }

    /// The chunk that counts.
    fn count(&self, usage: Usage) -> Value {
        let mut chunk = self.chunk_frame();
        chunk["choices"] = json!([]);
        chunk["usage"] = usage.value();
        chunk
    }
}

fn joined(tokens: &[Accepted]) -> String {
    tokens.iter().map(|t| t.text.as_str()).collect()
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Length => "length",
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error => "stop",
    }
}
