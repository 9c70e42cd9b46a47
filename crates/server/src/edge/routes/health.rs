//! `GET /health` and `GET /ready`: they need no key.

use std::sync::Arc;

use ::tandem::Pair;
use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::OpenErrors;
use crate::edge::Server;

#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `failed` comes with status 503: the models cannot be used any more, and the process ends.
    #[schema(pattern = "^(ok|failed)$")]
    status: &'static str,
    version: &'static str,
    /// Texts being made, by all pairs.
    running: usize,
    /// Requests waiting for a seat of their pair.
    queued: usize,
}

/// Whether the server is alive, and how busy
#[utoipa::path(
    get,
    path = "/health",
    responses(
        (status = 200, description = "It is", body = Health),
        (status = 503, description = "Its models cannot be used any more", body = Health),
        OpenErrors
    ),
    security(())
)]
pub async fn health<P: Pair>(State(server): State<Arc<Server<P>>>) -> (StatusCode, Json<Health>) {
    let (code, status) = match server.pairs.have_failed() {
        false => (StatusCode::OK, "ok"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let (running, queued) = (server.pairs.running(), server.pairs.waiting());
    (code, Json(Health { status, version: env!("CARGO_PKG_VERSION"), running, queued }))
}

/// Whether the server can begin another text at once, whichever pair it is for: for whoever shares requests
/// out among servers
#[utoipa::path(
    get,
    path = "/ready",
    responses(
        (status = 200, description = "It can", body = Health),
        (status = 503, description = "Requests wait for a seat, or its models cannot be used any more", body = Health),
        OpenErrors
    ),
    security(())
)]
pub async fn ready<P: Pair>(State(server): State<Arc<Server<P>>>) -> (StatusCode, Json<Health>) {
    let waits = server.pairs.waiting() > 0;
    let (alive, health) = health(State(server)).await;
    (if waits { StatusCode::SERVICE_UNAVAILABLE } else { alive }, health)
}
