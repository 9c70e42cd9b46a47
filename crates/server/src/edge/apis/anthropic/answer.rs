//! Answers in Anthropic's shapes.

use decode::FinishReason;
use serde_json::{Value, json};

use super::{
    super::{
        blocks::{Block, Blocks, Change, blocks},
        tell::ApiShape,
    },
    wire::{
        AnswerBlock, BlockDelta, MessagesAnswer, MessagesEnd, MessagesEvent, MessagesUsage,
        StopReason,
    },
};
use crate::{
    edge::{answer::calls::Assembled, writer::Ending},
    http::ApiError,
    random::random_id,
};

fn block(block: Block) -> AnswerBlock {
    match block {
        Block::Text(text) => AnswerBlock::Text { text },
        Block::Call { start, arguments } => {
            // A call that was cut off has no whole arguments.
            let input: Value = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
            AnswerBlock::ToolUse { id: start.id, name: start.name, input }
        }
    }
}

fn end(ending: &Ending, calls: bool) -> MessagesEnd {
    let reason = match ending.reason {
        FinishReason::Length => StopReason::MaxTokens,
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error if calls => {
            StopReason::ToolUse
        }
        FinishReason::Stop if ending.stop.is_some() => StopReason::StopSequence,
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error => StopReason::EndTurn,
    };
    let stop_sequence = ending.stop.clone().filter(|_| reason == StopReason::StopSequence);
    MessagesEnd { stop_reason: Some(reason), stop_sequence }
}

fn usage(ending: &Ending) -> MessagesUsage {
    MessagesUsage {
        input_tokens: ending.prompt_tokens.saturating_sub(ending.cached_tokens),
        cache_read_input_tokens: ending.cached_tokens,
        cache_creation_input_tokens: 0,
        output_tokens: ending.summary.summary.stats.tokens,
    }
}

/// An answer as events.
pub struct Streamed {
    id: String,
    model: String,
    blocks: Blocks,
}

impl Streamed {
    pub fn new(model: String) -> Self {
        Self { id: random_id("msg_"), model, blocks: Blocks::default() }
    }

    /// An answer with nothing in it yet.
    fn frame(&self) -> MessagesAnswer {
        MessagesAnswer {
            id: self.id.clone(),
            kind: "message",
            role: "assistant",
            model: self.model.clone(),
            content: vec![],
            end: MessagesEnd::default(),
            usage: MessagesUsage::default(),
            tandem: None,
        }
    }
}

/// What happens to a block. A call's arguments are the only JSON in pieces.
fn change((index, change): (usize, Change), in_call: &mut bool) -> MessagesEvent {
    match change {
        Change::OpenText => {
            *in_call = false;
            let content_block = AnswerBlock::Text { text: String::new() };
            MessagesEvent::ContentBlockStart { index, content_block }
        }
        Change::OpenCall(start) => {
            *in_call = true;
            let (id, name, input) = (start.id, start.name, json!({}));
            let content_block = AnswerBlock::ToolUse { id, name, input };
            MessagesEvent::ContentBlockStart { index, content_block }
        }
        Change::More(more) => {
            let delta = match *in_call {
                true => BlockDelta::InputJsonDelta { partial_json: more },
                false => BlockDelta::TextDelta { text: more },
            };
            MessagesEvent::ContentBlockDelta { index, delta }
        }
        Change::Close => MessagesEvent::ContentBlockStop { index },
    }
}

impl ApiShape for Streamed {
    const EVENTS: bool = true;
    type Line = MessagesEvent;
    type Answer = MessagesAnswer;

    fn whole(&mut self, told: Assembled, ending: &Ending) -> MessagesAnswer {
        let calls = !told.calls.is_empty();
        MessagesAnswer {
            content: blocks(told).into_iter().map(block).collect(),
            end: end(ending, calls),
            usage: usage(ending),
            tandem: Some(ending.summary.clone()),
            ..self.frame()
        }
    }

    fn begin(&mut self) -> Vec<MessagesEvent> {
        let message = Box::new(self.frame());
        vec![MessagesEvent::MessageStart { message }]
    }

    fn more(&mut self, told: Assembled) -> Vec<MessagesEvent> {
        let mut in_call = self.blocks.in_call();
        let changes = self.blocks.push(told).into_iter();
        changes.map(|c| change(c, &mut in_call)).collect()
    }

    fn end(&mut self, ending: &Ending, calls: bool) -> Vec<MessagesEvent> {
        let mut in_call = self.blocks.in_call();
        let closed = self.blocks.finish().into_iter();
        let mut events: Vec<_> = closed.map(|c| change(c, &mut in_call)).collect();
        events.push(MessagesEvent::MessageDelta {
            delta: end(ending, calls),
            usage: usage(ending),
            tandem: Box::new(ending.summary.clone()),
        });
        events.push(MessagesEvent::MessageStop);
        events
    }

    fn fail(&mut self, error: &ApiError) -> Vec<MessagesEvent> {
        vec![MessagesEvent::Error { error: error.into() }]
    }
}
