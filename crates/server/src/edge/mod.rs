//! The edge server: OpenAI's API, the page, metrics.
//!
//! The way of one request, and the module that holds each part of it:
//!
//! - [`listen`](crate::listen): connections; [`app`]: the routes, as a service without a socket
//! - [`access`]: who may come in, what browsers are told; [`body`]: JSON, not too large or slow
//! - [`request`]: what is asked, checked
//! - [`writer`]: takes a seat of the pair and makes the texts in a task of its own
//! - [`answer`]: tells them in OpenAI's shapes; [`summary`]: the field `tandem`
//! - [`error`]: the one door for failures; [`metrics`]: figures
//! - [`routes`]: one file a route

pub mod access;
pub mod answer;
pub mod body;
pub mod config;
pub mod error;
pub mod metrics;
pub mod request;
pub mod routes;
pub mod summary;
pub mod writer;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{get, post},
};

pub use access::Keys;
pub use config::{CloudLocation, Config, Cors, Defaults, Mode, ServerInfo};
use tandem::{Pair, Tandem};

use self::metrics::Metrics;

/// What the routes share.
pub struct Server<P: Pair> {
    config: Config,
    tandem: Tandem<P>,
    metrics: Metrics,
}

impl<P: Pair> Server<P> {
    /// Serves a pair. Its small model is loaded and every seat opened before the first request.
    pub async fn new(tandem: Tandem<P>, config: Config) -> Result<Arc<Self>, tandem::Error> {
        tandem.load().await?;
        Ok(Arc::new(Self { config, tandem, metrics: Metrics::default() }))
    }

    /// Seats that are taken.
    pub fn running(&self) -> usize {
        self.tandem.running()
    }

    /// Lets no new text begin, and says goodbye to the cloud.
    pub async fn close(&self) {
        self.tandem.close().await;
    }
}

/// The routes, as a service that needs no socket.
pub fn app<P: Pair>(server: &Arc<Server<P>>) -> Router {
    let app = Router::new()
        .route("/v1/chat/completions", post(routes::chat::chat::<P>))
        .route("/v1/completions", post(routes::completions::completions::<P>))
        .route("/v1/models", get(routes::models::models))
        .route("/v1/models/{id}", get(routes::models::model))
        .route("/v1/tandem", get(routes::tandem::tandem::<P>))
        .route("/metrics", get(routes::metrics::metrics::<P>))
        .layer(middleware::from_fn_with_state(server.clone(), access::check_key::<P>))
        .route("/health", get(routes::health::health::<P>))
        .route("/openapi.json", get(routes::openapi::openapi))
        .route("/", get(routes::page::page))
        .route("/{file}", get(routes::page::file))
        .fallback(access::nothing_here)
        .method_not_allowed_fallback(access::wrong_method)
        .layer(middleware::from_fn_with_state(server.clone(), routes::metrics::count::<P>))
        .layer(middleware::from_fn_with_state(server.clone(), access::check_host::<P>))
        .with_state(server.clone());
    let app = match access::cors(&server.config.cors) {
        Some(cors) => app.layer(cors),
        None => app,
    };
    app.layer(middleware::from_fn(access::security_headers))
}
