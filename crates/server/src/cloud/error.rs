//! The one door through which errors leave the server.

use ::cloud::{
    protocol::{Failure, Prefix, Problem, code},
    service::ServiceError,
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};

/// An error as the caller sees it.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    have: Option<Prefix>,
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

    pub fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "the server failed");
        let message = "the server failed; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, message)
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        // Paths of this machine stay on this machine.
        let message = match &error {
            ServiceError::ModelFailed { .. } => {
                "the model failed; the server's log says why".into()
            }
            ServiceError::Internal { .. } => "the server failed; its log says why".into(),
            other => other.to_string(),
        };
        let status = StatusCode::from_u16(error.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() && error != ServiceError::Busy {
            tracing::error!(%error, "a request failed");
        }
        let code = error.code();
        let have = match error {
            ServiceError::Conflict { have, .. } => Some(have),
            _ => None,
        };
        Self { status, code, message, have }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_may_name_paths_stay_here() {
        let reason = String::from("/home/somebody/model.gguf cannot be loaded");
        for error in [
            ServiceError::ModelFailed { reason: reason.clone() },
            ServiceError::Internal { reason },
        ] {
            let told = ApiError::from(error);
            assert_eq!(told.status, StatusCode::INTERNAL_SERVER_ERROR);
            assert!(told.message.contains("log says why"), "{}", told.message);
            assert!(!told.message.contains("somebody"), "{}", told.message);
        }
    }
}
