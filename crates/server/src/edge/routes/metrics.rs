//! `GET /metrics`: for Prometheus.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use super::openapi::KeyErrors;
use crate::{
    edge::{Server, pair::Pair},
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
    response(server.metrics.registry(server.pool.running(), server.pool.waiting()))
}
