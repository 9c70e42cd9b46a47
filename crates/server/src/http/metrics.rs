//! Requests counted by route, and the text that Prometheus reads.

use axum::{
    extract::{MatchedPath, Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        histogram::Histogram,
    },
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

/// Histograms with the same buckets, by so many labels.
pub type HistogramFamily<const LABELS: usize> =
    Family<[(&'static str, String); LABELS], Histogram, Buckets>;

/// The upper bounds of a histogram's buckets.
#[derive(Clone, Copy, Debug)]
pub struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// New histograms of seconds, by labels, that the registry shows.
pub fn seconds_by<const LABELS: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    buckets: &'static [f64],
) -> HistogramFamily<LABELS> {
    let family = Family::new_with_constructor(Buckets(buckets));
    registry.register_with_unit(name, help, Unit::Seconds, family.clone());
    family
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
