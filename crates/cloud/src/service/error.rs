//! Why the service refuses a request.

use engine::EngineError;
use thiserror::Error;

use crate::protocol::{Prefix, code};

/// Both transports make their errors from this: the HTTP server a status and a code, the client in
/// the same process what it would have read from them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServiceError {
    #[error("{message}")]
    Invalid { message: String },
    /// Position, prefix or sequence number are not those of the session.
    #[error("{message}")]
    Conflict { message: String, have: Prefix },
    /// The session had to make room for another.
    #[error("the session was evicted to make room: open a new one")]
    Evicted,
    /// There never was such a session, or it was closed.
    #[error("there is no such session: open a new one")]
    UnknownSession,
    #[error("{tokens} tokens do not fit a context of {context}")]
    ContextFull { tokens: usize, context: usize },
    /// Other sessions take all the memory and are at work, or as many calls wait as may.
    #[error("too much is at work here: try again")]
    Busy,
    /// The model could not be loaded, or failed to compute. The reason may name paths of this
    /// machine.
    #[error("the model failed: {reason}")]
    ModelFailed { reason: String },
    /// The service itself failed. The reason may name paths of this machine.
    #[error("the service failed: {reason}")]
    Internal { reason: String },
}

impl ServiceError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into() }
    }

    pub(crate) fn conflict(message: impl Into<String>, have: Prefix) -> Self {
        Self::Conflict { message: message.into(), have }
    }

    pub(crate) fn model(error: &dyn std::error::Error) -> Self {
        Self::ModelFailed { reason: error.to_string() }
    }

    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        Self::Internal { reason: error.to_string() }
    }

    fn code_and_status(&self) -> (&'static str, u16) {
        match self {
            Self::Invalid { .. } => (code::INVALID, 400),
            Self::ContextFull { .. } => (code::CONTEXT_FULL, 400),
            Self::UnknownSession => (code::UNKNOWN_SESSION, 404),
            Self::Conflict { .. } => (code::CONFLICT, 409),
            Self::Evicted => (code::EVICTED, 410),
            Self::ModelFailed { .. } => (code::MODEL, 500),
            Self::Internal { .. } => (code::INTERNAL, 500),
            Self::Busy => (code::BUSY, 503),
        }
    }

    /// The error as programs read it.
    pub fn code(&self) -> &'static str {
        self.code_and_status().0
    }

    pub fn status(&self) -> u16 {
        self.code_and_status().1
    }
}

impl From<EngineError> for ServiceError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Full { cells, wanted, .. } if wanted > cells => {
                Self::ContextFull { tokens: wanted, context: cells }
            }
            // Others take the room, and all of them are at work.
            EngineError::Full { .. } | EngineError::NoSequence { .. } => Self::Busy,
            EngineError::Template { .. } | EngineError::Tokenize { .. } => {
                Self::invalid(error.to_string())
            }
            other => Self::model(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_says_is_told_by_what_the_caller_can_do() {
        let full = |wanted| EngineError::Full { used: 5, cells: 10, wanted };
        let template = EngineError::Template { reason: "no such role".into() };
        for (error, code, status) in [
            (full(11), code::CONTEXT_FULL, 400),
            (full(6), code::BUSY, 503),
            (EngineError::NoSequence { sequences: 1 }, code::BUSY, 503),
            (template, code::INVALID, 400),
            // The caller cannot help it.
            (EngineError::Random { reason: "none today".into() }, code::MODEL, 500),
            (EngineError::Stopped, code::MODEL, 500),
        ] {
            let error = ServiceError::from(error);
            assert_eq!((error.code(), error.status()), (code, status), "{error}");
        }
    }
}
