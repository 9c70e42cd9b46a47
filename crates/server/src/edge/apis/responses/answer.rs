//! Answers in the shapes of the responses API.

use decode::FinishReason;
use serde_json::{Value, json};

use super::{
    super::{
        blocks::{Block, Blocks, Change, blocks},
        tell::ApiShape,
    },
    wire::{
        Asked, IncompleteDetails, InputTokensDetails, OutputItem, OutputText, OutputTokensDetails,
        Reasoning, ResponsesAnswer, ResponsesEvent, ResponsesUsage, Status,
    },
};
use crate::{
    clock::since_1970,
    edge::{answer::calls::Assembled, writer::Ending},
    http::ApiError,
    random::random_id,
};

impl Asked {
    pub fn new(body: &Value) -> Self {
        let or = |name: &str, usual: Value| match &body[name] {
            Value::Null => usual,
            given => given.clone(),
        };
        Self {
            instructions: or("instructions", Value::Null),
            max_output_tokens: or("max_output_tokens", Value::Null),
            metadata: or("metadata", json!({})),
            parallel_tool_calls: or("parallel_tool_calls", json!(true)),
            temperature: or("temperature", Value::Null),
            text: or("text", json!({ "format": { "type": "text" } })),
            tool_choice: or("tool_choice", json!("auto")),
            tools: or("tools", json!([])),
            top_p: or("top_p", Value::Null),
        }
    }
}

/// An answer, whole or as events.
pub struct Streamed {
    id: String,
    model: String,
    created: u64,
    asked: Asked,
    blocks: Blocks,
    /// The item under way.
    item: Option<Item>,
    output: Vec<OutputItem>,
    sequence: usize,
}

/// An item of an answer: its id, what it is and what it holds so far.
struct Item {
    id: String,
    /// The call's own id and its tool's name; a text has neither.
    call: Option<(String, String)>,
    content: String,
}

impl Item {
    fn text(content: String) -> Self {
        Self { id: random_id("msg_"), call: None, content }
    }

    fn call(id: String, name: String, arguments: String) -> Self {
        Self { id: random_id("fc_"), call: Some((id, name)), content: arguments }
    }

    fn told(&self, status: Status) -> OutputItem {
        let id = self.id.clone();
        match &self.call {
            Some((call, name)) => OutputItem::FunctionCall {
                id,
                call_id: call.clone(),
                name: name.clone(),
                arguments: self.content.clone(),
                status,
            },
            None => {
                let whole = status != Status::InProgress;
                let content = whole.then(|| self.part()).into_iter().collect();
                OutputItem::Message { id, role: "assistant", content, status }
            }
        }
    }

    fn part(&self) -> OutputText {
        let text = self.content.clone();
        OutputText { kind: "output_text", text, annotations: vec![], logprobs: vec![] }
    }
}

impl From<Block> for Item {
    fn from(block: Block) -> Self {
        match block {
            Block::Text(text) => Self::text(text),
            Block::Call { start, arguments } => Self::call(start.id, start.name, arguments),
        }
    }
}

impl Streamed {
    pub fn new(model: String, asked: Asked) -> Self {
        Self {
            id: random_id("resp_"),
            model,
            created: since_1970().as_secs(),
            asked,
            blocks: Blocks::default(),
            item: None,
            output: vec![],
            sequence: 0,
        }
    }

    fn response(&self, ending: Option<&Ending>) -> ResponsesAnswer {
        let cut = ending.is_some_and(|ending| ending.reason == FinishReason::Length);
        ResponsesAnswer {
            id: self.id.clone(),
            object: "response",
            created_at: self.created,
            status: match ending {
                None => Status::InProgress,
                Some(_) if cut => Status::Incomplete,
                Some(_) => Status::Completed,
            },
            error: None,
            incomplete_details: cut.then_some(IncompleteDetails { reason: "max_output_tokens" }),
            model: self.model.clone(),
            output: self.output.clone(),
            previous_response_id: None,
            reasoning: Reasoning::default(),
            store: false,
            truncation: "disabled",
            usage: ending.map(usage),
            asked: self.asked.clone(),
            tandem: ending.map(|ending| ending.summary.clone()),
        }
    }

    /// The number of the next event.
    fn number(&mut self) -> usize {
        self.sequence += 1;
        self.sequence - 1
    }

    fn change(&mut self, (index, change): (usize, Change), events: &mut Vec<ResponsesEvent>) {
        match change {
            Change::OpenText => {
                let item = Item::text(String::new());
                let (item_id, part) = (item.id.clone(), item.part());
                self.open(index, item, events);
                events.push(ResponsesEvent::PartAdded {
                    sequence_number: self.number(),
                    item_id,
                    output_index: index,
                    content_index: 0,
                    part,
                });
            }
            Change::OpenCall(start) => {
                self.open(index, Item::call(start.id, start.name, String::new()), events);
            }
            Change::More(delta) => {
                let sequence_number = self.number();
                let Some(item) = &mut self.item else { return };
                item.content += &delta;
                let item_id = item.id.clone();
                events.push(match item.call {
                    Some(_) => ResponsesEvent::ArgumentsDelta {
                        sequence_number,
                        item_id,
                        output_index: index,
                        delta,
                    },
                    None => ResponsesEvent::TextDelta {
                        sequence_number,
                        item_id,
                        output_index: index,
                        content_index: 0,
                        delta,
                        logprobs: vec![],
                    },
                });
            }
            Change::Close => self.close(index, events),
        }
    }

    fn open(&mut self, index: usize, item: Item, events: &mut Vec<ResponsesEvent>) {
        events.push(ResponsesEvent::ItemAdded {
            sequence_number: self.number(),
            output_index: index,
            item: item.told(Status::InProgress),
        });
        self.item = Some(item);
    }

    fn close(&mut self, index: usize, events: &mut Vec<ResponsesEvent>) {
        let Some(item) = self.item.take() else { return };
        match &item.call {
            Some((_, name)) => events.push(ResponsesEvent::ArgumentsDone {
                sequence_number: self.number(),
                item_id: item.id.clone(),
                output_index: index,
                name: name.clone(),
                arguments: item.content.clone(),
            }),
            None => {
                events.push(ResponsesEvent::TextDone {
                    sequence_number: self.number(),
                    item_id: item.id.clone(),
                    output_index: index,
                    content_index: 0,
                    text: item.content.clone(),
                    logprobs: vec![],
                });
                events.push(ResponsesEvent::PartDone {
                    sequence_number: self.number(),
                    item_id: item.id.clone(),
                    output_index: index,
                    content_index: 0,
                    part: item.part(),
                });
            }
        }
        let told = item.told(Status::Completed);
        let sequence_number = self.number();
        let item = told.clone();
        events.push(ResponsesEvent::ItemDone { sequence_number, output_index: index, item });
        self.output.push(told);
    }
}

fn usage(ending: &Ending) -> ResponsesUsage {
    let (read, written) = (ending.prompt_tokens, ending.summary.summary.stats.tokens);
    ResponsesUsage {
        input_tokens: read,
        input_tokens_details: InputTokensDetails { cached_tokens: ending.cached_tokens },
        output_tokens: written,
        output_tokens_details: OutputTokensDetails::default(),
        total_tokens: read + written,
    }
}

impl ApiShape for Streamed {
    const EVENTS: bool = true;
    type Line = ResponsesEvent;
    type Answer = ResponsesAnswer;

    fn whole(&mut self, told: Assembled, ending: &Ending) -> ResponsesAnswer {
        let items = blocks(told).into_iter().map(Item::from);
        self.output = items.map(|item| item.told(Status::Completed)).collect();
        self.response(Some(ending))
    }

    fn begin(&mut self) -> Vec<ResponsesEvent> {
        let response = Box::new(self.response(None));
        let (sequence_number, next) = (self.number(), self.number());
        vec![
            ResponsesEvent::Created { sequence_number, response: response.clone() },
            ResponsesEvent::InProgress { sequence_number: next, response },
        ]
    }

    fn more(&mut self, told: Assembled) -> Vec<ResponsesEvent> {
        let mut events = vec![];
        for change in self.blocks.push(told) {
            self.change(change, &mut events);
        }
        events
    }

    fn end(&mut self, ending: &Ending, _: bool) -> Vec<ResponsesEvent> {
        let mut events = vec![];
        for change in self.blocks.finish() {
            self.change(change, &mut events);
        }
        let (sequence_number, response) = (self.number(), Box::new(self.response(Some(ending))));
        events.push(match response.status {
            Status::Incomplete => ResponsesEvent::Incomplete { sequence_number, response },
            _ => ResponsesEvent::Completed { sequence_number, response },
        });
        events
    }

    fn fail(&mut self, error: &ApiError) -> Vec<ResponsesEvent> {
        vec![ResponsesEvent::Error {
            sequence_number: self.number(),
            code: error.kind(),
            message: error.message().to_owned(),
            param: None,
        }]
    }
}
