//! Ollama's API: `/api/chat`, `/api/generate`, `/api/tags`, `/api/show`, `/api/ps`, `/api/version`.

mod answer;
mod models;
mod request;
mod time;

use std::sync::Arc;

use ::tandem::Pair;
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use self::answer::{Route, Streamed};
use super::{begin, described, tell};
use crate::{
    edge::{Server, request::Delivery, routes::ObjectBody},
    http::ApiError,
};

pub use models::{ps, show, tags, version};

/// Answers a conversation, in Ollama's shapes.
pub async fn chat<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    ObjectBody(body): ObjectBody,
) -> Response {
    answer(server, Route::Chat, request::chat(body)).await
}

/// Answers or continues a text, in Ollama's shapes.
pub async fn generate<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    ObjectBody(body): ObjectBody,
) -> Response {
    // Without a prompt it only loads the model, which is loaded.
    if body["prompt"].as_str().is_none_or(str::is_empty) {
        let model = request::model(&body["model"]);
        let mut loaded = answer::line(&model, Route::Generate, "");
        loaded["done"] = json!(true);
        loaded["done_reason"] = json!("load");
        return Json(loaded).into_response();
    }
    answer(server, Route::Generate, request::generate(body)).await
}

async fn answer<P: Pair>(
    server: Arc<Server<P>>,
    route: Route,
    chat: Result<Value, ApiError>,
) -> Response {
    let answered = async {
        let (request, events) = begin(&server, &chat?).await?;
        let mut face = Streamed::new(route, request.model);
        match request.delivery {
            Delivery::Whole => {
                let (told, ending) = tell::whole(request.tools, events).await?;
                Ok(Json(face.whole(told, &ending)).into_response())
            }
            Delivery::Stream { .. } => tell::stream(face, request.tools, events).await,
        }
    };
    answered.await.unwrap_or_else(|error: ApiError| refused(&error))
}

/// An error in Ollama's shape.
fn refused(error: &ApiError) -> Response {
    let (message, _) = described(error);
    (error.status(), Json(json!({ "error": message }))).into_response()
}
