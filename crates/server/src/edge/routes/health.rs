//! `GET /health`: needs no key.

use std::sync::Arc;

use ::tandem::Pair;
use axum::{Json, extract::State};
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
