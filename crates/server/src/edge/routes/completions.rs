//! `POST /v1/completions`

use std::sync::Arc;

use axum::{extract::State, response::Response};

use ::tandem::Pair;

use crate::edge::{Server, answer::AnswerRoute, body::Body, error::ApiError, request};

/// Answers.
pub async fn completions<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let request =
        request::completion::request(body, server.tandem.defaults(), server.tandem.routers())?;
    super::answer(server, AnswerRoute::Completion, request).await
}
