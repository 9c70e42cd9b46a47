//! Bodies of the protocol's requests.

use std::time::Duration;

use ::cloud::protocol::code;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use crate::http::{
    ApiError, BodyLimits,
    body::{json_bytes, parse},
};

/// A context of a million characters, four times over.
const LIMITS: BodyLimits = BodyLimits { bytes: 4 << 20, time: Duration::from_secs(30) };

pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let read = async { parse(&json_bytes(request, LIMITS).await?) };
        // Edges read a code in every error.
        read.await.map(Self).map_err(|error| error.or_code(code::INVALID))
    }
}
