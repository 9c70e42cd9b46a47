//! How the server behaves.

use std::time::Duration;

use axum::http::HeaderValue;
use decode::{Limits, OnCloudError, Sampling};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::{BodyLimits, Keys};

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The small model alone.
    Small,
    /// Both.
    Joint,
    /// The large model alone.
    Large,
}

impl Mode {
    /// All of them, the usual one first.
    pub const ALL: [Self; 3] = [Self::Joint, Self::Small, Self::Large];

    /// The model's name that stands for it.
    pub fn model(self) -> &'static str {
        match self {
            Self::Small => "tandem-small",
            Self::Joint => "tandem-joint",
            Self::Large => "tandem-large",
        }
    }

    /// The mode a model's name stands for.
    pub fn of(model: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.model() == model)
    }
}

/// Where the cloud is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CloudLocation {
    /// In this process.
    Embedded,
    /// Elsewhere.
    Remote,
    /// Nowhere.
    None,
}

/// What callers may know of the models.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// What people call the small one.
    pub edge: String,
    /// What people call the large one; no address.
    pub cloud: Option<String>,
    /// Where it is.
    pub place: CloudLocation,
    /// The preset in use.
    pub preset: Option<String>,
}

/// What a request that says nothing gets.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Where it names no model.
    pub mode: Mode,
    /// Its seed is used only if `seeded`.
    pub sampling: Sampling,
    /// Whether every text has the same seed.
    pub seeded: bool,
    /// When to end.
    pub limits: Limits,
    /// The system message.
    pub system: String,
    /// What a failure of the cloud means.
    pub on_error: OnCloudError,
}

/// Which pages of others may use the server.
#[derive(Clone, Debug, Default)]
pub enum Cors {
    /// None.
    #[default]
    Off,
    /// Any.
    Any,
    /// Those of these origins.
    Origins(Vec<HeaderValue>),
}

/// Everything that is not a model.
#[derive(Clone, Debug)]
pub struct Config {
    /// What callers may know.
    pub about: ServerInfo,
    /// What a request that says nothing gets.
    pub defaults: Defaults,
    /// Keys, one of which every request must bring; none for all.
    pub keys: Keys,
    /// Whether only this machine can connect. Without keys, requests under any other name than this
    /// machine's own are then refused.
    pub loopback: bool,
    /// Pages of others.
    pub cors: Cors,
    /// Texts made at once.
    pub parallel: usize,
    /// Requests that may wait.
    pub queue: usize,
    /// How long one answer may take.
    pub time: Duration,
    /// What the body of a request may cost.
    pub body: BodyLimits,
}
