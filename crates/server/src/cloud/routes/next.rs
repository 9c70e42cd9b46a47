//! `POST /v1/sessions/{id}/next`: what comes next?

use std::{sync::Arc, time::Instant};

use ::cloud::protocol::{Answer, Next, Place};
use axum::{
    Json,
    extract::{Path, State},
};

use super::advance;
use crate::cloud::{
    Server,
    body::Body,
    collect,
    error::ApiError,
    writer::{self, Task, milliseconds},
};

pub async fn next(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Body(next): Body<Next>,
) -> Result<Json<Answer>, ApiError> {
    let started = Instant::now();
    let mut held = server.sessions.hold(&id).await?;
    let session = held.session()?;
    let waited = started.elapsed();
    match &session.last {
        Some((sequence, answer)) if *sequence == next.sequence => return Ok(Json(answer.clone())),
        Some((sequence, _)) if *sequence > next.sequence => {
            let message = format!("question {sequence} was answered already");
            return Err(ApiError::conflict(message, session.conversation.place()));
        }
        _ => {}
    }
    let sight = collect::read(session, next.edge.as_ref())?;
    let task = Task {
        want: next.want,
        sampling: next.sampling,
        reuse: server.config.reuse,
        // Whatever was drawn: a router learns from what the cloud holds likeliest.
        likeliest: sight.is_some(),
    };
    task.validate(session.conversation.exchange())?;
    advance(session, &Place { position: next.position, hash: next.hash }, &next.append)?;
    let position = session.conversation.position();
    let (mut answer, likeliest) = writer::write(session, &server.sessions, &task).await?;
    answer.cost.queued_ms += milliseconds(waited);
    server.metrics.ask(&answer.cost);
    session.last = Some((next.sequence, answer.clone()));
    if let (Some(collector), Some(sight), Some(likeliest)) =
        (&server.config.collector, sight, likeliest)
    {
        collector.take(session, sight, position, likeliest);
    }
    Ok(Json(answer))
}
