//! Ollama's lists of models: the pairs in their modes.

use std::sync::Arc;

use ::tandem::Pair;
use axum::{Json, extract::State, http::StatusCode};

use super::{
    super::read,
    request,
    wire::{
        OllamaDescription, OllamaDetails, OllamaError, OllamaModel, OllamaModelInfo, OllamaModels,
        OllamaShowRequest, OllamaVersion,
    },
};
use crate::{
    edge::{
        Server,
        config::Mode,
        pairs::ServedPair,
        routes::{
            ObjectBody,
            openapi::{GenerationErrors, KeyErrors, OpenErrors},
        },
    },
    http::ApiError,
};

/// The models were made at no particular time.
const EPOCH: &str = "1970-01-01T00:00:00Z";

fn details<P: Pair>(pair: &ServedPair<P>) -> OllamaDetails {
    let edge = &pair.about.edge;
    OllamaDetails {
        parent_model: "",
        format: "tandem",
        family: edge.clone(),
        families: vec![edge.clone()],
        parameter_size: "",
        quantization_level: "",
    }
}

fn entry<P: Pair>(pair: &ServedPair<P>, mode: Mode) -> OllamaModel {
    let name = format!("{}:latest", pair.model(mode));
    OllamaModel {
        digest: decode::hex(name.as_bytes()),
        model: name.clone(),
        name,
        modified_at: EPOCH,
        size: 0,
        details: details(pair),
        expires_at: None,
        size_vram: None,
    }
}

/// The pairs in their modes, as Ollama lists models
#[utoipa::path(
    get,
    path = "/api/tags",
    responses((status = 200, description = "All of them", body = OllamaModels), KeyErrors<OllamaError>)
)]
pub async fn tags<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<OllamaModels> {
    let models = server.models().map(|(pair, mode)| entry(pair, mode)).collect();
    Json(OllamaModels { models })
}

/// The pairs in their modes, as Ollama lists models that are loaded: all of them always are
#[utoipa::path(
    get,
    path = "/api/ps",
    responses((status = 200, description = "All of them", body = OllamaModels), KeyErrors<OllamaError>)
)]
pub async fn ps<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<OllamaModels> {
    let loaded = |(pair, mode)| OllamaModel {
        expires_at: Some("9999-12-31T23:59:59Z"),
        size_vram: Some(0),
        ..entry::<P>(pair, mode)
    };
    Json(OllamaModels { models: server.models().map(loaded).collect() })
}

/// The program's version, as Ollama tells its own
#[utoipa::path(
    get,
    path = "/api/version",
    responses((status = 200, description = "It", body = OllamaVersion), OpenErrors<OllamaError>),
    security(())
)]
pub async fn version() -> Json<OllamaVersion> {
    Json(OllamaVersion { version: env!("CARGO_PKG_VERSION") })
}

/// One of the models, as Ollama describes it
#[utoipa::path(
    post,
    path = "/api/show",
    request_body = OllamaShowRequest,
    responses(
        (status = 200, description = "There is such a model", body = OllamaDescription),
        GenerationErrors<OllamaError>
    )
)]
pub async fn show<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    body: ObjectBody,
) -> Result<Json<OllamaDescription>, ApiError> {
    let harmless = ["verbose", "system", "template", "options"];
    let given: OllamaShowRequest = body.read(|body| read(body, &harmless))?;
    let name = request::model(&given.model.or(given.name).unwrap_or_default());
    let missing =
        || ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {name:?} here"));
    let (pair, _) = server.model(&name).ok_or_else(missing)?;
    Ok(Json(OllamaDescription {
        modelfile: "",
        parameters: "",
        template: "",
        license: "",
        modified_at: EPOCH,
        details: details(pair),
        model_info: OllamaModelInfo {
            architecture: "tandem",
            context: pair.tandem.pair().context(),
        },
        capabilities: ["completion", "tools"],
    }))
}
