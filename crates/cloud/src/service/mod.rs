//! The cloud's sessions as plain code: what the HTTP server serves, and what a cloud in the same
//! process is asked directly.
//!
//! - [`Service`]: open, next, score, close; one file each for what takes more than a few lines
//! - `sessions`: who is here, and who has to leave when memory is full
//! - `conversation`: what was accepted, in the cloud's own tokens; pure
//! - `form`: the form that answers are held to
//! - `tokens`: from texts to tokens, long ones apart
//! - `writer`: the next tokens, or the next word
//! - [`collector`]: what edges see, for a service that collects it
//! - [`lazy`]: the model, loaded when the first session needs it
//! - [`error`]: why a request is refused
//!
//! A call whose future is dropped stops the work within a few tokens, and the session stays usable.

pub mod collector;
mod conversation;
pub mod error;
mod form;
pub mod lazy;
mod next;
mod open;
mod score;
mod sessions;
mod tokens;
mod writer;

use std::{fmt, sync::Arc};

use self::{sessions::Sessions, tokens::WorkQueue};
use crate::{
    CloudState,
    protocol::{Cost, Health},
};

pub use collector::{Collector, Observation, SampleCounts};
pub use error::ServiceError;
pub use lazy::LazyModel;

#[derive(Clone)]
pub struct ServiceConfig {
    /// Whether caches are kept between answers. Only for measuring what that is worth.
    pub reuse: bool,
    /// Where samples of live use go, if they are collected.
    pub collector: Option<Arc<dyn Collector>>,
    /// Who is told what answers cost.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self { reuse: true, collector: None, observer: None }
    }
}

/// Watches a service, for metrics.
pub trait Observer: Send + Sync {
    /// A question was answered. One that is answered from memory does not count.
    fn answered(&self, cost: &Cost);
}

/// Sessions of many edges with one large model.
pub struct Service {
    model: LazyModel,
    config: ServiceConfig,
    sessions: Sessions,
    tokenizing: WorkQueue,
    compiling: WorkQueue,
    grammars: form::Grammars,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("sessions", &self.sessions.count()).finish_non_exhaustive()
    }
}

impl Service {
    /// Nothing is loaded before the first session.
    pub fn new(model: LazyModel, config: ServiceConfig) -> Self {
        let (tokenizing, compiling) = (WorkQueue::default(), WorkQueue::default());
        let (sessions, grammars) = (Sessions::default(), form::Grammars::default());
        Self { model, config, sessions, tokenizing, compiling, grammars }
    }

    /// Loads the model, unless it is loaded already, so that no session waits for that.
    pub async fn load(&self) -> Result<(), ServiceError> {
        self.model.get().await?;
        Ok(())
    }

    /// Ends a session and frees its memory.
    pub async fn close(&self, id: &str) -> Result<(), ServiceError> {
        self.sessions.remove(id).await.map(drop)
    }

    /// What there is; loads nothing.
    pub fn health(&self) -> Health {
        Health {
            status: if self.model.has_failed() { "failed" } else { "ok" }.into(),
            service: "tandem-cloud".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            loaded: self.model.loaded().is_some(),
            sessions: self.sessions.count(),
            footprint: self.model.loaded().map(|model| model.footprint()),
        }
    }

    /// Whether a session would have to wait for the model; loads nothing.
    pub fn state(&self) -> CloudState {
        match self.model.loaded() {
            _ if self.model.has_failed() => CloudState::Unreachable,
            Some(_) => CloudState::Ready,
            None if self.model.is_loading() => CloudState::Loading,
            None => CloudState::NotLoaded,
        }
    }

    /// Waits until the model cannot be used any more, and says why.
    pub async fn failure(&self) -> String {
        self.model.failure().await
    }

    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }
}
