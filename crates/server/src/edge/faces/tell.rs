//! Whole answers and streams of one text.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    edge::{
        answer::calls::{Assembled, Assembler},
        writer::{Ending, Event},
    },
    http::ApiError,
};

/// How often a silent stream of events shows that it is alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Tells a text in the shapes of one API while it is written.
pub trait Face: Send + 'static {
    /// Whether every line is an event with a name; otherwise it is JSON alone.
    const EVENTS: bool;

    fn begin(&mut self) -> Vec<Value>;
    fn more(&mut self, told: Assembled) -> Vec<Value>;
    fn end(&mut self, ending: &Ending, calls: bool) -> Vec<Value>;
    fn fail(&mut self, error: &ApiError) -> Vec<Value>;
}

/// Waits for the whole text.
pub async fn whole(
    tools: bool,
    mut events: mpsc::Receiver<Event>,
) -> Result<(Assembled, Box<Ending>), ApiError> {
    let mut all = vec![];
    while let Some(event) = events.recv().await {
        match event {
            Event::Tokens { tokens, .. } => all.extend(tokens),
            Event::End { ending, .. } => return Ok((Assembled::whole(tools, &all), ending)),
            Event::Failed(error) => return Err(error),
        }
    }
    Err(ApiError::stopping())
}

/// A stream. What fails before its first line has a status of its own.
pub async fn stream<F: Face>(
    mut face: F,
    tools: bool,
    mut events: mpsc::Receiver<Event>,
) -> Result<Response, ApiError> {
    let first = match events.recv().await {
        Some(Event::Failed(error)) => return Err(error),
        None => return Err(ApiError::stopping()),
        Some(event) => event,
    };
    let ready = face.begin().into();
    let assembler = Assembler::new(tools);
    let mut lines = Lines { face, assembler, events, ready, over: false };
    lines.tell(first);
    let lines = stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((Ok::<_, Infallible>(line), lines))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let kind = if F::EVENTS { "text/event-stream" } else { "application/x-ndjson" };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

struct Lines<F> {
    face: F,
    assembler: Assembler,
    events: mpsc::Receiver<Event>,
    ready: VecDeque<Value>,
    over: bool,
}

impl<F: Face> Lines<F> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(value) = self.ready.pop_front() {
                return Some(line::<F>(&value));
            }
            if self.over {
                return None;
            }
            match timeout(KEEP_ALIVE_INTERVAL, self.events.recv()).await {
                Ok(Some(event)) => self.tell(event),
                Ok(None) => self.fail(&ApiError::stopping()),
                Err(_) if F::EVENTS => return Some(":\n\n".into()),
                Err(_) => {}
            }
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Tokens { tokens, .. } => {
                let told = self.assembler.push(&tokens);
                self.say(told);
            }
            Event::End { ending, .. } => {
                let held = self.assembler.finish();
                self.say(held);
                self.ready.extend(self.face.end(&ending, self.assembler.has_calls()));
                self.over = true;
            }
            Event::Failed(error) => self.fail(&error),
        }
    }

    fn say(&mut self, told: Assembled) {
        if !told.is_empty() {
            self.ready.extend(self.face.more(told));
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.ready.extend(self.face.fail(error));
        self.over = true;
    }
}

fn line<F: Face>(value: &Value) -> String {
    match value["type"].as_str().filter(|_| F::EVENTS) {
        Some(name) => format!("event: {name}\ndata: {value}\n\n"),
        None => format!("{value}\n"),
    }
}
