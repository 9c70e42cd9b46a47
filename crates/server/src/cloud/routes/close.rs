//! `DELETE /v1/sessions/{id}`: frees it.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::StatusCode,
};

use crate::cloud::{Server, error::ApiError};

pub async fn close(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    server.sessions.remove(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
