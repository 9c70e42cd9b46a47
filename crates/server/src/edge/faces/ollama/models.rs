//! Ollama's lists of models: the three modes.

use std::sync::Arc;

use ::tandem::Pair;
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{refused, request};
use crate::{
    edge::{Server, config::Mode, routes::ObjectBody},
    http::ApiError,
};

/// The models were made at no particular time.
const EPOCH: &str = "1970-01-01T00:00:00Z";

fn details<P: Pair>(server: &Server<P>) -> Value {
    let edge = &server.config.about.edge;
    json!({
        "parent_model": "", "format": "tandem", "family": edge, "families": [edge],
        "parameter_size": "", "quantization_level": "",
    })
}

fn entry<P: Pair>(server: &Server<P>, mode: Mode) -> Value {
    let name = format!("{}:latest", mode.model());
    json!({
        "name": name, "model": name, "modified_at": EPOCH, "size": 0,
        "digest": decode::hex(name.as_bytes()), "details": details(server),
    })
}

/// `GET /api/tags`
pub async fn tags<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<Value> {
    let models: Vec<Value> = Mode::ALL.iter().map(|&mode| entry(&server, mode)).collect();
    Json(json!({ "models": models }))
}

/// `GET /api/ps`: all of them are always ready.
pub async fn ps<P: Pair>(State(server): State<Arc<Server<P>>>) -> Json<Value> {
    let running = Mode::ALL.iter().map(|&mode| {
        let mut entry = entry(&server, mode);
        entry["expires_at"] = json!("9999-12-31T23:59:59Z");
        entry["size_vram"] = json!(0);
        entry
    });
    Json(json!({ "models": running.collect::<Vec<_>>() }))
}

/// `GET /api/version`
pub async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}

/// `POST /api/show`
pub async fn show<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    ObjectBody(body): ObjectBody,
) -> Response {
    let named = body.get("model").or(body.get("name")).unwrap_or(&Value::Null);
    let name = request::model(named);
    if Mode::of(&name).is_none() {
        let error =
            ApiError::new(StatusCode::NOT_FOUND, format!("there is no model {name:?} here"));
        return refused(&error);
    }
    let context = server.tandem.pair().context();
    let answer = json!({
        "modelfile": "", "parameters": "", "template": "", "license": "", "modified_at": EPOCH,
        "details": details(&server),
        "model_info": { "general.architecture": "tandem", "tandem.context_length": context },
        "capabilities": ["completion", "tools"],
    });
    Json(answer).into_response()
}
