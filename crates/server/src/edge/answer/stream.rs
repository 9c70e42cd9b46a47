//! Chunks as server-sent events.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{self, KeepAlive, Sse},
};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Answer, Usage};
use crate::edge::{error::ApiError, request::Delivery, writer::Event};

/// How often a silent stream shows that it is alive.
const ALIVE: Duration = Duration::from_secs(10);

/// An answer on its way.
struct Chunks {
    answer: Answer,
    events: mpsc::Receiver<Event>,
    /// What is to be sent next.
    ready: VecDeque<String>,
    usage: Usage,
    /// Texts opened, texts ended, and characters of the text under way.
    opened: usize,
    ended: usize,
    offset: usize,
    over: bool,
}

/// A stream. What fails before its first chunk has a status of its own.
pub async fn respond(
    answer: Answer,
    mut events: mpsc::Receiver<Event>,
) -> Result<Response, ApiError> {
    let first = match events.recv().await {
        Some(Event::Failed(error)) => return Err(error),
        None => return Err(ApiError::stopping()),
        Some(event) => event,
    };
    let mut chunks = Chunks {
        answer,
        events,
        ready: VecDeque::new(),
        usage: Usage::default(),
        opened: 0,
        ended: 0,
        offset: 0,
        over: false,
    };
    chunks.tell(first);
    let events = stream::unfold(chunks, |mut chunks| async move {
        let data = chunks.next().await?;
        Some((Ok::<_, Infallible>(sse::Event::default().data(data)), chunks))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

impl Chunks {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.over {
                return None;
            }
            match self.events.recv().await {
                Some(event) => self.tell(event),
                None => self.close(),
            }
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Tokens { text, tokens } => {
                self.open(text);
                let length: usize = tokens.iter().map(|t| t.text.chars().count()).sum();
                let chunk = self.answer.chunk(text, tokens, self.offset);
                self.offset += length;
                self.ready.extend(chunk.as_ref().map(Value::to_string));
            }
            Event::End { text, ending } => {
                self.open(text);
                self.usage.add(&ending);
                self.ended += 1;
                self.offset = 0;
                self.ready.push_back(self.answer.last(text, &ending).to_string());
            }
            Event::Failed(error) => self.fail(&error),
        }
    }

    fn open(&mut self, text: usize) {
        if text == self.opened {
            self.opened += 1;
            self.ready.extend(self.answer.opening(text).as_ref().map(Value::to_string));
        }
    }

    fn close(&mut self) {
        if self.ended < self.answer.request.texts() {
            self.fail(&ApiError::stopping());
            return;
        }
        if self.answer.request.telling == (Delivery::Stream { usage: true }) {
            self.ready.push_back(self.answer.count(self.usage).to_string());
        }
        self.ready.push_back("[DONE]".into());
        self.over = true;
    }

    fn fail(&mut self, error: &ApiError) {
        self.ready.push_back(error.body().to_string());
        self.over = true;
    }
}
