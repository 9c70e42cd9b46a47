//! `POST /v1/completions`

use std::sync::Arc;

use axum::{extract::State, response::Response};

use crate::edge::{Server, answer::AnswerRoute, body::Body, error::ApiError, pair::Pair, request};

/// Answers.
pub async fn completions<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let request = request::completion::request(body, &server.config.defaults, &server.judges)?;
    super::answer(server, AnswerRoute::Completion, request).await
}
