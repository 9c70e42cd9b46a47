//! Ollama's API: `/api/chat`, `/api/generate`, `/api/tags`, `/api/show`, `/api/ps`, `/api/version`.

mod answer;
pub mod models;
mod request;
mod time;
pub mod wire;

use std::sync::Arc;

use ::tandem::Pair;
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};

use self::{
    answer::{Route, Streamed},
    wire::{OllamaChatRequest, OllamaError, OllamaEvent, OllamaGenerateRequest, OllamaLine},
};
use crate::{
    edge::{
        Server,
        routes::{ObjectBody, openapi::GenerationErrors},
    },
    http::ApiError,
};

/// Answers a conversation, in Ollama's shapes
#[utoipa::path(
    post,
    path = "/api/chat",
    request_body = OllamaChatRequest,
    responses(
        (
            status = 200,
            description = "The answer, or its lines",
            content((OllamaLine = "application/json"), (OllamaEvent = "application/x-ndjson"))
        ),
        GenerationErrors<OllamaError>
    )
)]
pub async fn chat<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Response, ApiError> {
    let shape = |model| Streamed::new(Route::Chat, model);
    super::answer(server, body.read(request::chat)?, shape).await
}

/// Answers a text, in Ollama's shapes
#[utoipa::path(
    post,
    path = "/api/generate",
    request_body = OllamaGenerateRequest,
    responses(
        (
            status = 200,
            description = "The answer, or its lines",
            content((OllamaLine = "application/json"), (OllamaEvent = "application/x-ndjson"))
        ),
        GenerationErrors<OllamaError>
    )
)]
pub async fn generate<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Response, ApiError> {
    let (model, chat) = body.read(|body| {
        let asks = body["prompt"].as_str().is_some_and(|prompt| !prompt.is_empty());
        let model = request::model(body["model"].as_str().unwrap_or_default());
        (model, asks.then(|| request::generate(body)))
    });
    // Without a prompt it only loads the model, which is loaded.
    let Some(chat) = chat else {
        let loaded = OllamaLine {
            done: true,
            done_reason: Some("load"),
            ..answer::line(&model, Route::Generate, String::new())
        };
        return Ok(Json(loaded).into_response());
    };
    let shape = |model| Streamed::new(Route::Generate, model);
    super::answer(server, chat?, shape).await
}
