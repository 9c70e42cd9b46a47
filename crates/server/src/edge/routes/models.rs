//! `GET /v1/models` and `GET /v1/models/{id}`: a model is a mode.

use std::sync::Arc;

use ::tandem::Pair;
use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::KeyErrors;
use crate::{
    edge::{Server, config::Mode},
    http::ApiError,
};

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    #[schema(pattern = "^list$")]
    object: &'static str,
    data: Vec<ModelEntry>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelEntry {
    #[schema(pattern = "^tandem-(joint|small|large|verify)$")]
    id: &'static str,
    #[schema(pattern = "^model$")]
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl From<Mode> for ModelEntry {
    fn from(mode: Mode) -> Self {
        Self { id: mode.model(), object: "model", created: 0, owned_by: "tandem" }
    }
}

/// The modes that requests may have, as models
#[utoipa::path(
    get,
    path = "/v1/models",
    responses((status = 200, description = "All of them", body = ModelList), KeyErrors)
)]
pub async fn models<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<ModelList> {
    let data = server.modes().iter().map(|&mode| mode.into()).collect();
    Json(ModelList { object: "list", data })
}

/// One of the modes
#[utoipa::path(
    get,
    path = "/v1/models/{id}",
    params(("id" = String, Path, description = "The model's name")),
    responses(
        (status = 200, description = "There is such a model", body = ModelEntry),
        (status = 404, description = "There is none", body = crate::http::error::ErrorResponse),
        KeyErrors
    )
)]
pub async fn model<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    Path(id): Path<String>,
) -> Result<Json<ModelEntry>, ApiError> {
    let missing = || {
        let error = ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {id:?} here"));
        error.param("model").code("model_not_found")
    };
    let mode = Mode::of(&id).filter(|mode| server.modes().contains(mode));
    mode.map(|mode| Json(mode.into())).ok_or_else(missing)
}
