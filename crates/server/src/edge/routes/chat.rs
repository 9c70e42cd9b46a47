//! `POST /v1/chat/completions`

use std::sync::Arc;

use axum::{extract::State, response::Response};

use ::tandem::Pair;

use crate::edge::{Server, answer::AnswerRoute, body::Body, error::ApiError, request};

/// Answers.
pub async fn chat<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let request = request::chat::request(body, server.tandem.defaults(), server.tandem.routers())?;
    super::answer(server, AnswerRoute::Chat, request).await
}
