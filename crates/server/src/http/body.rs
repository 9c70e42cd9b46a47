//! Bodies of requests: JSON, neither too large nor too slow, with mistakes named by their path.

use std::time::Duration;

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, header},
};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::ApiError;

/// How much more than the largest body is read and thrown away, so that whoever sent it gets to read
/// why it was refused.
const MAX_DRAINED_BYTES: usize = 60 << 20;

/// Bodies up to this many bytes are read without asking for room.
const SMALL_BODY: usize = 64 << 10;

/// The room for larger bodies that are being read, in pieces of [`SMALL_BODY`]: 64 MiB. As many
/// bodies as there may be connections would take gigabytes.
static ROOM: Semaphore = Semaphore::const_new(1024);

/// What the body of a request may cost.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    pub bytes: usize,
    /// The most values in it, those inside of others included. Parsed, a value of two bytes takes
    /// some 300.
    pub values: usize,
    /// The longest it may take to arrive.
    pub time: Duration,
}

/// The bytes of a body that says it is JSON.
///
/// The content type is not a formality: a page of somebody else's may have a browser send a form or
/// plain text here without asking first, but not JSON.
pub async fn json_bytes(request: Request, limits: BodyLimits) -> Result<Vec<u8>, ApiError> {
    let json = is_json(request.headers());
    let length = declared_length(request.headers()).unwrap_or(limits.bytes).min(limits.bytes);
    let _room = match timeout(limits.time, room(length)).await {
        Ok(room) => room,
        Err(_) => return Err(ApiError::busy()),
    };
    let slow = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body came too slowly");
    let bytes = timeout(limits.time, read(request, limits.bytes, length)).await.map_err(slow)??;
    if !json {
        let message = "the Content-Type must be application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    if values(&bytes) > limits.values {
        let message = format!("the body has more than {} values", limits.values);
        return Err(ApiError::invalid(message).code("too_many_values"));
    }
    Ok(bytes)
}

/// How many values a JSON text has at most. Counted before anything is parsed, because that alone
/// takes the memory: every value stands behind a comma, or is the first of all, of a list or of an
/// object.
fn values(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Room for a body of this length; `None` for one that needs not ask.
async fn room(length: usize) -> Option<SemaphorePermit<'static>> {
    if length <= SMALL_BODY {
        return None;
    }
    let pieces = u32::try_from(length.div_ceil(SMALL_BODY)).unwrap_or(u32::MAX).min(1024);
    ROOM.acquire_many(pieces).await.ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// Reads a body that is said to be this long: a buffer that grows takes up to twice as much.
async fn read(request: Request, most: usize, said: usize) -> Result<Vec<u8>, ApiError> {
    let mut stream = request.into_body().into_data_stream();
    let (mut read, mut length) = (Vec::with_capacity(said), 0usize);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| ApiError::invalid("the body could not be read"))?;
        length += chunk.len();
        if length <= most {
            read.extend_from_slice(&chunk);
        } else if length > most + MAX_DRAINED_BYTES {
            break;
        } else {
            read = Vec::new();
        }
    }
    if length > most {
        let message = format!("the body is larger than {} MB", most >> 20);
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).code("too_large"));
    }
    Ok(read)
}

pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(wrong_value)?;
    deserializer.end().map_err(not_json)?;
    Ok(value)
}

/// The error of a value that is not what its place takes.
pub fn wrong_value(error: serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    let path = error.path().to_string();
    let error = error.into_inner();
    match error.classify() {
        Category::Data if path == "." => {
            ApiError::invalid(format!("the body is not what this route takes: {error}"))
        }
        Category::Data => ApiError::field(path, format_args!("is not of the right kind: {error}")),
        Category::Io | Category::Syntax | Category::Eof => not_json(error),
    }
}

/// The error of a text that is not JSON.
pub fn not_json(error: serde_json::Error) -> ApiError {
    ApiError::invalid(format!("the body is not a JSON object: {error}")).code("invalid_json")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The values of a text that was read, counted one by one.
    fn counted(value: &Value) -> usize {
        1 + match value {
            Value::Array(list) => list.iter().map(counted).sum::<usize>(),
            Value::Object(map) => map.values().map(counted).sum::<usize>(),
            _ => 0,
        }
    }

    #[test]
    fn values_are_never_more_than_was_said_and_texts_count_once() {
        for value in [
            json!(7),
            json!([]),
            json!([1, 2, 3]),
            json!({ "a": 1, "b": [[], {}, { "c": null }], "d,e": "," }),
            json!([[[[[0]]]], { "a": { "b": { "c": [] } } }]),
            json!({ "escaped \" , [ {": ["\\", "\\\"", ",,,,[[[["] }),
        ] {
            let (most, there) = (values(value.to_string().as_bytes()), counted(&value));
            assert!(there <= most && most <= 2 * there, "{value}: {there}, {most} said");
        }
        assert_eq!(values(json!(",[{\"\\".repeat(1000)).to_string().as_bytes()), 1);
        assert_eq!(values(json!(vec![0; 1000]).to_string().as_bytes()), 1001);
    }
}
