//! `POST /v1/embeddings`, `/api/embed` and `/api/embeddings`: refused.

use super::ollama::wire::OllamaError;
use crate::{
    edge::routes::openapi::Refused,
    http::{ApiError, error::ErrorResponse},
};

/// Refused: these models write texts
#[utoipa::path(post, path = "/v1/embeddings", responses(Refused<ErrorResponse>))]
pub async fn embeddings() -> ApiError {
    // The small model's hidden states say what comes next, not what a text is about: compared with
    // each other, they would mislead whoever searches with them.
    let message =
        "these models write texts and were not trained to embed them: use a model made for it";
    ApiError::invalid(message).code("unsupported")
}

/// Refused: these models write texts
#[utoipa::path(post, path = "/api/embed", responses(Refused<OllamaError>))]
pub async fn embed() -> ApiError {
    embeddings().await
}

/// Refused: these models write texts
#[utoipa::path(post, path = "/api/embeddings", responses(Refused<OllamaError>))]
pub async fn old_embeddings() -> ApiError {
    embeddings().await
}
