//! `GET /v1/models` and `GET /v1/models/{id}`: a model is a mode.

use axum::{Json, extract::Path, http::StatusCode};
use serde_json::{Value, json};

use crate::edge::{config::Mode, error::ApiError};

fn told(mode: Mode) -> Value {
    json!({ "id": mode.model(), "object": "model", "created": 0, "owned_by": "tandem" })
}

/// All of them.
pub async fn models() -> Json<Value> {
    Json(json!({ "object": "list", "data": Mode::ALL.map(told) }))
}

/// One of them.
pub async fn model(Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let missing = || {
        let error = ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {id:?} here"));
        error.param("model").code("model_not_found")
    };
    Mode::of(&id).map(|mode| Json(told(mode))).ok_or_else(missing)
}
