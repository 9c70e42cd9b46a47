//! `GET /v1/models` and `GET /v1/models/{id}`: a model is a mode.

use axum::{Json, extract::Path, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::KeyErrors;
use crate::{edge::config::Mode, http::ApiError};

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    #[schema(pattern = "^list$")]
    object: &'static str,
    data: [ModelEntry; 4],
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

/// The three modes, as models
#[utoipa::path(
    get,
    path = "/v1/models",
    responses((status = 200, description = "All of them", body = ModelList), KeyErrors)
)]
pub async fn models() -> Json<ModelList> {
    Json(ModelList { object: "list", data: Mode::ALL.map(ModelEntry::from) })
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
pub async fn model(Path(id): Path<String>) -> Result<Json<ModelEntry>, ApiError> {
    let missing = || {
        let error = ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {id:?} here"));
        error.param("model").code("model_not_found")
    };
    Mode::of(&id).map(|mode| Json(mode.into())).ok_or_else(missing)
}
