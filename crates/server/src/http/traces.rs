//! A request's place in a trace, which may have begun elsewhere and go on in a cloud.

use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderName};
use opentelemetry::{global::get_text_map_propagator, propagation::Extractor};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Puts a request's span where its headers say, if they do, and tells its own `traceparent` for whoever is asked
/// next; `None` where no trace is kept.
pub fn join(span: &Span, headers: &HeaderMap) -> Option<String> {
    let parent = get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
    // An error says that nobody listens.
    span.set_parent(parent).ok()?;
    let mut told = HashMap::<String, String>::new();
    let context = span.context();
    get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut told));
    told.remove("traceparent")
}
