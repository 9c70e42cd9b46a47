//! Errors as callers see them: OpenAI's shape, and never an address, a path or a key of this machine.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use cloud::protocol::Prefix;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    retry_after: Option<Duration>,
    have: Option<Prefix>,
}

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorResponse {
    error: ErrorDetail,
    /// How far the cloud's session is, where the caller believed something else. Edges never say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    have: Option<Prefix>,
}

/// The body of every error, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail {
    message: String,
    /// What kind of status it came with.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The field at fault by its full path, such as `messages[2].role`.
    #[schema(required = true)]
    param: Option<String>,
    /// A name that programs can match, such as `busy`; null where the type says enough.
    #[schema(required = true)]
    code: Option<&'static str>,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message, param: None, code: None, retry_after: None, have: None }
    }

    /// A request that cannot be answered as it stands.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A mistake in one field, named by its full path.
    pub fn field(path: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        let path = path.into();
        Self::invalid(format!("{path} {problem}")).param(path)
    }

    /// A failure of ours: its words stay in the log.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(error = chain(error), "a request failed");
        let message = "the model failed; the server's log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).code("model_failed")
    }

    /// There is no room for this request now.
    pub fn busy() -> Self {
        let message = "too many requests are waiting: try again soon";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, message).code("busy");
        error.retry_after(Duration::from_secs(1))
    }

    pub fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// Adds a word for programs.
    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same, where none was given before.
    pub fn or_code(self, code: &'static str) -> Self {
        Self { code: self.code.or(Some(code)), ..self }
    }

    /// Tells the caller when to try again.
    pub fn retry_after(self, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..self }
    }

    /// Tells an edge how far its session is.
    pub fn have(self, place: Prefix) -> Self {
        Self { have: Some(place), ..self }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// What kind of error the status says it is, in OpenAI's words.
    pub fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 | 503 => "overloaded_error",
            500..=599 => "server_error",
            _ => "invalid_request_error",
        }
    }

    pub fn body(&self) -> ErrorResponse {
        let (message, param) = (self.message.clone(), self.param.clone());
        let error = ErrorDetail { message, kind: self.kind(), param, code: self.code };
        ErrorResponse { error, have: self.have.clone() }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(pause) = self.retry_after {
            let seconds = HeaderValue::from(pause.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        // Routes of other APIs tell it in their own shape.
        response.extensions_mut().insert(self);
        response
    }
}

pub fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "there is nothing at this address")
}

pub fn method_not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not take that method")
}

/// An error and its causes in one line, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
