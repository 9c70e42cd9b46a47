//! Clients of the large model, whoever serves it, and the sessions of Tandem's own cloud.
//!
//! - [`remote`]: a cloud as the loop sees it: found out, asked within a deadline, left alone while
//!   it fails; [`opening`]: what it is told at the beginning
//!   (`ask`: an ask that is on its way); [`settings`]: where it is and how it is treated
//! - [`clouds`]: several of them as one, for when one fails; [`group`]: which are well, and whether they
//!   serve the same model; `waiting`: how long a text waits for any
//! - [`engine`]: serving engines, one file each: what to send, how to read what comes back
//! - `conversation`: a conversation with an engine that keeps no sessions; `connection`: the connection
//! - `compare`: whether vocabulary and template are the edge's; `probe`: who answers; [`salt`]: what keeps
//!   the conversations of several owners apart in an engine's cache
//! - [`service`]: Tandem's own cloud: sessions with a model on this machine; [`protocol`]: what is
//!   asked and answered; [`decoded_state`]: what the edge saw, for a cloud that collects
//! - `tandem`: the client of that cloud, which sends only what is new; `transport`: over HTTP, or by
//!   a call in the same process
//! - `breaker`, [`delay`]: when to leave a cloud alone; a network as a setting; `state`: whether it can be
//!   asked, for people
//! - [`address`], [`http`]: where a cloud is; requests, replies and what their failures mean; [`origin`]: for
//!   whose request they are sent
//!
//! Nothing here knows routers or HTTP servers.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod address;
mod ask;
mod breaker;
pub mod clouds;
mod compare;
mod connection;
mod conversation;
pub mod decoded_state;
pub mod delay;
pub mod engine;
pub mod group;
pub mod http;
pub mod opening;
pub mod origin;
mod probe;
pub mod protocol;
pub mod remote;
pub mod salt;
pub mod service;
pub mod settings;
mod state;
mod tandem;
mod transport;
mod waiting;

pub use self::engine::{Engine, EngineInfo};
pub use address::{Address, AddressError, Key};
pub use clouds::Clouds;
pub use compare::{Match, probe_messages};
pub use delay::Delay;
pub use group::CloudGroup;
pub use http::Endpoint;
pub use opening::{EdgeSide, Opening};
pub use origin::RequestOrigin;
pub use remote::{Introduction, Remote};
pub use salt::{CacheSalt, Salts};
pub use service::{Service, ServiceConfig};
pub use settings::{Settings, Target};
pub use state::CloudState;
