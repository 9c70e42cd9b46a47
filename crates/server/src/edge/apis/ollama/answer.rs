//! Answers in Ollama's shapes: a line of JSON for each piece.

use std::time::Duration;

use decode::FinishReason;
use serde_json::{Value, json};

use super::{
    super::tell::ApiShape,
    time,
    wire::{OllamaCall, OllamaEvent, OllamaFunction, OllamaLine, OllamaMessage},
};
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
pub fn line(model: &str, route: Route, text: String) -> OllamaLine {
    let mut line =
        OllamaLine { model: model.to_owned(), created_at: time::now(), ..OllamaLine::default() };
    match route {
        Route::Chat => {
            let message = OllamaMessage { role: "assistant", content: text, tool_calls: vec![] };
            line.message = Some(message);
        }
        Route::Generate => line.response = Some(text),
    }
    line
}

/// An answer as lines.
pub struct Streamed {
    route: Route,
    model: String,
    /// Calls are told whole, when the answer is.
    calls: Vec<CallPart>,
}

impl Streamed {
    pub fn new(route: Route, model: String) -> Self {
        Self { route, model, calls: vec![] }
    }

    fn line(&self, text: String) -> OllamaLine {
        line(&self.model, self.route, text)
    }

    fn keep(&mut self, calls: Vec<CallPart>) {
        for part in calls {
            match self.calls.last_mut() {
                Some(last) if part.start.is_none() => last.arguments += &part.arguments,
                _ => self.calls.push(part),
            }
        }
    }

    fn with_calls(&mut self, mut line: OllamaLine) -> OllamaLine {
        let call = |part: CallPart| {
            // A call that was cut off has no whole arguments.
            let arguments: Value =
                serde_json::from_str(&part.arguments).unwrap_or_else(|_| json!({}));
            let name = part.start.map(|start| start.name).unwrap_or_default();
            OllamaCall { function: OllamaFunction { name, arguments } }
        };
        let calls = std::mem::take(&mut self.calls).into_iter().map(call).collect();
        if let Some(message) = &mut line.message {
            message.tool_calls = calls;
        }
        line
    }
}

/// Closes an answer with what it cost.
fn finished(line: OllamaLine, ending: &Ending) -> OllamaLine {
    let stats = &ending.summary.summary.stats;
    let nanoseconds = |d: Duration| Some(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    OllamaLine {
        done: true,
        done_reason: Some(match ending.reason {
            FinishReason::Length => "length",
            FinishReason::Stop | FinishReason::Cancelled | FinishReason::Error => "stop",
        }),
        total_duration: nanoseconds(stats.total),
        load_duration: nanoseconds(stats.times.cloud_load),
        prompt_eval_count: Some(ending.prompt_tokens),
        prompt_eval_duration: nanoseconds(stats.time_to_first_token),
        eval_count: Some(stats.tokens),
        eval_duration: nanoseconds(stats.total.saturating_sub(stats.time_to_first_token)),
        tandem: Some(ending.summary.clone()),
        ..line
    }
}

fn event(line: OllamaLine) -> OllamaEvent {
    OllamaEvent::Line(Box::new(line))
}

impl ApiShape for Streamed {
    const EVENTS: bool = false;
    type Line = OllamaEvent;
    type Answer = OllamaLine;

    fn whole(&mut self, told: Assembled, ending: &Ending) -> OllamaLine {
        self.keep(told.calls);
        let whole = self.line(told.text);
        finished(self.with_calls(whole), ending)
    }

    fn begin(&mut self) -> Vec<OllamaEvent> {
        vec![]
    }

    fn more(&mut self, told: Assembled) -> Vec<OllamaEvent> {
        self.keep(told.calls);
        let text = Some(told.text).filter(|text| !text.is_empty());
        text.map(|text| event(self.line(text))).into_iter().collect()
    }

    fn end(&mut self, ending: &Ending, _: bool) -> Vec<OllamaEvent> {
        let mut lines = vec![];
        if !self.calls.is_empty() {
            let calls = self.line(String::new());
            lines.push(event(self.with_calls(calls)));
        }
        lines.push(event(finished(self.line(String::new()), ending)));
        lines
    }

    fn fail(&mut self, error: &ApiError) -> Vec<OllamaEvent> {
        vec![OllamaEvent::Error(error.into())]
    }
}
