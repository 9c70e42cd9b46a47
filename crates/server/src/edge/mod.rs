//! The edge server: OpenAI's API, the page, metrics.
//!
//! The way of one request, and the module that holds each part of it:
//!
//! - [`listen`](crate::listen): connections; [`app`]: the routes, as a service without a socket
//! - [`access`]: who may come in, what browsers are told; [`body`]: JSON, not too large or slow
//! - [`request`]: what is asked, checked: an order
//! - [`pool`]: a seat, the one that remembers most of the conversation; [`pair`]: the seam to the
//!   two models, [`models`]: the real ones; [`judge`]: who judges
//! - [`writer`]: makes the texts in a task of its own
//! - [`answer`]: tells them in OpenAI's shapes; [`summary`]: the field `tandem`
//! - [`error`]: the one door for failures; [`metrics`]: figures
//! - [`routes`]: one file a route

pub mod access;
pub mod answer;
pub mod body;
pub mod config;
pub mod error;
pub mod judge;
pub mod metrics;
pub mod models;
pub mod pair;
pub mod pool;
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
pub use judge::{NamedRouter, RouterRegistry};
pub use models::Models;
pub use pair::{Introduction, Pair, Seat};

use self::{metrics::Metrics, pool::Pool};

/// What the routes share.
pub struct Server<P: Pair> {
    config: Config,
    judges: RouterRegistry,
    pool: Arc<Pool<P>>,
    metrics: Metrics,
}

impl<P: Pair> Server<P> {
    /// Opens every seat.
    pub async fn new(
        pair: P,
        judges: RouterRegistry,
        config: Config,
    ) -> Result<Arc<Self>, Box<dyn std::error::Error + Send + Sync>> {
        let pool = Pool::open(Arc::new(pair), config.parallel, config.queue).await?;
        let (pool, metrics) = (Arc::new(pool), Metrics::default());
        Ok(Arc::new(Self { config, judges, pool, metrics }))
    }

    /// Seats that are taken.
    pub fn running(&self) -> usize {
        self.pool.running()
    }

    /// Lets no new text begin, and says goodbye to the cloud.
    pub async fn close(&self) {
        self.pool.close().await;
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
