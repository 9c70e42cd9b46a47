//! Decoding with two models: a small one on this device writes almost every token, a large one in
//! the cloud writes those where a router does not trust it.
//!
//! The modules, in the order in which a token passes through them:
//!
//! - [`input`]: what a generation begins with
//! - [`session`]: the joint loop; [`relay`]: the loop of mode `large`; [`verify`]: that of mode `verify`
//! - `form`: holding its text to a form; `speculation`: what the edge writes while an answer is on its way,
//!   `branches`: behind several choices at once; `judging`: one request for several doubtful places;
//!   `in_flight`: answers that are to come; `warm`: what the cloud does before the first ask
//! - [`edge`], [`router`], [`cloud`]: the traits of the small model, the router and the large model
//! - [`conversation`]: the messages that both models begin with
//! - [`vocabulary`] and [`token`]: the tokenizer's trait, and token ids
//! - [`step`]: what the edge returns for one position
//! - [`constraint`]: the trait of what holds a text to a form; `closing`: JSON near its limit
//! - [`mod@features`]: features of its distribution, for trained routers
//! - [`decision`]: score, threshold, keep or ask; [`budget`]: thresholds that follow a budget,
//!   [`pace`]: or a time between tokens
//! - [`sampling`]: from logits to a token; [`logits`]: sums over a whole vocabulary
//! - [`boundary`]: word boundaries, for models with different vocabularies
//! - [`transcript`]: the accepted text; [`text`] and [`stop`] decide how much of it can be shown
//! - [`trace`] and [`stats`]: what is recorded of every token and of the whole text
//! - [`statistics`]: percentiles of measured values; [`hex`](hex()): digests as text
//! - `fake`: scripted models for tests; `mutation`: damaged texts for them (feature `fakes`)
//!
//! Nothing here knows HTTP or tensors.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod boundary;
mod branches;
pub mod budget;
mod closing;
pub mod cloud;
pub mod constraint;
pub mod conversation;
pub mod decision;
pub mod edge;
#[cfg(feature = "fakes")]
pub mod fake;
pub mod features;
mod form;
mod hex;
mod in_flight;
pub mod input;
mod judging;
pub mod logits;
#[cfg(feature = "fakes")]
pub mod mutation;
pub mod pace;
pub mod relay;
pub mod router;
pub mod sampling;
pub mod session;
mod speculation;
pub mod statistics;
pub mod stats;
pub mod step;
pub mod stop;
pub mod text;
pub mod token;
pub mod trace;
pub mod transcript;
pub mod verify;
pub mod vocabulary;
mod warm;

pub use branches::LONGEST_BRANCH;
pub use budget::{Budget, BudgetState, ThresholdPolicy};
pub use cloud::{
    Answer, AnswerLength, AnswerToken, Ask, Cloud, CloudError, Draft, Exchange, Handshake, Judged,
    Judgement, OnCloudError, Pending, PendingAnswer,
};
pub use constraint::{Constrained, Constraint, ConstraintError, Continuation};
pub use conversation::{Message, Role};
pub use decision::{Decision, Score, Threshold, ThresholdError};
pub use edge::{Edge, EdgeError};
pub use hex::hex;
pub use input::SessionInput;
pub use pace::{Miss, Pace, PaceState};
pub use relay::Relay;
pub use router::Router;
pub use sampling::{Sampling, SamplingError};
pub use session::{Routing, Session, SessionError};
pub use stats::Stats;
pub use step::{Reading, Step};
pub use token::{Token, common_prefix};
pub use trace::{
    Accepted, Alternative, FinishReason, Sent, Source, Span, Speculation, Times, Usage,
};
pub use transcript::{Limits, Transcript};
pub use verify::Verify;
pub use vocabulary::{Fingerprint, Vocabulary};
