//! Answers in Anthropic's shapes.

use decode::FinishReason;
use serde_json::{Value, json};

use super::super::{
    blocks::{Block, Blocks, Change, blocks},
    described,
    tell::Face,
};
use crate::{
    edge::{
        answer::calls::{Assembled, random_id},
        writer::Ending,
    },
    http::ApiError,
};

/// A whole answer.
pub fn message(model: &str, told: Assembled, ending: &Ending) -> Value {
    let calls = !told.calls.is_empty();
    let content: Vec<Value> = blocks(told).into_iter().map(block).collect();
    let mut message = frame(&random_id("msg_"), model);
    message["content"] = content.into();
    message["stop_reason"] = stop_reason(ending.reason, calls).into();
    message["usage"] = usage(ending);
    message["tandem"] = json!(ending.summary);
    message
}

fn frame(id: &str, model: &str) -> Value {
    json!({
        "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 0, "output_tokens": 0 },
    })
}

fn block(block: Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Call { start, arguments } => {
            // A call that was cut off has no whole arguments.
            let input: Value = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
            json!({ "type": "tool_use", "id": start.id, "name": start.name, "input": input })
        }
    }
}

fn stop_reason(reason: FinishReason, calls: bool) -> &'static str {
    match reason {
        FinishReason::Length => "max_tokens",
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error if calls => "tool_use",
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error => "end_turn",
    }
}

fn usage(ending: &Ending) -> Value {
    json!({
        "input_tokens": ending.prompt_tokens.saturating_sub(ending.cached_tokens),
        "cache_read_input_tokens": ending.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": ending.summary.summary.stats.tokens,
    })
}

/// An answer as events.
pub struct Streamed {
    id: String,
    model: &'static str,
    blocks: Blocks,
}

impl Streamed {
    pub fn new(model: &'static str) -> Self {
        Self { id: random_id("msg_"), model, blocks: Blocks::default() }
    }
}

/// What happens to a block. A call's arguments are the only JSON in pieces.
fn change((index, change): (usize, Change), in_call: &mut bool) -> Value {
    match change {
        Change::OpenText => {
            *in_call = false;
            let block = json!({ "type": "text", "text": "" });
            json!({ "type": "content_block_start", "index": index, "content_block": block })
        }
        Change::OpenCall(start) => {
            *in_call = true;
            let block =
                json!({ "type": "tool_use", "id": start.id, "name": start.name, "input": {} });
            json!({ "type": "content_block_start", "index": index, "content_block": block })
        }
        Change::More(more) => {
            let delta = match *in_call {
                true => json!({ "type": "input_json_delta", "partial_json": more }),
                false => json!({ "type": "text_delta", "text": more }),
            };
            json!({ "type": "content_block_delta", "index": index, "delta": delta })
        }
        Change::Close => json!({ "type": "content_block_stop", "index": index }),
    }
}

impl Face for Streamed {
    const EVENTS: bool = true;

    fn begin(&mut self) -> Vec<Value> {
        vec![json!({ "type": "message_start", "message": frame(&self.id, self.model) })]
    }

    fn more(&mut self, told: Assembled) -> Vec<Value> {
        let mut in_call = self.blocks.in_call();
        let changes = self.blocks.push(told).into_iter();
        changes.map(|c| change(c, &mut in_call)).collect()
    }

    fn end(&mut self, ending: &Ending, calls: bool) -> Vec<Value> {
        let mut in_call = self.blocks.in_call();
        let closed = self.blocks.finish().into_iter();
        let mut events: Vec<Value> = closed.map(|c| change(c, &mut in_call)).collect();
        let reason = stop_reason(ending.reason, calls);
        events.push(json!({
            "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": usage(ending), "tandem": ending.summary,
        }));
        events.push(json!({ "type": "message_stop" }));
        events
    }

    fn fail(&mut self, error: &ApiError) -> Vec<Value> {
        let (message, kind) = described(error);
        vec![json!({ "type": "error", "error": { "type": kind, "message": message } })]
    }
}
