//! The edge server: OpenAI's API, the page, metrics.
//!
//! The way of one request, and the module that holds each part of it:
//!
//! - [`listen`](crate::listen): connections; [`app`]: the routes, as a service without a socket
//! - [`http`]: who may come in, bodies, the shape of errors; `browser`: what browsers
//!   are told
//! - `request`: what is asked, read and then checked
//! - `pairs`: the pairs that are served, by the names of their models
//! - `writer`: takes a seat of the pair and makes the texts in a task of its own
//! - `answer`: tells them in OpenAI's shapes; `summary`: the field `tandem`
//! - `apis`: Anthropic's, Ollama's and the newer of OpenAI's APIs over the same core
//! - `error`: what callers may know of failures; `metrics`: figures
//! - `routes`: one file a route

mod answer;
mod apis;
mod browser;
pub mod config;
mod error;
mod metrics;
pub mod pairs;
mod request;
mod routes;
mod summary;
mod writer;

use std::sync::{Arc, PoisonError, RwLock};

use axum::{
    Router, middleware,
    routing::{get, post},
};

pub use config::{Allowed, CloudLocation, Config, Cors, Defaults, Mode, ServerInfo};
pub use pairs::FurtherPair;
use tandem::{Pair, Tandem};

use self::{
    metrics::Metrics,
    pairs::{OWN, Pairs, ServedPair},
};
use crate::http::{self, Access, Keys, Quotas, quota::QuotaCheck};

/// What the routes share.
pub struct Server<P: Pair> {
    config: Config,
    pairs: Pairs<P>,
    metrics: Metrics,
    /// Modes that requests may have now.
    modes: RwLock<Arc<[Mode]>>,
    quotas: Arc<Quotas>,
}

impl<P: Pair> Server<P> {
    /// Serves a pair. Its small model is loaded and every seat opened before the first request.
    pub async fn new(tandem: Tandem<P>, config: Config) -> Result<Arc<Self>, tandem::Error> {
        Self::with_pairs(tandem, vec![], config).await
    }

    /// Serves further pairs besides, each under its own name. Their small models are loaded here too, so
    /// that what cannot be served is an error before anything is.
    pub async fn with_pairs(
        own: Tandem<P>,
        further: Vec<FurtherPair<P>>,
        config: Config,
    ) -> Result<Arc<Self>, tandem::Error> {
        let metrics = Metrics::default();
        let served = |name: String, tandem, about| {
            let metrics = metrics.of_pair(&name);
            ServedPair { name, tandem, about, metrics }
        };
        for (at, pair) in further.iter().enumerate() {
            pairs::check_name(&pair.name).map_err(tandem::Error::Usage)?;
            if further[..at].iter().any(|earlier| earlier.name == pair.name) {
                let reason = format!("two pairs are named {:?}", pair.name);
                return Err(tandem::Error::Usage(reason));
            }
        }
        let own = served(OWN.to_owned(), own, config.about.clone());
        let further = further.into_iter().map(|pair| served(pair.name, pair.tandem, pair.about));
        let pairs = Pairs::new(own, further);
        for pair in pairs.iter() {
            pair.tandem.load().await?;
        }
        let quotas = Arc::new(Quotas::new(config.allowed.quota));
        let modes = RwLock::new(listed(&config.allowed));
        Ok(Arc::new(Self { config, pairs, metrics, modes, quotas }))
    }

    /// Lets in whoever has one of these keys, and allows this, from the next request on. What is under
    /// way goes on as it began.
    pub fn reconfigure(&self, keys: &Keys, allowed: Allowed) {
        self.config.keys.replace(keys);
        self.quotas.replace(allowed.quota);
        *self.modes.write().unwrap_or_else(PoisonError::into_inner) = listed(&allowed);
    }

    /// Modes that requests may have, in the order in which all of them are listed.
    fn modes(&self) -> Arc<[Mode]> {
        self.modes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The pairs in the modes that requests may have now: the models that lists tell.
    fn models(&self) -> impl Iterator<Item = (&ServedPair<P>, Mode)> {
        let modes = self.modes();
        let all = self.pairs.iter().flat_map(|pair| Mode::ALL.map(|mode| (pair, mode)));
        all.filter(move |(_, mode)| modes.contains(mode))
    }

    /// One of these by its name.
    fn model(&self, name: &str) -> Option<(&ServedPair<P>, Mode)> {
        self.pairs.find(name).filter(|(_, mode)| self.modes().contains(mode))
    }

    /// Seats that are taken.
    pub fn running(&self) -> usize {
        self.pairs.running()
    }

    /// Waits until a model cannot be used any more, and says why.
    pub async fn failure(&self) -> String {
        self.pairs.failure().await
    }

    /// Starts no new text, and closes its sessions at the clouds.
    pub async fn close(&self) {
        for pair in self.pairs.iter() {
            pair.tandem.close().await;
        }
    }
}

/// The modes that are allowed, in the order in which all of them are listed.
fn listed(allowed: &Allowed) -> Arc<[Mode]> {
    Mode::ALL.into_iter().filter(|mode| allowed.modes.contains(mode)).collect()
}

/// The routes, as a service that needs no socket.
pub fn app<P: Pair>(server: &Arc<Server<P>>) -> Router {
    let config = &server.config;
    let access = Arc::new(Access {
        keys: config.keys.clone(),
        loopback: config.loopback,
        no_key: "invalid_api_key",
    });
    let quotas = QuotaCheck { keys: config.keys.clone(), quotas: server.quotas.clone() };
    let requests = server.metrics.requests.clone();
    let app = Router::new()
        .route("/v1/chat/completions", post(routes::chat::chat::<P>))
        .route("/v1/completions", post(routes::completions::completions::<P>))
        .route("/v1/responses", post(apis::responses::responses::<P>))
        .route("/v1/embeddings", post(apis::embeddings::embeddings))
        .route("/v1/messages", post(apis::anthropic::messages::<P>))
        .route("/v1/messages/count_tokens", post(apis::anthropic::count_tokens::<P>))
        .route("/api/chat", post(apis::ollama::chat::<P>))
        .route("/api/generate", post(apis::ollama::generate::<P>))
        .route("/api/tags", get(apis::ollama::models::tags::<P>))
        .route("/api/ps", get(apis::ollama::models::ps::<P>))
        .route("/api/show", post(apis::ollama::models::show::<P>))
        .route("/api/embed", post(apis::embeddings::embed))
        .route("/api/embeddings", post(apis::embeddings::old_embeddings))
        .route("/v1/models", get(routes::models::models::<P>))
        .route("/v1/models/{id}", get(routes::models::model::<P>))
        .route("/v1/tandem", get(routes::tandem::tandem::<P>))
        .route("/metrics", get(routes::metrics::metrics::<P>))
        .layer(middleware::from_fn_with_state(quotas, http::quota::check_quota))
        .layer(middleware::from_fn_with_state(access.clone(), http::access::check_key))
        .layer(middleware::from_fn(apis::key::translate))
        .route("/api/version", get(apis::ollama::models::version))
        .route("/health", get(routes::health::health::<P>))
        .route("/ready", get(routes::health::ready::<P>))
        .route("/openapi.json", get(routes::openapi::openapi))
        .route("/", get(routes::page::page))
        .route("/{file}", get(routes::page::file))
        .fallback(|| async { http::error::not_found() })
        .method_not_allowed_fallback(|| async { http::error::method_not_allowed() })
        .layer(middleware::from_fn_with_state(requests, http::metrics::count))
        .layer(middleware::from_fn_with_state(access, http::access::check_host))
        .layer(middleware::from_fn(apis::errors::shape))
        .with_state(server.clone());
    let app = match browser::cors(&config.cors) {
        Some(cors) => app.layer(cors),
        None => app,
    };
    app.layer(middleware::from_fn(browser::security_headers))
        .layer(middleware::from_fn(http::request_id::name))
}
