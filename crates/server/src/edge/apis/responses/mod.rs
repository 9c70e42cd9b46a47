//! OpenAI's `POST /v1/responses`. Nothing is kept: `previous_response_id` is refused.

mod answer;
mod request;
pub mod wire;

use std::sync::Arc;

use ::tandem::Pair;
use axum::{extract::State, response::Response};

use self::{
    answer::Streamed,
    wire::{Asked, ResponsesAnswer, ResponsesEvent, ResponsesRequest},
};
use crate::{
    edge::{
        Server,
        routes::{ObjectBody, openapi::GenerationErrors},
    },
    http::ApiError,
};

/// Answers a conversation, in the shapes of the newer of OpenAI's APIs
#[utoipa::path(
    post,
    path = "/v1/responses",
    request_body = ResponsesRequest,
    responses(
        (
            status = 200,
            description = "The answer, or its events",
            content((ResponsesAnswer = "application/json"), (ResponsesEvent = "text/event-stream"))
        ),
        GenerationErrors
    )
)]
pub async fn responses<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Response, ApiError> {
    let (asked, chat) = body.read(|body| (Asked::new(body), request::chat(body)));
    super::answer(server, chat?, |model| Streamed::new(model, asked)).await
}
