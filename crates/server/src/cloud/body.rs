//! The one door through which requests come in.

use std::time::Duration;

use ::cloud::protocol::code;
use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::StatusCode,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::ApiError;

/// How long the body of a request may take.
const SLOWEST: Duration = Duration::from_secs(30);

/// A JSON body, whatever its content type says.
pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let slow = || {
            let message = "the body came too slowly";
            ApiError::new(StatusCode::REQUEST_TIMEOUT, code::INVALID, message)
        };
        let read =
            timeout(SLOWEST, Bytes::from_request(request, state)).await.map_err(|_| slow())?;
        let bytes = read.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                let message = format!("the body is larger than {} MB", super::LARGEST_BODY >> 20);
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, code::TOO_LARGE, message)
            } else {
                ApiError::invalid("the body could not be read")
            }
        })?;
        let value = serde_json::from_slice(&bytes).map_err(|e| {
            ApiError::invalid(format!("the body is not what this route takes: {e}"))
        })?;
        Ok(Self(value))
    }
}
