//! Every test of the servers but the flood, which measures its process. One program: each is linked
//! with two engines.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod about;
mod access;
mod alone;
mod api;
mod common;
mod document;
mod mixed;
mod scripted;
