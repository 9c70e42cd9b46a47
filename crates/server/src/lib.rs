//! HTTP servers.
//!
//! - [`cloud`]: the embedded cloud, which serves a large model to many edges with the protocol of
//!   [`::cloud::protocol`]
//! - [`edge`]: the edge server: OpenAI's API over both models, the page, metrics
//! - [`http`]: access, bodies, errors and request counts, for both
//! - [`listen`]: connections, for both; `progress`: those whose other side never reads; [`tls`]:
//!   encrypted ones; `random`: names of requests and answers; `clock`: the time of day
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod clock;
pub mod cloud;
pub mod edge;
pub mod http;
pub mod listen;
mod progress;
mod random;
pub mod tls;
