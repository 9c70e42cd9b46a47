//! Anthropic's `POST /v1/messages` and `POST /v1/messages/count_tokens`.

mod answer;
mod request;
pub mod wire;

use std::sync::Arc;

use ::tandem::Pair;
use axum::{Json, extract::State, response::Response};

use self::wire::{MessagesAnswer, MessagesError, MessagesEvent, MessagesRequest, TokenCount};
use crate::{
    edge::{
        Server,
        routes::{ObjectBody, openapi::GenerationErrors},
    },
    http::ApiError,
};

/// Answers a conversation, in Anthropic's shapes
#[utoipa::path(
    post,
    path = "/v1/messages",
    request_body = MessagesRequest,
    responses(
        (
            status = 200,
            description = "The answer, or its events",
            content((MessagesAnswer = "application/json"), (MessagesEvent = "text/event-stream"))
        ),
        GenerationErrors<MessagesError>
    )
)]
pub async fn messages<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Response, ApiError> {
    super::answer(server, body.read(request::chat)?, answer::Streamed::new).await
}

/// How long a conversation is for the small model, in Anthropic's shapes
#[utoipa::path(
    post,
    path = "/v1/messages/count_tokens",
    request_body = MessagesRequest,
    responses(
        (status = 200, description = "Its tokens", body = TokenCount),
        GenerationErrors<MessagesError>
    )
)]
pub async fn count_tokens<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Json<TokenCount>, ApiError> {
    let request = body.read(request::chat)?.checked(&server.checks())?;
    // As for a text: refused by its length, then not before its turn, which the queue bounds.
    let tandem = &server.pairs.get(request.pair).tandem;
    request.prompts.iter().try_for_each(|prompt| tandem.check_size(prompt))?;
    let _admission = tandem.admit().await?;
    let mut input_tokens = 0;
    for prompt in &request.prompts {
        input_tokens += tandem.tokens(request.mode, prompt).await?.len();
    }
    Ok(Json(TokenCount { input_tokens }))
}
