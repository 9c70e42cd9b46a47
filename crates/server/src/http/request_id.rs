//! A name for every request, in its answer and in the log.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request},
    http::HeaderValue,
    middleware::Next,
    response::Response,
};
use tracing::Instrument;

use crate::random::random_id;

const NAME: &str = "x-request-id";

/// The longest name that a caller may give.
const MAX_LENGTH: usize = 128;

/// Takes the caller's name for a request, or makes one; logs the answer under it.
pub async fn name(request: Request, next: Next) -> Response {
    let given = request.headers().get(NAME).and_then(|value| value.to_str().ok());
    let plain = |name: &&str| {
        (1..=MAX_LENGTH).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
    };
    let id = given.filter(plain).map_or_else(|| random_id(""), str::to_owned);
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let started = Instant::now();
    let span = tracing::info_span!("request", id);
    let mut response = next.run(request).instrument(span).await;
    let status = response.status().as_u16();
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    // A stream is answered when it begins.
    let milliseconds = started.elapsed().as_millis() as u64;
    tracing::info!(id, %method, route, status, milliseconds, "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(NAME, value);
    }
    response
}
