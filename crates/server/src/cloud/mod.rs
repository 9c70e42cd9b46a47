//! The embedded cloud.
//!
//! - [`app`] and [`run`]: the server; `routes` holds one file a route, `body` and `error` are their
//!   one door in and out
//! - [`collect`]: what edges see, kept for training where both sides want that
//! - [`lazy`]: the model, loaded when the first session needs it
//! - `metrics`: figures
//! - `sessions`: who is here, and who has to leave when memory is full
//! - `conversation`: what was accepted, in the cloud's own tokens; pure
//! - `writer`: the next tokens, or the next word

mod body;
pub mod collect;
mod conversation;
mod error;
pub mod lazy;
mod metrics;
mod routes;
mod sessions;
mod writer;

use std::{future::Future, io, sync::Arc};

use ::cloud::protocol::code;
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::{delete, get, post},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;

use self::{error::ApiError, metrics::Metrics, sessions::Sessions};
use crate::listen::{ServerLimits, listen};
pub use collect::Collector;
pub use lazy::LazyModel;

/// The largest request read: a context of a million characters, four times over.
const LARGEST_BODY: usize = 4 << 20;

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// The key every request must bring, if any.
    pub key: Option<String>,
    /// Whether caches are kept between answers. Only for measuring what that is worth.
    pub reuse: bool,
    /// Where samples of live use go, if they are collected.
    pub collector: Option<Arc<Collector>>,
}

impl Default for Config {
    fn default() -> Self {
        Self { key: None, reuse: true, collector: None }
    }
}

/// What the routes share.
pub(crate) struct Server {
    config: Config,
    model: LazyModel,
    sessions: Sessions,
    metrics: Metrics,
}

/// The routes, as a service that needs no socket.
pub fn app(model: LazyModel, config: Config) -> Router {
    let metrics = Metrics::new(config.collector.as_deref());
    let sessions = Sessions::default();
    let server = Arc::new(Server { config, model, sessions, metrics });
    Router::new()
        .route("/v1/sessions", post(routes::open::open))
        .route("/v1/sessions/{id}", delete(routes::close::close))
        .route("/v1/sessions/{id}/next", post(routes::next::next))
        .route("/v1/sessions/{id}/score", post(routes::score::score))
        .route("/metrics", get(routes::metrics::metrics))
        .layer(middleware::from_fn_with_state(server.clone(), check_key))
        .route("/health", get(routes::health::health))
        .fallback(|| async { ApiError::not_found("there is nothing at this address") })
        .method_not_allowed_fallback(|| async {
            let message = "this address does not take that method";
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, code::INVALID, message)
        })
        .layer(middleware::from_fn_with_state(server.clone(), routes::metrics::count))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(server)
}

/// Serves until `shutdown`; what runs then is finished, within limits.
pub async fn run(
    listener: TcpListener,
    app: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    listen(listener, app, ServerLimits::default(), shutdown).await
}

async fn check_key(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let Some(key) = &server.config.key else { return Ok(next.run(request).await) };
    let given = request.headers().get("authorization").and_then(|v| v.to_str().ok());
    let given = given.and_then(|v| v.strip_prefix("Bearer ")).unwrap_or_default();
    // How long it takes tells nothing of the key: hashes are compared, to the end.
    let (given, wanted) = (Sha256::digest(given), Sha256::digest(key));
    if bool::from(given.as_slice().ct_eq(wanted.as_slice())) {
        return Ok(next.run(request).await);
    }
    Err(ApiError::new(StatusCode::UNAUTHORIZED, code::UNAUTHORIZED, "a valid key is needed"))
}
