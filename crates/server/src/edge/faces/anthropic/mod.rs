//! Anthropic's `POST /v1/messages` and `POST /v1/messages/count_tokens`.

mod answer;
mod request;

use std::sync::Arc;

use ::tandem::Pair;
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{begin, described, tell};
use crate::{
    edge::{
        Server,
        request::{self as core, Delivery},
        routes::ObjectBody,
    },
    http::ApiError,
};

/// Answers a conversation, in Anthropic's shapes.
pub async fn messages<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    ObjectBody(body): ObjectBody,
) -> Response {
    let answered = async {
        let (request, events) = begin(&server, &request::chat(body)?).await?;
        match request.delivery {
            Delivery::Whole => {
                let (told, ending) = tell::whole(request.tools, events).await?;
                Ok(Json(answer::message(request.model, told, &ending)).into_response())
            }
            Delivery::Stream { .. } => {
                let face = answer::Streamed::new(request.model);
                tell::stream(face, request.tools, events).await
            }
        }
    };
    answered.await.unwrap_or_else(|error| refused(&error))
}

/// How long a conversation is for the small model.
pub async fn count_tokens<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    ObjectBody(body): ObjectBody,
) -> Response {
    let counted = async {
        let request = core::chat::request(&request::chat(body)?, &server.checks())?;
        let mut tokens = 0;
        for prompt in &request.prompts {
            tokens += server.tandem.tokens(request.mode, prompt).await?.len();
        }
        Ok(Json(json!({ "input_tokens": tokens })).into_response())
    };
    counted.await.unwrap_or_else(|error| refused(&error))
}

/// An error in Anthropic's shape, with the status and headers that it would have in any.
fn refused(error: &ApiError) -> Response {
    let (message, _) = described(error);
    let kind = match error.status() {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    let body = json!({ "type": "error", "error": { "type": kind, "message": message } });
    let plain = error.clone().into_response();
    let mut headers: HeaderMap = plain.headers().clone();
    headers.remove(axum::http::header::CONTENT_LENGTH);
    (error.status(), headers, Json(body)).into_response()
}
