//! Whole answers and streams of one text.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde::Serialize;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    edge::{
        answer::calls::{Assembled, Assembler},
        writer::{Ending, Event},
    },
    http::{ApiError, room::AnswerRoom},
};

/// How often a silent stream of events shows that it is alive.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Tells a text in the shapes of one API while it is written.
pub trait ApiShape: Send + 'static {
    /// Whether every line is an event with a name; otherwise it is JSON alone.
    const EVENTS: bool;
    type Line: Serialize + Send;
    type Answer: Serialize;

    /// The whole answer at once.
    fn whole(&mut self, told: Assembled, ending: &Ending) -> Self::Answer;

    fn begin(&mut self) -> Vec<Self::Line>;
    fn more(&mut self, told: Assembled) -> Vec<Self::Line>;
    fn end(&mut self, ending: &Ending, calls: bool) -> Vec<Self::Line>;
    fn fail(&mut self, error: &ApiError) -> Vec<Self::Line>;
}

/// Waits for the whole text.
pub async fn whole<A: ApiShape>(
    mut shape: A,
    tools: bool,
    mut events: mpsc::Receiver<Event>,
    room: AnswerRoom,
) -> Result<Response, ApiError> {
    let mut all = vec![];
    while let Some(event) = events.recv().await {
        match event {
            Event::Tokens { tokens, .. } => all.extend(tokens),
            Event::End { ending, .. } => {
                let answer = shape.whole(Assembled::whole(tools, &all), &ending);
                return room.tell(&answer);
            }
            Event::Failed(error) => return Err(error),
        }
    }
    Err(ApiError::stopping())
}

/// A stream. What fails before its first line has a status of its own.
pub async fn stream<A: ApiShape>(
    mut shape: A,
    tools: bool,
    mut events: mpsc::Receiver<Event>,
) -> Result<Response, ApiError> {
    let first = Event::first(&mut events).await?;
    let ready = shape.begin().into();
    let assembler = Assembler::new(tools);
    let mut lines = Lines { shape, assembler, events, ready, over: false };
    lines.tell(first);
    let lines = stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((Ok::<_, Infallible>(line), lines))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let kind = if A::EVENTS { "text/event-stream" } else { "application/x-ndjson" };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

struct Lines<A: ApiShape> {
    shape: A,
    assembler: Assembler,
    events: mpsc::Receiver<Event>,
    ready: VecDeque<A::Line>,
    over: bool,
}

impl<A: ApiShape> Lines<A> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(written::<A>(&line));
            }
            if self.over {
                return None;
            }
            match timeout(KEEP_ALIVE_INTERVAL, self.events.recv()).await {
                Ok(Some(event)) => self.tell(event),
                Ok(None) => self.fail(&ApiError::stopping()),
                Err(_) if A::EVENTS => return Some(":\n\n".into()),
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
                self.ready.extend(self.shape.end(&ending, self.assembler.has_calls()));
                self.over = true;
            }
            Event::Failed(error) => self.fail(&error),
        }
    }

    fn say(&mut self, told: Assembled) {
        if !told.is_empty() {
            self.ready.extend(self.shape.more(told));
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.ready.extend(self.shape.fail(error));
        self.over = true;
    }
}

fn written<A: ApiShape>(line: &A::Line) -> String {
    let value = json!(line);
    match value["type"].as_str().filter(|_| A::EVENTS) {
        Some(name) => format!("event: {name}\ndata: {value}\n\n"),
        None => format!("{value}\n"),
    }
}
