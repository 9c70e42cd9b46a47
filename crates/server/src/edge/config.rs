//! How the server behaves.

use std::time::Duration;

use axum::http::HeaderValue;
pub use tandem::{CloudLocation, Defaults, Mode};

use crate::http::{BodyLimits, Keys, Quota};

/// What callers may know of the models.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// What people call the small one.
    pub edge: String,
    /// What people call the large one; no address.
    pub cloud: Option<String>,
    pub location: CloudLocation,
    pub preset: Option<String>,
}

/// Which pages of others may use the server.
#[derive(Clone, Debug, Default)]
pub enum Cors {
    /// Only the page that this server serves.
    #[default]
    Off,
    Any,
    Origins(Vec<HeaderValue>),
}

/// Everything that is not a model.
#[derive(Clone, Debug)]
pub struct Config {
    pub about: ServerInfo,
    /// Keys, one of which every request must bring; none for all.
    pub keys: Keys,
    /// Whether only this machine can connect. Without keys, requests under any other name than this
    /// machine's own are then refused.
    pub loopback: bool,
    pub cors: Cors,
    pub time: Duration,
    pub body: BodyLimits,
    pub allowed: Allowed,
}

/// What the operator allows, whatever requests ask for. The largest share of the cloud is the
/// [registry](tandem::RouterRegistry::limited)'s.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Modes that requests may have.
    pub modes: Vec<Mode>,
    /// What each key may use in a minute.
    pub quota: Quota,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { modes: Mode::ALL.to_vec(), quota: Quota::default() }
    }
}
