//! Requests counted by route, and the text that Prometheus reads.

use axum::{
    extract::{MatchedPath, Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Metric, Registry, Unit},
};

use super::ApiError;

/// How many requests each route answered, and with which status.
#[derive(Clone, Debug)]
pub struct RequestCounter(Family<[(&'static str, String); 2], Counter>);

impl RequestCounter {
    pub fn new(registry: &mut Registry) -> Self {
        Self(register(registry, "requests", "Requests answered, by route and status"))
    }
}

/// A new metric that the registry shows.
pub fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// A new histogram of seconds that the registry shows.
pub fn seconds(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let histogram = Histogram::new(buckets.iter().copied());
    registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
    histogram
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
