//! Failures of the edge server, as callers may know them: what happened, not where.

use std::time::Duration;

use axum::http::StatusCode;
use decode::{CloudError, SamplingError, SessionError};
use engine::EngineError;

use crate::http::ApiError;

impl ApiError {
    pub fn stopping() -> Self {
        let message = "the server is shutting down";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, message).code("shutting_down");
        error.retry_after(Duration::from_secs(5))
    }

    /// The answer took longer than an answer may.
    pub fn too_slow(limit: Duration) -> Self {
        let message = format!("the answer was not finished within {} s", limit.as_secs());
        Self::new(StatusCode::GATEWAY_TIMEOUT, message).code("timeout")
    }
}

/// What a caller may know of the cloud's failure: what happened, not where.
pub fn public(error: &CloudError) -> String {
    match error {
        CloudError::Unreachable { .. } => "the cloud cannot be reached".into(),
        CloudError::TimedOut { after, .. } => {
            format!("the cloud did not answer within {} s", after.as_secs_f32())
        }
        CloudError::Refused { status, .. } => format!("the cloud refused (status {status})"),
        CloudError::Redirected { .. } => "the cloud redirects elsewhere".into(),
        CloudError::InvalidAnswer { .. } => "the cloud sent an invalid answer".into(),
        CloudError::AnotherModel { .. } => "the cloud serves another model".into(),
        CloudError::CircuitOpen { left, last } => {
            let left = left.as_secs_f32();
            format!("the cloud failed and is not asked again for {left:.1} s: {}", public(last))
        }
        // The rest speak of tokens and settings alone.
        other => other.to_string(),
    }
}

impl From<tandem::Error> for ApiError {
    fn from(error: tandem::Error) -> Self {
        use tandem::Error;
        match error {
            Error::NoCloud(_) => {
                let message = "there is no cloud here, and this mode needs it";
                Self::invalid(message).param("model")
            }
            Error::Busy => Self::busy(),
            // What a mode or a pair cannot do, in this program's own words.
            Error::Usage(message) => Self::invalid(message).code("unsupported_parameter"),
            Error::PromptTooLarge { .. } => {
                Self::invalid(error.to_string()).code("context_length_exceeded")
            }
            Error::Engine(error @ EngineError::Tokenize { .. }) => Self::invalid(error.to_string()),
            Error::Stopping => Self::stopping(),
            Error::Session(error) => error.into(),
            Error::Cloud(error) => SessionError::Cloud(error).into(),
            Error::UnknownRouter(error) => Self::invalid(error.to_string()).param("tandem.router"),
            // The template's own words: it was given something it was not made for.
            Error::Engine(error @ EngineError::Template { .. }) => {
                Self::invalid(error.to_string()).param("messages")
            }
            Error::Grammar(_) => Self::invalid(error.to_string()).code("invalid_grammar"),
            Error::CloudTemplate(_) => Self::invalid(error.to_string()),
            other => Self::internal(&other),
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::EmptyPrompt => Self::invalid("the prompt is empty"),
            SessionError::PromptTooLong { tokens, context } => {
                let message =
                    format!("the prompt has {tokens} tokens and the context holds {context}");
                Self::invalid(message).code("context_length_exceeded")
            }
            SessionError::Constraint(error) => {
                Self::invalid(error.to_string()).code("invalid_grammar")
            }
            SessionError::Sampling(error @ SamplingError::OutOfRange { .. }) => {
                Self::invalid(error.to_string())
            }
            SessionError::Cloud(CloudError::ContextFull) => {
                Self::invalid("the conversation does not fit the cloud's context")
                    .code("context_length_exceeded")
            }
            SessionError::Cloud(error) => {
                tracing::warn!("the cloud failed: {error}");
                let status = if error.is_temporary() {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::BAD_GATEWAY
                };
                Self::new(status, public(&error)).code("cloud_failed")
            }
            SessionError::Edge(_) | SessionError::Sampling(_) => Self::internal(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_of_the_cloud_tells_where_it_is() {
        let (url, key) = ("http://10.1.2.3:8090".to_owned(), "sk-secret".to_owned());
        let unreachable =
            CloudError::Unreachable { url: url.clone(), reason: format!("{url} refused") };
        let errors = [
            unreachable.clone(),
            CloudError::TimedOut { url: url.clone(), after: Duration::from_secs(2) },
            CloudError::Refused { status: 401, message: format!("{key} {url}"), retry_after: None },
            CloudError::Redirected { url: url.clone(), target: url.clone() },
            CloudError::InvalidAnswer {
                url: url.clone(),
                engine: "vLLM",
                reason: format!("{key} {url}"),
            },
            CloudError::CircuitOpen { left: Duration::from_secs(1), last: Box::new(unreachable) },
            CloudError::AnotherModel {
                url: url.clone(),
                known: url.clone(),
                reason: format!("{key} {url}"),
            },
            CloudError::Offline,
            CloudError::ContextFull,
        ];
        for error in errors {
            let body = format!("{:?}", ApiError::from(SessionError::Cloud(error)).body());
            assert!(!body.contains("10.1.2.3") && !body.contains("secret"), "{body}");
        }
    }

    #[test]
    fn a_system_without_random_bytes_is_a_failure_of_ours() {
        for error in [
            // For the marks in a template, and for the salts of the cloud's cache.
            tandem::Error::Engine(EngineError::Random { reason: "none today".into() }),
            tandem::Error::Internal("none today".into()),
        ] {
            let error = ApiError::from(error);
            assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(!format!("{:?}", error.body()).contains("none today"));
        }
    }

    #[test]
    fn a_failure_of_ours_stays_in_the_log() {
        let path = std::io::Error::other("/home/me/model.gguf is broken");
        let error = SessionError::Edge(decode::EdgeError::new(path));
        let error = ApiError::from(error);
        assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!format!("{:?}", error.body()).contains("/home"));
    }
}
