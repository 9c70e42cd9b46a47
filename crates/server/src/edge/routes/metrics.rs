//! `GET /metrics`: for Prometheus.

use std::sync::Arc;

use ::tandem::Pair;
use axum::{extract::State, response::Response};

use super::openapi::KeyErrors;
use crate::{
    edge::Server,
    http::{ApiError, metrics::response},
};

/// Figures for Prometheus
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (
            status = 200,
            description = "In Prometheus' own format",
            body = String,
            content_type = "application/openmetrics-text"
        ),
        KeyErrors
    )
)]
pub async fn metrics<P: Pair>(State(server): State<Arc<Server<P>>>) -> Result<Response, ApiError> {
    for pair in server.pairs.iter() {
        pair.metrics.now(pair.tandem.running(), pair.tandem.waiting());
    }
    response(server.metrics.registry())
}
