//! HTTP servers.
//!
//! - [`cloud`]: the embedded cloud, which serves a large model to many edges with the protocol of
//!   [`::cloud::protocol`]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod cloud;
