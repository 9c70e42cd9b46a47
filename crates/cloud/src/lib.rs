//! Clients of the large model.
//!
//! - [`protocol`]: what travels between an edge and Tandem's own cloud server
//! - [`remote`]: the client of that server: sends only what is new, resynchronises, reopens
//! - `http`: requests, answers and what their failures mean
//!
//! Nothing here knows models.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod http;
pub mod protocol;
pub mod remote;

pub use http::{Address, AddressError};
pub use remote::{Opening, Remote};
