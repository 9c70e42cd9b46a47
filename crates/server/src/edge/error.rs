//! The one door through which errors leave the server: OpenAI's shape, and never an address, a
//! path or a key of this machine.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use decode::{CloudError, SamplingError, SessionError};
use engine::EngineError;
use serde_json::{Value, json};

/// An error as the caller sees it.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    retry_after: Option<Duration>,
}

impl ApiError {
    /// An error with a status and words for people.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None, retry_after: None }
    }

    /// A request that cannot be answered as it stands.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The field that is at fault.
    pub fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// A word for programs.
    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// All seats are taken and so is the queue.
    pub fn busy() -> Self {
        let message = "too many requests are waiting: try again soon";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, message).code("busy");
        Self { retry_after: Some(Duration::from_secs(1)), ..error }
    }

    /// The server is about to stop.
    pub fn stopping() -> Self {
        let message = "the server is shutting down";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, message).code("shutting_down");
        Self { retry_after: Some(Duration::from_secs(5)), ..error }
    }

    /// The answer took longer than an answer may.
    pub fn too_slow(limit: Duration) -> Self {
        let message = format!("the answer was not finished within {} s", limit.as_secs());
        Self::new(StatusCode::GATEWAY_TIMEOUT, message).code("timeout")
    }

    /// A failure of ours: its words stay in the log.
    pub fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(error = chain(error), "a request failed");
        let message = "the model failed; the server's log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).code("model_failed")
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// As it travels.
    pub fn body(&self) -> Value {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 | 503 => "overloaded_error",
            500..=599 => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": {
            "message": self.message,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }})
    }
}

/// What a caller may know of the cloud's failure: what happened, not where.
pub fn public(error: &CloudError) -> String {
    match error {
        CloudError::Unreachable { .. } => "the cloud cannot be reached".into(),
        CloudError::TooLate { after, .. } => {
            format!("the cloud did not answer within {} s", after.as_secs_f32())
        }
        CloudError::Refused { status, .. } => format!("the cloud refused (status {status})"),
        CloudError::Redirected { .. } => "the cloud redirects elsewhere".into(),
        CloudError::Garbled { .. } => "the cloud's answer makes no sense".into(),
        CloudError::Resting { left, last } => {
            let left = left.as_secs_f32();
            format!("the cloud is left alone for {left:.1} s more after failing: {}", public(last))
        }
        // The rest speak of tokens and settings alone.
        other => other.to_string(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words += &format!(": {cause}");
        source = cause.source();
    }
    words
}

impl From<tandem::Error> for ApiError {
    fn from(error: tandem::Error) -> Self {
        use tandem::Error;
        match error {
            Error::NoCloud(_) => {
                let message = "there is no cloud here, and tandem-large is the cloud's alone";
                Self::invalid(message).param("model")
            }
            Error::Busy => Self::busy(),
            Error::Stopping => Self::stopping(),
            Error::Session(error) => error.into(),
            Error::Cloud(error) => SessionError::Cloud(error).into(),
            Error::UnknownRouter(error) => Self::invalid(error.to_string()).param("tandem.router"),
            // The template's own words: it was given something it was not made for.
            Error::Engine(error @ EngineError::Template { .. }) => {
                Self::invalid(error.to_string()).param("messages")
            }
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
        response
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
            CloudError::TooLate { url: url.clone(), after: Duration::from_secs(2) },
            CloudError::Refused { status: 401, message: format!("{key} {url}"), retry_after: None },
            CloudError::Redirected { url: url.clone(), target: url.clone() },
            CloudError::Garbled {
                url: url.clone(),
                engine: "vLLM",
                reason: format!("{key} {url}"),
            },
            CloudError::Resting { left: Duration::from_secs(1), last: Box::new(unreachable) },
            CloudError::Offline,
            CloudError::ContextFull,
        ];
        for error in errors {
            let body = ApiError::from(SessionError::Cloud(error)).body().to_string();
            assert!(!body.contains("10.1.2.3") && !body.contains("secret"), "{body}");
        }
    }

    #[test]
    fn a_failure_of_ours_stays_in_the_log() {
        let path = std::io::Error::other("/home/me/model.gguf is broken");
        let error = SessionError::Edge(decode::EdgeError::new(path));
        let error = ApiError::from(error);
        assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!error.body().to_string().contains("/home"));
    }
}
