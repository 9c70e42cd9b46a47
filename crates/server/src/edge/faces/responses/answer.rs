//! Answers in the shapes of the responses API.

use std::time::{SystemTime, UNIX_EPOCH};

use decode::FinishReason;
use serde_json::{Map, Value, json};

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

/// What the answer repeats of its request.
pub struct Asked(Map<String, Value>);

impl Asked {
    pub fn new(body: &Value) -> Self {
        let or = |name: &str, usual: Value| match &body[name] {
            Value::Null => usual,
            given => given.clone(),
        };
        let mut asked = Map::new();
        for (name, usual) in [
            ("instructions", Value::Null),
            ("max_output_tokens", Value::Null),
            ("metadata", json!({})),
            ("parallel_tool_calls", json!(true)),
            ("temperature", Value::Null),
            ("text", json!({ "format": { "type": "text" } })),
            ("tool_choice", json!("auto")),
            ("tools", json!([])),
            ("top_p", Value::Null),
        ] {
            asked.insert(name.into(), or(name, usual));
        }
        Self(asked)
    }
}

/// An answer, whole or as events.
pub struct Streamed {
    id: String,
    model: &'static str,
    created: u64,
    asked: Asked,
    blocks: Blocks,
    /// The item under way: its id, what it is and what it holds so far.
    item: Option<Item>,
    output: Vec<Value>,
    sequence: usize,
}

struct Item {
    id: String,
    /// The call's own id and its tool's name; a text has neither.
    call: Option<(String, String)>,
    content: String,
}

impl Item {
    fn told(&self, status: &str) -> Value {
        match &self.call {
            Some((call, name)) => json!({
                "type": "function_call", "id": self.id, "call_id": call, "name": name,
                "arguments": self.content, "status": status,
            }),
            None => {
                let content = match status {
                    "in_progress" => json!([]),
                    _ => json!([self.part()]),
                };
                json!({
                    "type": "message", "id": self.id, "role": "assistant", "content": content,
                    "status": status,
                })
            }
        }
    }

    fn part(&self) -> Value {
        json!({ "type": "output_text", "text": self.content, "annotations": [], "logprobs": [] })
    }
}

impl Streamed {
    pub fn new(model: &'static str, asked: Asked) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: random_id("resp_"),
            model,
            created: since.as_secs(),
            asked,
            blocks: Blocks::default(),
            item: None,
            output: vec![],
            sequence: 0,
        }
    }

    /// The whole answer at once.
    pub fn whole(&mut self, told: Assembled, ending: &Ending) -> Value {
        self.output = blocks(told).into_iter().map(|block| item(block).told("completed")).collect();
        self.response(Some(ending))
    }

    fn response(&self, ending: Option<&Ending>) -> Value {
        let cut = ending.is_some_and(|ending| ending.reason == FinishReason::Length);
        let status = match ending {
            None => "in_progress",
            Some(_) if cut => "incomplete",
            Some(_) => "completed",
        };
        let mut response = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status,
            "error": null, "incomplete_details": null, "model": self.model,
            "output": self.output, "previous_response_id": null,
            "reasoning": { "effort": null, "summary": null }, "store": false,
            "truncation": "disabled", "usage": null,
        });
        for (name, value) in &self.asked.0 {
            response[name] = value.clone();
        }
        if cut {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        if let Some(ending) = ending {
            let written = ending.summary.summary.stats.tokens;
            response["usage"] = json!({
                "input_tokens": ending.prompt_tokens,
                "input_tokens_details": { "cached_tokens": ending.cached_tokens },
                "output_tokens": written, "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": ending.prompt_tokens + written,
            });
            response["tandem"] = json!(ending.summary);
        }
        response
    }

    /// An event with its place in the stream.
    fn event(&mut self, kind: &str, fields: Value) -> Value {
        let mut event = json!({ "type": kind, "sequence_number": self.sequence });
        self.sequence += 1;
        if let Value::Object(fields) = fields {
            fields.into_iter().for_each(|(name, value)| event[name] = value);
        }
        event
    }

    fn change(&mut self, (index, change): (usize, Change), events: &mut Vec<Value>) {
        match change {
            Change::OpenText => {
                self.open(
                    index,
                    Item { id: random_id("msg_"), call: None, content: String::new() },
                    events,
                );
                if let Some(item) = &self.item {
                    let fields = json!({ "item_id": item.id, "output_index": index,
                        "content_index": 0, "part": item.part() });
                    events.push(self.event("response.content_part.added", fields));
                }
            }
            Change::OpenCall(start) => {
                let call = Some((start.id, start.name));
                self.open(
                    index,
                    Item { id: random_id("fc_"), call, content: String::new() },
                    events,
                );
            }
            Change::More(more) => {
                let Some(item) = &mut self.item else { return };
                item.content += &more;
                let mut fields =
                    json!({ "item_id": item.id, "output_index": index, "delta": more });
                let kind = match item.call {
                    Some(_) => "response.function_call_arguments.delta",
                    None => {
                        fields["content_index"] = json!(0);
                        fields["logprobs"] = json!([]);
                        "response.output_text.delta"
                    }
                };
                events.push(self.event(kind, fields));
            }
            Change::Close => self.close(index, events),
        }
    }

    fn open(&mut self, index: usize, item: Item, events: &mut Vec<Value>) {
        let fields = json!({ "output_index": index, "item": item.told("in_progress") });
        events.push(self.event("response.output_item.added", fields));
        self.item = Some(item);
    }

    fn close(&mut self, index: usize, events: &mut Vec<Value>) {
        let Some(item) = self.item.take() else { return };
        let place = json!({ "item_id": item.id, "output_index": index });
        let with = |more: Value| {
            let mut fields = place.clone();
            if let Value::Object(more) = more {
                more.into_iter().for_each(|(name, value)| fields[name] = value);
            }
            fields
        };
        match &item.call {
            Some((_, name)) => {
                let fields = with(json!({ "name": name, "arguments": item.content }));
                events.push(self.event("response.function_call_arguments.done", fields));
            }
            None => {
                let text =
                    with(json!({ "content_index": 0, "text": item.content, "logprobs": [] }));
                events.push(self.event("response.output_text.done", text));
                let part = with(json!({ "content_index": 0, "part": item.part() }));
                events.push(self.event("response.content_part.done", part));
            }
        }
        let told = item.told("completed");
        let fields = json!({ "output_index": index, "item": told });
        events.push(self.event("response.output_item.done", fields));
        self.output.push(told);
    }
}

fn item(block: Block) -> Item {
    match block {
        Block::Text(content) => Item { id: random_id("msg_"), call: None, content },
        Block::Call { start, arguments } => {
            let call = Some((start.id, start.name));
            Item { id: random_id("fc_"), call, content: arguments }
        }
    }
}

impl Face for Streamed {
    const EVENTS: bool = true;

    fn begin(&mut self) -> Vec<Value> {
        let response = self.response(None);
        let created = self.event("response.created", json!({ "response": response.clone() }));
        vec![created, self.event("response.in_progress", json!({ "response": response }))]
    }

    fn more(&mut self, told: Assembled) -> Vec<Value> {
        let mut events = vec![];
        for change in self.blocks.push(told) {
            self.change(change, &mut events);
        }
        events
    }

    fn end(&mut self, ending: &Ending, _: bool) -> Vec<Value> {
        let mut events = vec![];
        for change in self.blocks.finish() {
            self.change(change, &mut events);
        }
        let response = self.response(Some(ending));
        let kind = match ending.reason {
            FinishReason::Length => "response.incomplete",
            _ => "response.completed",
        };
        events.push(self.event(kind, json!({ "response": response })));
        events
    }

    fn fail(&mut self, error: &ApiError) -> Vec<Value> {
        let (message, kind) = described(error);
        vec![self.event("error", json!({ "code": kind, "message": message, "param": null }))]
    }
}
