//! One file a route.

pub mod chat;
pub mod completions;
pub mod health;
pub mod metrics;
pub mod models;
pub mod openapi;
pub mod page;
pub mod tandem;

use std::sync::Arc;

use axum::{
    Json,
    response::{IntoResponse, Response},
};

use ::tandem::Pair;

use super::{
    Server,
    answer::{Answer, AnswerRoute, stream},
    error::ApiError,
    request::{Delivery, GenerationRequest},
    writer,
};

/// Has an request written and tells it as it was wished.
async fn answer<P: Pair>(
    server: Arc<Server<P>>,
    kind: AnswerRoute,
    request: GenerationRequest,
) -> Result<Response, ApiError> {
    let request = Arc::new(request);
    let answer = Answer::new(kind, request.clone());
    let events = writer::start(server, request.clone()).await?;
    match request.telling {
        Delivery::Whole => Ok(Json(answer.whole(events).await?).into_response()),
        Delivery::Stream { .. } => stream::respond(answer, events).await,
    }
}
