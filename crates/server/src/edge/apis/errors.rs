//! Errors in the shape of the API whose route it is, whoever refused: the route, or what stands before it.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, header},
    middleware::Next,
    response::Response,
};
use serde_json::{Value, json};

use super::{anthropic, ollama};
use crate::http::ApiError;

/// Tells errors of Anthropic's and Ollama's routes as their clients expect them; status and headers
/// stay.
pub async fn shape(request: Request, next: Next) -> Response {
    let shape: Option<fn(&ApiError) -> Value> = match request.uri().path() {
        path if path.starts_with("/v1/messages") => {
            Some(|error| json!(anthropic::wire::MessagesError::from(error)))
        }
        path if path.starts_with("/api/") => {
            Some(|error| json!(ollama::wire::OllamaError::from(error)))
        }
        _ => None,
    };
    let response = next.run(request).await;
    let error = response.extensions().get::<ApiError>();
    let Some(body) = shape.zip(error).map(|(shape, error)| shape(error).to_string()) else {
        return response;
    };
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    Response::from_parts(parts, Body::from(body))
}
