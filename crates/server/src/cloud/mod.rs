//! The cloud's HTTP server: a thin layer over [`Service`].
//!
//! - [`app`] and [`run`]: the server; `routes`: what is at which address; `body` and `error`: how
//!   requests come in and errors go out
//! - `metrics`: figures for Prometheus

mod body;
mod error;
mod metrics;
mod routes;

use std::{future::Future, io, sync::Arc};

use ::cloud::{
    protocol::code,
    service::{Collector, Observer, Service, ServiceConfig},
};
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

use self::{error::ApiError, metrics::Metrics, routes::sessions};
use crate::listen::{ServerLimits, listen};
pub use ::cloud::service::LazyModel;

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
    pub collector: Option<Arc<dyn Collector>>,
}

impl Default for Config {
    fn default() -> Self {
        Self { key: None, reuse: true, collector: None }
    }
}

/// What the routes share.
pub(crate) struct Server {
    key: Option<String>,
    service: Service,
    metrics: Arc<Metrics>,
}

/// The routes, as a service that needs no socket.
pub fn app(model: LazyModel, config: Config) -> Router {
    let Config { key, reuse, collector } = config;
    let metrics = Arc::new(Metrics::new(collector.clone()));
    let observer = Some(metrics.clone() as Arc<dyn Observer>);
    let service = Service::new(model, ServiceConfig { reuse, collector, observer });
    let server = Arc::new(Server { key, service, metrics });
    Router::new()
        .route("/v1/sessions", post(sessions::open))
        .route("/v1/sessions/{id}", delete(sessions::close))
        .route("/v1/sessions/{id}/next", post(sessions::next))
        .route("/v1/sessions/{id}/score", post(sessions::score))
        .route("/metrics", get(routes::metrics::metrics))
        .layer(middleware::from_fn_with_state(server.clone(), check_key))
        .route("/health", get(sessions::health))
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
    let Some(key) = &server.key else { return Ok(next.run(request).await) };
    let given = request.headers().get("authorization").and_then(|v| v.to_str().ok());
    let given = given.and_then(|v| v.strip_prefix("Bearer ")).unwrap_or_default();
    // How long it takes tells nothing of the key: hashes are compared, to the end.
    let (given, wanted) = (Sha256::digest(given), Sha256::digest(key));
    if bool::from(given.as_slice().ct_eq(wanted.as_slice())) {
        return Ok(next.run(request).await);
    }
    Err(ApiError::new(StatusCode::UNAUTHORIZED, code::UNAUTHORIZED, "a valid key is needed"))
}
