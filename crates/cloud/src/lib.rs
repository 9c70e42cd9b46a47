//! Clients of the large model, whoever serves it.
//!
//! - [`remote`]: a cloud as the loop sees it: found out, asked within a deadline, left alone while
//!   it fails; [`opening`]: what it is told at the beginning
//! - [`engine`]: serving engines, one file each: what to send, how to read what comes back
//! - `conversation`: a conversation with an engine that keeps no sessions; `connection`: the connection
//! - `compare`: whether vocabulary and template are the edge's; `probe`: who answers
//! - [`protocol`], `embedded`: Tandem's own cloud server, which sends only what is new; [`seen`]:
//!   what the edge record_step, for a cloud that collects
//! - `breaker`, [`delay`]: when to leave a cloud alone; a network as a setting
//! - [`address`], [`http`]: where a cloud is; requests, replies and what their failures mean
//!
//! Nothing here knows models.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod address;
mod breaker;
mod compare;
mod connection;
mod conversation;
pub mod delay;
mod embedded;
pub mod engine;
pub mod http;
pub mod opening;
mod probe;
pub mod protocol;
pub mod remote;
pub mod seen;

pub use address::{Address, AddressError, Key};
pub use compare::{Match, probe_messages};
pub use delay::Delay;
pub use engine::{Engine, EngineInfo};
pub use http::Endpoint;
pub use opening::{EdgeSide, Opening};
pub use remote::{Introduction, Remote, Settings};
