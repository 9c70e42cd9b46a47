//! One file a route.

pub mod chat;
pub mod completions;
pub mod health;
pub mod metrics;
pub mod models;
pub mod openapi;
pub mod page;
pub mod tandem;

use std::sync::Arc;

use axum::{
    Json,
    response::{IntoResponse, Response},
};

use super::{
    Server,
    answer::{Answer, Kind, stream},
    error::ApiError,
    pair::Pair,
    request::{Order, Telling},
    writer,
};

/// Has an order written and tells it as it was wished.
async fn answer<P: Pair>(
    server: Arc<Server<P>>,
    kind: Kind,
    order: Order,
) -> Result<Response, ApiError> {
    let order = Arc::new(order);
    let answer = Answer::new(kind, order.clone());
    let events = writer::start(server, order.clone()).await?;
    match order.telling {
        Telling::Whole => Ok(Json(answer.whole(events).await?).into_response()),
        Telling::Stream { .. } => stream::respond(answer, events).await,
    }
}
