//! One file a route; `openapi` describes them all.

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
    extract::{FromRequest, Request},
    response::Response,
};
use serde_json::{Map, Value};

use ::tandem::Pair;

use super::{
    Server,
    answer::{Answer, shape::Shape, stream},
    request::{Checks, Delivery, GenerationRequest, PairChecks},
    writer::{self, Started},
};
use crate::http::{
    ApiError,
    body::{json_bytes, not_json},
};

/// A body that is a JSON object; what is in it is the route's business.
pub struct ObjectBody(Value);

impl ObjectBody {
    /// Reads what a route wants of it. The rest is not kept: it may take many times the memory of
    /// what was asked for, and a request may wait for long.
    pub fn read<T>(self, read: impl FnOnce(&Value) -> T) -> T {
        read(&self.0)
    }
}

impl<P: Pair> FromRequest<Arc<Server<P>>> for ObjectBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, server: &Arc<Server<P>>) -> Result<Self, ApiError> {
        let bytes = json_bytes(request, server.config.body).await?;
        let object: Map<String, Value> = serde_json::from_slice(&bytes).map_err(not_json)?;
        Ok(Self(object.into()))
    }
}

impl<P: Pair> Server<P> {
    /// What requests are checked against.
    pub fn checks(&self) -> Checks<'_> {
        let pairs = self.pairs.with_ids().map(|(id, pair)| PairChecks {
            id,
            name: &pair.name,
            defaults: pair.tandem.defaults(),
            routers: pair.tandem.routers(),
        });
        Checks { pairs: pairs.collect(), modes: self.modes() }
    }
}

/// Has the texts of a request written, and delivers them as it wishes.
async fn answer<S: Shape, P: Pair>(
    server: Arc<Server<P>>,
    request: GenerationRequest,
) -> Result<Response, ApiError> {
    let request = Arc::new(request);
    let answer = Answer::<S>::new(request.clone());
    let Started { events, room } = writer::start(server, request.clone()).await?;
    match request.delivery {
        Delivery::Whole => room.tell(&answer.whole(events).await?),
        Delivery::Stream { .. } => stream::respond(answer, events).await,
    }
}
