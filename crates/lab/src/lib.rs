//! The workshop: everything that makes and measures routers, and nothing that a device needs to
//! decode with one.
//!
//! The way of a router, and the module that holds each part of it:
//!
//! - [`collect`]: positions at which the edge proposed a token, in folders of samples
//! - [`mod@label`]: what the router should have said at each position of a worked answer
//! - [`mod@train`]: from samples to a router file
//! - [`eval`]: questions, answers, and what many answers say of a way to decode
//! - [`report`]: the same as a page with pictures
//! - [`statistics`]: how good scores are
//!
//! Beside that, [`mod@export`] writes a GGUF model as ONNX.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod collect;
pub mod eval;
pub mod export;
pub mod label;
pub mod report;
pub mod statistics;
pub mod train;
