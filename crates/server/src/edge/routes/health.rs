//! `GET /health`: needs no key.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use ::tandem::Pair;

use crate::edge::Server;

/// Whether it is alive, and how busy.
pub async fn health<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<Value> {
    Json(json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "running": server.tandem.running(),
        "queued": server.tandem.waiting(),
    }))
}
