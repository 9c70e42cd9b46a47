//! The client of clouds, against servers that are made up here.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod alone;
mod common;
mod dialects;
mod misbehaviour;
mod share;
mod tls;
