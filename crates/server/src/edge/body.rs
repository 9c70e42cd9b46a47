//! The one door through which requests come in: JSON, not too large and not too slow.

use std::sync::Arc;

use axum::{
    body::{Body as HttpBody, Bytes},
    extract::{FromRequest, Request},
    http::{StatusCode, header},
};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use tokio::time::timeout;

use ::tandem::Pair;

use super::{Server, error::ApiError};

/// The largest request read.
pub const LARGEST: usize = 4 << 20;

/// How much more is read and thrown away, so that whoever sent it gets to read why it was refused.
const DRAINED: usize = 64 << 20;

/// A JSON object.
pub struct Body(pub Map<String, Value>);

impl<P: Pair> FromRequest<Arc<Server<P>>> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, server: &Arc<Server<P>>) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let json = kind.split(';').next().is_some_and(|k| k.trim() == "application/json");
        // A page of somebody else's may send anything but JSON without asking first.
        let slow = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body came too slowly");
        let read = timeout(server.config.body_time, read(request.into_body()))
            .await
            .map_err(|_| slow())??;
        if !json {
            let message = "the Content-Type must be application/json";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        serde_json::from_slice(&read).map(Self).map_err(|e| {
            ApiError::invalid(format!("the body is not a JSON object: {e}")).code("invalid_json")
        })
    }
}

async fn read(body: HttpBody) -> Result<Bytes, ApiError> {
    let mut stream = body.into_data_stream();
    let (mut read, mut length) = (Vec::new(), 0usize);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| ApiError::invalid("the body could not be read"))?;
        length += chunk.len();
        if length <= LARGEST {
            read.extend_from_slice(&chunk);
        } else if length > DRAINED {
            break;
        } else {
            read = Vec::new();
        }
    }
    if length > LARGEST {
        let message = format!("the body is larger than {} MB", LARGEST >> 20);
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).code("too_large"));
    }
    Ok(read.into())
}
