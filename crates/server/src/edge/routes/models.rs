//! `GET /v1/models` and `GET /v1/models/{id}`: a model is a pair in a mode.

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
use crate::{edge::Server, http::ApiError};

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    #[schema(pattern = "^list$")]
    object: &'static str,
    data: Vec<ModelEntry>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelEntry {
    #[schema(pattern = "^[a-z0-9._-]+-(joint|small|large|verify)$")]
    id: String,
    #[schema(pattern = "^model$")]
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl ModelEntry {
    fn new(id: String) -> Self {
        Self { id, object: "model", created: 0, owned_by: "tandem" }
    }
}

/// The pairs in the modes that requests may have, as models
#[utoipa::path(
    get,
    path = "/v1/models",
    responses((status = 200, description = "All of them", body = ModelList), KeyErrors)
)]
pub async fn models<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<ModelList> {
    let data = server.models().map(|(pair, mode)| ModelEntry::new(pair.model(mode))).collect();
    Json(ModelList { object: "list", data })
}

/// One of the models
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
    let (pair, mode) = server.model(&id).ok_or_else(missing)?;
    Ok(Json(ModelEntry::new(pair.model(mode))))
}
