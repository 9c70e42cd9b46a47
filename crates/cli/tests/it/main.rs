//! The real program, from outside. One test program: each is linked with everything.
// Many of them train, evaluate or export.
#![cfg(feature = "lab")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;
mod hub;
mod preset;
mod pull;
mod report;
mod serial;
mod settings;
