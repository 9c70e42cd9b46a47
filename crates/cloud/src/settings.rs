//! Where a cloud is, and how it is treated.

use std::{fmt, sync::Arc, time::Duration};

use decode::OnCloudError;

use crate::{CacheSalt, Delay, Endpoint, engine::Engine, service::Service, transport::HERE};

#[derive(Clone, Debug)]
pub enum Target {
    Http(Endpoint),
    InProcess(Arc<Service>),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(endpoint) => endpoint.address.fmt(f),
            Self::InProcess(_) => f.write_str(HERE),
        }
    }
}

/// How a cloud is reached and treated.
#[derive(Clone, Debug)]
pub struct Settings {
    pub target: Target,
    pub engine: Option<Engine>,
    /// Which of its models, if it has several.
    pub model: Option<String>,
    pub deadline: Duration,
    pub on_error: OnCloudError,
    /// The longest time that a text waits for a cloud that fails, where it waits; `None` for ever.
    pub max_wait: Option<Duration>,
    /// A network to simulate.
    pub delay: Option<Delay>,
    /// Whose conversations these are, for an engine that keeps those of several apart in its cache.
    pub salt: Option<CacheSalt>,
}

impl Settings {
    /// How long an ask may take unless told otherwise: a long prompt on a slow machine takes a
    /// minute or two to read.
    pub const DEADLINE: Duration = Duration::from_secs(120);

    /// A cloud at an address; everything else as usual.
    pub fn new(endpoint: Endpoint) -> Self {
        Self::at(Target::Http(endpoint))
    }

    /// A cloud in this process; everything else as usual.
    pub fn in_process(service: Arc<Service>) -> Self {
        Self { engine: Some(Engine::Tandem), ..Self::at(Target::InProcess(service)) }
    }

    fn at(target: Target) -> Self {
        Self {
            target,
            engine: None,
            model: None,
            deadline: Self::DEADLINE,
            on_error: OnCloudError::Keep,
            max_wait: None,
            delay: None,
            salt: None,
        }
    }
}
