//! What a choice looks like on each route.

use decode::{Accepted, Alternative};
use serde::Serialize;
use serde_json::json;

use super::{
    calls::{Assembled, CallPart},
    wire::{
        AnswerMessage, CalledFunction, CalledFunctionPart, ChatChoice, ChatChunkChoice,
        ChatLogprobs, Delta, FinishReason, MadeCall, MadeCallPart, TextChoice, TextLogprobs,
        TokenLogprob, TopLogprob,
    },
};
use crate::edge::summary::Summary;

/// Some tokens of one text.
#[derive(Debug)]
pub struct Part<'a> {
    pub index: usize,
    pub tokens: &'a [Accepted],
    /// How many alternatives each token tells, if log-probabilities are asked for.
    pub logprobs: Option<usize>,
    /// How many characters came before.
    pub offset: usize,
    /// What the tokens tell.
    pub told: Assembled,
}

/// The shapes of a route's answers.
pub trait Shape: Send + 'static {
    /// What ids of answers begin with.
    const ID: &'static str;
    const OBJECT: &'static str;
    const CHUNK_OBJECT: &'static str;
    type Choice: Serialize;
    type ChunkChoice: Serialize;

    fn choice(part: &Part<'_>, finish: FinishReason) -> Self::Choice;

    /// Has a text tell of itself, where it is one of several.
    fn describe(choice: &mut Self::Choice, summary: Summary);

    /// What opens a text in a stream, where the route has that.
    fn opening(index: usize) -> Option<Self::ChunkChoice>;

    fn more(part: &Part<'_>) -> Self::ChunkChoice;

    fn end(index: usize, finish: FinishReason) -> Self::ChunkChoice;
}

/// `/v1/chat/completions`
#[derive(Debug)]
pub struct Chat;

impl Shape for Chat {
    const ID: &'static str = "chatcmpl";
    const OBJECT: &'static str = "chat.completion";
    const CHUNK_OBJECT: &'static str = "chat.completion.chunk";
    type Choice = ChatChoice;
    type ChunkChoice = ChatChunkChoice;

    fn choice(part: &Part<'_>, finish_reason: FinishReason) -> ChatChoice {
        let calls: Vec<_> = part.told.calls.iter().filter_map(MadeCall::of).collect();
        ChatChoice {
            index: part.index,
            message: AnswerMessage {
                role: "assistant",
                content: Some(part.text()).filter(|text| !text.is_empty() || calls.is_empty()),
                tool_calls: calls,
                refusal: None,
            },
            logprobs: part.chat_logprobs(),
            finish_reason,
            tandem: None,
        }
    }

    fn describe(choice: &mut ChatChoice, summary: Summary) {
        choice.tandem = Some(summary);
    }

    fn opening(index: usize) -> Option<ChatChunkChoice> {
        let content = Some(String::new());
        let delta = Delta { role: Some("assistant"), content, tool_calls: vec![] };
        Some(ChatChunkChoice { index, delta, logprobs: None, finish_reason: None })
    }

    fn more(part: &Part<'_>) -> ChatChunkChoice {
        ChatChunkChoice {
            index: part.index,
            delta: Delta {
                role: None,
                content: Some(part.text()).filter(|t| !t.is_empty() || part.told.is_empty()),
                tool_calls: part.told.calls.iter().map(MadeCallPart::of).collect(),
            },
            logprobs: part.chat_logprobs(),
            finish_reason: None,
        }
    }

    fn end(index: usize, finish: FinishReason) -> ChatChunkChoice {
        let (delta, finish_reason) = (Delta::default(), Some(finish));
        ChatChunkChoice { index, delta, logprobs: None, finish_reason }
    }
}

/// `/v1/completions`
#[derive(Debug)]
pub struct Text;

impl Shape for Text {
    const ID: &'static str = "cmpl";
    const OBJECT: &'static str = "text_completion";
    const CHUNK_OBJECT: &'static str = "text_completion";
    type Choice = TextChoice;
    type ChunkChoice = TextChoice;

    fn choice(part: &Part<'_>, finish: FinishReason) -> TextChoice {
        TextChoice { finish_reason: Some(finish), ..Self::more(part) }
    }

    fn describe(choice: &mut TextChoice, summary: Summary) {
        choice.tandem = Some(summary);
    }

    fn opening(_: usize) -> Option<TextChoice> {
        None
    }

    fn more(part: &Part<'_>) -> TextChoice {
        TextChoice {
            index: part.index,
            text: part.text(),
            logprobs: part.text_logprobs(),
            finish_reason: None,
            tandem: None,
        }
    }

    fn end(index: usize, finish: FinishReason) -> TextChoice {
        let (text, finish_reason) = (String::new(), Some(finish));
        TextChoice { index, text, logprobs: None, finish_reason, tandem: None }
    }
}

impl MadeCall {
    fn of(part: &CallPart) -> Option<Self> {
        let start = part.start.as_ref()?;
        let (name, arguments) = (start.name.clone(), part.arguments.clone());
        let function = CalledFunction { name, arguments };
        Some(Self { id: start.id.clone(), kind: "function", function })
    }
}

impl MadeCallPart {
    fn of(part: &CallPart) -> Self {
        let start = part.start.as_ref();
        let name = start.map(|start| start.name.clone());
        Self {
            index: part.index,
            id: start.map(|start| start.id.clone()),
            kind: start.map(|_| "function"),
            function: CalledFunctionPart { name, arguments: part.arguments.clone() },
        }
    }
}

impl Part<'_> {
    fn text(&self) -> String {
        self.told.text.clone()
    }

    fn chat_logprobs(&self) -> Option<ChatLogprobs> {
        let top = self.logprobs?;
        let other = |a: &Alternative| TopLogprob {
            token: a.text.clone(),
            logprob: Some(a.logprob),
            bytes: a.bytes.clone(),
        };
        let entry = |t: &Accepted| TokenLogprob {
            token: TopLogprob {
                token: t.text.clone(),
                logprob: t.logprob,
                bytes: t.text.clone().into_bytes(),
            },
            top_logprobs: t.alternatives.iter().take(top).map(other).collect(),
        };
        Some(ChatLogprobs { content: self.tokens.iter().map(entry).collect(), refusal: None })
    }

    fn text_logprobs(&self) -> Option<TextLogprobs> {
        let top = self.logprobs?;
        let mut offset = self.offset;
        let begins = |t: &Accepted| {
            let begin = offset;
            offset += t.text.chars().count();
            begin
        };
        let others = |t: &Accepted| {
            let likeliest = t.alternatives.iter().take(top);
            likeliest.map(|a| (a.text.clone(), json!(a.logprob))).collect()
        };
        Some(TextLogprobs {
            text_offset: self.tokens.iter().map(begins).collect(),
            tokens: self.tokens.iter().map(|t| t.text.clone()).collect(),
            token_logprobs: self.tokens.iter().map(|t| t.logprob).collect(),
            top_logprobs: self.tokens.iter().map(others).collect(),
        })
    }
}
