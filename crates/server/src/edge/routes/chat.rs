//! `POST /v1/chat/completions`

use std::sync::Arc;

use axum::{extract::State, response::Response};

use crate::edge::{Server, answer::AnswerRoute, body::Body, error::ApiError, pair::Pair, request};

/// Answers.
pub async fn chat<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let request = request::chat::request(body, &server.config.defaults, &server.judges)?;
    super::answer(server, AnswerRoute::Chat, request).await
}
