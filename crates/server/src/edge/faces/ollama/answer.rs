//! Answers in Ollama's shapes: a line of JSON for each piece.

use decode::FinishReason;
use serde_json::{Value, json};

use super::{super::tell::Face, time};
use crate::{
    edge::{
        answer::calls::{Assembled, CallPart},
        writer::Ending,
    },
    http::ApiError,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Chat,
    Generate,
}

/// A line with some text.
pub fn line(model: &str, route: Route, text: &str) -> Value {
    let mut line = json!({ "model": model, "created_at": time::now(), "done": false });
    match route {
        Route::Chat => line["message"] = json!({ "role": "assistant", "content": text }),
        Route::Generate => line["response"] = json!(text),
    }
    line
}

/// An answer as lines.
pub struct Streamed {
    route: Route,
    model: &'static str,
    /// Calls are told whole, when the answer is.
    calls: Vec<CallPart>,
}

impl Streamed {
    pub fn new(route: Route, model: &'static str) -> Self {
        Self { route, model, calls: vec![] }
    }

    /// The whole answer as one line.
    pub fn whole(&mut self, told: Assembled, ending: &Ending) -> Value {
        let mut whole = line(self.model, self.route, &told.text);
        self.keep(told.calls);
        self.tell_calls(&mut whole);
        finish(&mut whole, ending);
        whole
    }

    fn keep(&mut self, calls: Vec<CallPart>) {
        for part in calls {
            match self.calls.last_mut() {
                Some(last) if part.start.is_none() => last.arguments += &part.arguments,
                _ => self.calls.push(part),
            }
        }
    }

    fn tell_calls(&mut self, line: &mut Value) {
        let call = |part: CallPart| {
            // A call that was cut off has no whole arguments.
            let arguments: Value =
                serde_json::from_str(&part.arguments).unwrap_or_else(|_| json!({}));
            let name = part.start.map(|start| start.name).unwrap_or_default();
            json!({ "function": { "name": name, "arguments": arguments } })
        };
        let calls: Vec<Value> = std::mem::take(&mut self.calls).into_iter().map(call).collect();
        if !calls.is_empty() {
            line["message"]["tool_calls"] = calls.into();
        }
    }
}

/// Closes an answer with what it cost, in nanoseconds.
fn finish(line: &mut Value, ending: &Ending) {
    let stats = &ending.summary.summary.stats;
    let times = &stats.times;
    let nanoseconds = |d: std::time::Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    line["done"] = json!(true);
    line["done_reason"] = json!(match ending.reason {
        FinishReason::Length => "length",
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error => "stop",
    });
    line["total_duration"] = json!(nanoseconds(stats.total));
    line["load_duration"] = json!(nanoseconds(times.cloud_load));
    line["prompt_eval_count"] = json!(ending.prompt_tokens);
    line["prompt_eval_duration"] = json!(nanoseconds(stats.time_to_first_token));
    line["eval_count"] = json!(stats.tokens);
    let writing = stats.total.saturating_sub(stats.time_to_first_token);
    line["eval_duration"] = json!(nanoseconds(writing));
    line["tandem"] = json!(ending.summary);
}

impl Face for Streamed {
    const EVENTS: bool = false;

    fn begin(&mut self) -> Vec<Value> {
        vec![]
    }

    fn more(&mut self, told: Assembled) -> Vec<Value> {
        self.keep(told.calls);
        let text = Some(told.text).filter(|text| !text.is_empty());
        text.map(|text| line(self.model, self.route, &text)).into_iter().collect()
    }

    fn end(&mut self, ending: &Ending, _: bool) -> Vec<Value> {
        let mut lines = vec![];
        if !self.calls.is_empty() {
            let mut calls = line(self.model, self.route, "");
            self.tell_calls(&mut calls);
            lines.push(calls);
        }
        let mut last = line(self.model, self.route, "");
        finish(&mut last, ending);
        lines.push(last);
        lines
    }

    fn fail(&mut self, error: &ApiError) -> Vec<Value> {
        vec![json!({ "error": super::described(error).0 })]
    }
}
