//! Requests counted by route, and the text that Prometheus reads.

use axum::{
    extract::{MatchedPath, Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::ApiError;

/// How many requests each route answered, and with which status.
#[derive(Clone, Debug, Default)]
pub struct RequestCounter(Family<[(&'static str, String); 2], Counter>);

impl RequestCounter {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("requests", "Requests answered, by route and status", self.0.clone());
    }
}

/// Counts a request once it is answered, or once its stream has begun. Its route is the one in the
/// table of routes: an address that is not there makes no new series.
pub async fn count(
    State(counter): State<RequestCounter>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    let labels = [("route", route.to_owned()), ("status", response.status().as_u16().to_string())];
    counter.0.get_or_create(&labels).inc();
    response
}

pub fn response(registry: &Registry) -> Result<Response, ApiError> {
    let mut text = String::new();
    encode(&mut text, registry).map_err(|error| ApiError::internal(&error))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
