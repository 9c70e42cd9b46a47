//! `GET /metrics`: for Prometheus.

use std::sync::Arc;

use axum::{
    extract::{MatchedPath, Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse, Response},
};

use ::tandem::Pair;

use crate::edge::{Server, error::ApiError};

/// All figures.
pub async fn metrics<P: Pair>(State(server): State<Arc<Server<P>>>) -> Result<Response, ApiError> {
    let text = server.metrics.text_format(server.tandem.running(), server.tandem.waiting());
    let text = text.map_err(|e| ApiError::internal(&e))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Counts requests by route, as it is written in the table of routes: an address that is not there
/// makes no new series.
pub async fn count<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    server.metrics.request(route, response.status().as_u16());
    response
}
