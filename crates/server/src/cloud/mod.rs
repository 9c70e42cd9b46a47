//! The cloud's HTTP server: a thin layer over [`Service`].
//!
//! - [`app`] and [`run`]: the server; `routes`: what is at which address
//! - `error`: the service's errors, over [`http`]; `metrics`: figures for Prometheus

mod error;
mod metrics;
mod routes;

use std::{future::Future, io, sync::Arc};

use ::cloud::{
    protocol::code,
    service::{Collector, Observer, Service, ServiceConfig},
};
use axum::{
    Router, middleware,
    routing::{delete, get, post},
};
use tokio::net::TcpListener;

use self::metrics::Metrics;
use crate::{
    http::{self, Access, Keys},
    listen::{ServerLimits, listen},
};
pub use ::cloud::service::LazyModel;

#[derive(Clone, Debug)]
pub struct Config {
    /// Keys, one of which every request must bring; none for all.
    pub keys: Keys,
    /// Whether only this machine can connect. Without keys, requests under any other name than this
    /// machine's own are then refused.
    pub loopback: bool,
    /// Whether caches are kept between answers. Only for measuring what that is worth.
    pub reuse: bool,
    /// Where samples of live use go, if they are collected.
    pub collector: Option<Arc<dyn Collector>>,
}

impl Default for Config {
    fn default() -> Self {
        Self { keys: Keys::default(), loopback: true, reuse: true, collector: None }
    }
}

/// What the routes share.
pub(crate) struct Server {
    service: Service,
    metrics: Arc<Metrics>,
}

/// The routes, as a service that needs no socket.
pub fn app(model: LazyModel, config: Config) -> Router {
    let Config { keys, loopback, reuse, collector } = config;
    let access = Arc::new(Access { keys, loopback, no_key: code::UNAUTHORIZED });
    let metrics = Arc::new(Metrics::new(collector.clone()));
    let observer = Some(metrics.clone() as Arc<dyn Observer>);
    let service = Service::new(model, ServiceConfig { reuse, collector, observer });
    let requests = metrics.requests.clone();
    let server = Arc::new(Server { service, metrics });
    Router::new()
        .route("/v1/sessions", post(routes::open))
        .route("/v1/sessions/{id}", delete(routes::close))
        .route("/v1/sessions/{id}/next", post(routes::next))
        .route("/v1/sessions/{id}/score", post(routes::score))
        .route("/metrics", get(routes::metrics))
        .layer(middleware::from_fn_with_state(access.clone(), http::access::check_key))
        .route("/health", get(routes::health))
        .fallback(|| async { http::error::not_found().or_code(code::NOT_FOUND) })
        .method_not_allowed_fallback(|| async {
            http::error::method_not_allowed().or_code(code::INVALID)
        })
        .layer(middleware::from_fn_with_state(requests, http::metrics::count))
        .layer(middleware::from_fn_with_state(access, http::access::check_host))
        .with_state(server)
        .layer(middleware::from_fn(http::request_id::name))
}

/// Serves until `shutdown`; what runs then is finished, within limits.
pub async fn run(
    listener: TcpListener,
    app: Router,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    listen(listener, app, ServerLimits::default(), shutdown).await
}
