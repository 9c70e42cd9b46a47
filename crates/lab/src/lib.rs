//! The workshop: everything that makes and measures routers, and nothing that a device needs to
//! decode with one.
//!
//! The way of a router, and the module that holds each part of it:
//!
//! - [`collect`]: positions at which the edge proposed a token, in folders of samples
//! - [`mod@label`]: what the router should have said at each position of a worked answer
//! - [`mod@train`]: from samples to a router file
//! - [`mod@calibrate`]: which threshold asks at which share of tokens
//! - [`query`]: samples for a router of whole answers, from results of an evaluation
//! - [`eval`]: questions, answers, and what many answers say of a router and a budget
//! - [`report`]: the same as a page with pictures
//! - [`mod@tune`]: all of it in one run, from prompts to a preset
//!
//! What they share: [`worker`] decodes on one seat of a pair, [`record`] keeps what a router judged,
//! [`statistics`] says how good scores are and how sure a mean is, [`progress`] tells how far a run
//! is, [`energy`] what it used, [`error`] why it ended early. Beside all that, [`mod@export`] writes a GGUF model as ONNX.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod calibrate;
pub mod collect;
pub mod energy;
pub mod error;
pub mod eval;
pub mod export;
pub mod label;
pub mod progress;
pub mod query;
pub mod record;
pub mod report;
pub mod statistics;
pub mod train;
pub mod tune;
pub mod worker;

pub use error::Error;
pub use progress::Progress;
