//! Chunks as server-sent events.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{self, KeepAlive, Sse},
};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;

use super::{Answer, calls::Assembler, shape::Shape, wire::Usage};
use crate::{edge::writer::Event, http::ApiError};

/// How often a silent stream shows that it is alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

struct Chunks<S> {
    answer: Answer<S>,
    events: mpsc::Receiver<Event>,
    /// What is to be sent next.
    ready: VecDeque<String>,
    usage: Usage,
    /// Reads the text under way.
    assembler: Assembler,
    /// Texts opened, texts ended, and characters of the text under way.
    opened: usize,
    ended: usize,
    offset: usize,
    over: bool,
}

/// A stream. What fails before its first chunk has a status of its own.
pub async fn respond<S: Shape>(
    answer: Answer<S>,
    mut events: mpsc::Receiver<Event>,
) -> Result<Response, ApiError> {
    let first = Event::first(&mut events).await?;
    let assembler = Assembler::new(answer.request.tools);
    let mut chunks = Chunks {
        answer,
        events,
        ready: VecDeque::new(),
        usage: Usage::default(),
        assembler,
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
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)).into_response())
}

impl<S: Shape> Chunks<S> {
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
                let told = self.assembler.push(&tokens);
                let chunk = self.answer.chunk(text, tokens, (told, self.offset));
                self.offset += length;
                self.say(chunk);
            }
            Event::End { text, ending } => {
                self.open(text);
                self.usage.add(&ending);
                self.ended += 1;
                let tools = self.answer.request.tools;
                let mut assembler = std::mem::replace(&mut self.assembler, Assembler::new(tools));
                let held = assembler.finish();
                if !held.is_empty() {
                    self.say(self.answer.chunk(text, vec![], (held, self.offset)));
                }
                self.offset = 0;
                self.say(Some(self.answer.last(text, *ending, assembler.has_calls())));
            }
            Event::Failed(error) => self.fail(&error),
        }
    }

    fn open(&mut self, text: usize) {
        if text == self.opened {
            self.opened += 1;
            self.say(self.answer.opening(text));
        }
    }

    fn close(&mut self) {
        if self.ended < self.answer.request.texts() {
            self.fail(&ApiError::stopping());
            return;
        }
        if self.answer.counts_usage() {
            self.say(Some(self.answer.count(self.usage)));
        }
        self.ready.push_back("[DONE]".into());
        self.over = true;
    }

    fn fail(&mut self, error: &ApiError) {
        self.over = true;
        self.say(Some(error.body()));
    }

    fn say(&mut self, chunk: Option<impl Serialize>) {
        let Some(chunk) = chunk else { return };
        match serde_json::to_string(&chunk) {
            Ok(text) => self.ready.push_back(text),
            // Cannot happen: every key is a text. The stream then ends without `[DONE]`.
            Err(error) => {
                tracing::error!(%error, "a chunk could not be written");
                self.over = true;
            }
        }
    }
}
