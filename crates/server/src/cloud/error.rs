//! The one door through which errors leave the server.

use ::cloud::protocol::{Failure, Place, Problem, code};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use engine::EngineError;

/// An error as the caller sees it.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    have: Option<Place>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), have: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code::NOT_FOUND, message)
    }

    pub fn conflict(message: impl Into<String>, have: Place) -> Self {
        let error = Self::new(StatusCode::CONFLICT, code::CONFLICT, message);
        Self { have: Some(have), ..error }
    }

    pub fn evicted() -> Self {
        let message = "the session was evicted to make room: open a new one";
        Self::new(StatusCode::GONE, code::EVICTED, message)
    }

    pub fn context_full(tokens: usize, context: usize) -> Self {
        let message = format!("{tokens} tokens do not fit a context of {context}");
        Self::new(StatusCode::BAD_REQUEST, code::CONTEXT_FULL, message)
    }

    /// Paths of this machine stay on this machine.
    pub fn model(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "the model failed");
        let message = "the model failed; the server's log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::MODEL, message)
    }

    pub fn busy() -> Self {
        let message = "every session is busy: try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code::BUSY, message)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Full { cells, wanted, .. } if wanted > cells => {
                Self::context_full(wanted, cells)
            }
            // Others take the room, and all of them are at work.
            EngineError::Full { .. } | EngineError::NoSequence { .. } => Self::busy(),
            EngineError::Template { .. } => Self::invalid(error.to_string()),
            other => Self::model(&other),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind =
            if self.status.is_server_error() { "server_error" } else { "invalid_request_error" };
        let (message, kind, code) = (self.message, kind.into(), self.code.into());
        let failure = Failure { error: Problem { message, kind, code }, have: self.have };
        (self.status, Json(failure)).into_response()
    }
}
