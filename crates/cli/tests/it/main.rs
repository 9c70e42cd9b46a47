//! The real program, from outside. One test program: each is linked with everything.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
mod hub;
mod preset;
mod pull;
mod report;
mod serial;
