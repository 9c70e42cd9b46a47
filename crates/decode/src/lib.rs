//! Decoding with two models: a small one on this device writes almost every token, a large one in
//! the cloud writes those where a router does not trust it.
//!
//! The way of one token, and the module that holds each part of it:
//!
//! - [`session`]: the loop; [`relay`]: the loop of mode `large`; [`generation`]: either
//! - [`edge`], [`router`], [`cloud`]: the seams to the small model, the judge and the large model
//! - [`conversation`]: what both models are given to begin with
//! - [`step`]: what the edge returns for one position
//! - [`mod@features`]: the shape of its distribution, for whoever learns from it
//! - [`decision`]: score, threshold, keep or ask
//! - [`sampling`]: from logits to a token; `logits`: sums over a whole vocabulary
//! - [`boundary`]: words, where the two vocabularies differ
//! - [`transcript`]: what was accepted; [`text`] and [`stop`] decide what of it can be shown
//! - [`trace`] and [`stats`]: what is told about it
//! - [`statistics`]: what many measured values say; [`hex`]: digests as people read them
//! - `fake`: scripted models for tests (feature `fakes`)
//!
//! Nothing here knows HTTP or tensors.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod boundary;
pub mod budget;
pub mod cloud;
pub mod conversation;
pub mod decision;
pub mod edge;
#[cfg(feature = "fakes")]
pub mod fake;
pub mod features;
pub mod generation;
mod hex;
pub mod logits;
pub mod relay;
pub mod router;
pub mod sampling;
pub mod session;
pub mod statistics;
pub mod stats;
pub mod step;
pub mod stop;
pub mod text;
pub mod token;
pub mod trace;
pub mod transcript;
pub mod vocabulary;

pub use budget::{Budget, BudgetState, ThresholdPolicy};
pub use cloud::{Answer, Answered, Ask, Cloud, CloudError, Exchange, OnCloudError, Opened, Want};
pub use conversation::{Message, Role};
pub use decision::{Decision, Score, Threshold, ThresholdError};
pub use edge::{Edge, EdgeError};
pub use generation::Generation;
pub use hex::hex;
pub use relay::Relay;
pub use router::Router;
pub use sampling::{Sampling, SamplingError};
pub use session::{Plan, Routing, Session, SessionError};
pub use stats::Stats;
pub use step::{Reading, Step};
pub use token::{Token, common_prefix};
pub use trace::{Accepted, Alternative, FinishReason, Sent, Source, Span, Times, Usage};
pub use transcript::{Limits, Transcript};
pub use vocabulary::{Fingerprint, Vocabulary};
