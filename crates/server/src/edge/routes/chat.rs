//! `POST /v1/chat/completions`

use std::sync::Arc;

use ::tandem::Pair;
use axum::{extract::State, response::Response};

use super::{ObjectBody, openapi::GenerationErrors};
use crate::{
    edge::{
        Server,
        answer::{
            shape::Chat,
            wire::{ChatChoice, ChatChunkChoice, Completion, CompletionChunk},
        },
        request::{self, wire::ChatCompletionRequest},
    },
    http::ApiError,
};

/// Answers a conversation
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    request_body = ChatCompletionRequest,
    responses(
        (
            status = 200,
            description = "The answer, or its chunks as server-sent events, closed by [DONE]",
            content(
                (Completion<ChatChoice> = "application/json"),
                (CompletionChunk<ChatChunkChoice> = "text/event-stream")
            )
        ),
        GenerationErrors
    )
)]
pub async fn chat<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Response, ApiError> {
    let request = body.read(|body| request::chat::request(body, &server.checks()))?;
    super::answer::<Chat, P>(server, request).await
}
