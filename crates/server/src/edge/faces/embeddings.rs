//! `POST /v1/embeddings`, `/api/embed` and `/api/embeddings`: refused.

use crate::http::ApiError;

/// The small model's hidden states say what comes next, not what a text is about: compared with each
/// other, they would mislead whoever searches with them.
pub async fn embeddings() -> ApiError {
    let message =
        "these models write texts and were not trained to embed them: use a model made for it";
    ApiError::invalid(message).code("unsupported")
}
