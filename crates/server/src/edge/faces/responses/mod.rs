//! OpenAI's `POST /v1/responses`. Nothing is kept: `previous_response_id` is refused.

mod answer;
mod request;

use std::sync::Arc;

use ::tandem::Pair;
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};

use self::answer::Streamed;
use super::{begin, tell};
use crate::{
    edge::{Server, request::Delivery, routes::ObjectBody},
    http::ApiError,
};

/// Answers a conversation, in the shapes of the newer of OpenAI's APIs.
pub async fn responses<P: Pair>(
    State(server): State<Arc<Server<P>>>,
    ObjectBody(body): ObjectBody,
) -> Result<Response, ApiError> {
    let asked = answer::Asked::new(&body);
    let (request, events) = begin(&server, &request::chat(body)?).await?;
    let mut face = Streamed::new(request.model, asked);
    match request.delivery {
        Delivery::Whole => {
            let (told, ending) = tell::whole(request.tools, events).await?;
            Ok(Json(face.whole(told, &ending)).into_response())
        }
        Delivery::Stream { .. } => tell::stream(face, request.tools, events).await,
    }
}
