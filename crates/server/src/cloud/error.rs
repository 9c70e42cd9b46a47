//! The service's errors as HTTP.

use ::cloud::service::ServiceError;
use axum::http::StatusCode;

use crate::http::ApiError;

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
        let api_error = Self::new(status, message).code(error.code());
        match error {
            ServiceError::Conflict { have, .. } => api_error.have(have),
            _ => api_error,
        }
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
            let error = ApiError::from(error);
            assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let body = format!("{:?}", error.body());
            assert!(body.contains("log says why") && !body.contains("somebody"), "{body}");
        }
    }
}
