//! A name for every request, in its answer, in the log, and in the log of a cloud that is asked for it.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderValue},
    middleware::Next,
    response::Response,
};
use cloud::RequestOrigin;
use tracing::{Instrument, Span};

use crate::random::random_id;

const NAME: &str = "x-request-id";

/// The longest name that a caller may give.
const MAX_LENGTH: usize = 128;

tokio::task_local! {
    static ORIGIN: RequestOrigin;
}

/// By which names logs and traces know the request that this task answers.
pub fn origin() -> RequestOrigin {
    ORIGIN.try_with(Clone::clone).unwrap_or_default()
}

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
    // Of the highest level, because a warning has to tell its request even where nothing else is logged.
    let span = tracing::error_span!("request", id);
    let traceparent = traceparent(&span, request.headers());
    let origin = RequestOrigin { id: Some(id.clone()), traceparent };
    let answering = ORIGIN.scope(origin, next.run(request));
    let mut response = answering.instrument(span).await;
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

#[cfg(feature = "otel")]
fn traceparent(span: &Span, headers: &HeaderMap) -> Option<String> {
    super::traces::join(span, headers)
}

#[cfg(not(feature = "otel"))]
fn traceparent(_: &Span, _: &HeaderMap) -> Option<String> {
    None
}
