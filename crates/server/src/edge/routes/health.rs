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
    #[schema(pattern = "^ok$")]
    status: &'static str,
    version: &'static str,
    /// Texts being made.
    running: usize,
    /// Requests waiting for a seat.
    queued: usize,
}

/// Whether the server is alive, and how busy
#[utoipa::path(
    get,
    path = "/health",
    responses((status = 200, description = "It is", body = Health), OpenErrors),
    security(())
)]
pub async fn health<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<Health> {
    Json(Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        running: server.tandem.running(),
        queued: server.tandem.waiting(),
    })
}

/// Whether the server can begin another text at once: for whoever shares requests out among servers
#[utoipa::path(
    get,
    path = "/ready",
    responses(
        (status = 200, description = "It can", body = Health),
        (status = 503, description = "Requests wait for a seat", body = Health),
        OpenErrors
    ),
    security(())
)]
pub async fn ready<P: Pair>(State(server): State<Arc<Server<P>>>) -> (StatusCode, Json<Health>) {
    let waits = server.tandem.waiting() > 0;
    let status = if waits { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    (status, health(State(server)).await)
}
