//! `POST /v1/sessions`, `POST /v1/sessions/{id}/next`, `POST /v1/sessions/{id}/score`, `DELETE
//! /v1/sessions/{id}`; `GET /metrics`; and `GET /health`, which needs no key and loads nothing. All
//! they do is done by the service.

use std::{sync::Arc, time::Duration};

use ::cloud::protocol::{
    Health, NextRequest, NextResponse, OpenRequest, OpenResponse, ScoreRequest, ScoreResponse, code,
};
use axum::{
    Json,
    extract::{FromRequest, Path, Request, State},
    http::StatusCode,
    response::Response,
};
use serde::de::DeserializeOwned;

use super::Server;
use crate::http::{
    self, ApiError, BodyLimits,
    body::{json_bytes, parse},
};

/// A context of a million characters, four times over; or of as many ids as this many values.
const LIMITS: BodyLimits =
    BodyLimits { bytes: 4 << 20, values: 1 << 18, time: Duration::from_secs(30) };

pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let read = async { parse(&json_bytes(request, LIMITS).await?) };
        // Edges read a code in every error.
        read.await.map(Self).map_err(|error| error.or_code(code::INVALID))
    }
}

type Served<T> = Result<Json<T>, ApiError>;

pub async fn open(
    State(server): State<Arc<Server>>,
    Body(open): Body<OpenRequest>,
) -> Served<OpenResponse> {
    Ok(Json(server.service.open(open).await?))
}

pub async fn next(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Body(next): Body<NextRequest>,
) -> Served<NextResponse> {
    Ok(Json(server.service.next(&id, next).await?))
}

pub async fn score(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Body(score): Body<ScoreRequest>,
) -> Served<ScoreResponse> {
    Ok(Json(server.service.score(&id, score).await?))
}

pub async fn close(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    server.service.close(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn health(State(server): State<Arc<Server>>) -> (StatusCode, Json<Health>) {
    let health = server.service.health();
    let ok = health.status == "ok";
    (if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(health))
}

/// For Prometheus.
pub async fn metrics(State(server): State<Arc<Server>>) -> Result<Response, ApiError> {
    http::metrics::response(server.metrics.registry(server.service.sessions()))
}
