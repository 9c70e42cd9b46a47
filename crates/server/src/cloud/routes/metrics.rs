//! `GET /metrics`: for Prometheus.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use crate::{
    cloud::Server,
    http::{ApiError, metrics::response},
};

pub async fn metrics(State(server): State<Arc<Server>>) -> Result<Response, ApiError> {
    response(server.metrics.registry(server.service.sessions()))
}
