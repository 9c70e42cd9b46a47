//! `POST /v1/completions`

use std::sync::Arc;

use ::tandem::Pair;
use axum::{extract::State, response::Response};

use super::{ObjectBody, openapi::GenerationErrors};
use crate::{
    edge::{
        Server,
        answer::{
            shape::Text,
            wire::{Completion, CompletionChunk, TextChoice},
        },
        request::{self, wire::CompletionRequest},
    },
    http::ApiError,
};

/// Continues a text
#[utoipa::path(
    post,
    path = "/v1/completions",
    request_body = CompletionRequest,
    responses(
        (
            status = 200,
            description = "The answer, or its chunks as server-sent events, closed by [DONE]",
            content(
                (Completion<TextChoice> = "application/json"),
                (CompletionChunk<TextChoice> = "text/event-stream")
            )
        ),
        GenerationErrors
    )
)]
pub async fn completions<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Response, ApiError> {
    let request = body.read(|body| request::completion::request(body, &server.checks()))?;
    super::answer::<Text, P>(server, request).await
}
