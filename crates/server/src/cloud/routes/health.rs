//! `GET /health`: needs no key and loads nothing.

use std::sync::Arc;

use ::cloud::protocol::Health;
use axum::{Json, extract::State};

use crate::cloud::Server;

pub async fn health(State(server): State<Arc<Server>>) -> Json<Health> {
    Json(Health {
        status: "ok".into(),
        service: "tandem-cloud".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        loaded: server.model.loaded().is_some(),
        sessions: server.sessions.count(),
        footprint: server.model.loaded().map(|model| model.footprint()),
    })
}
