//! Decoding with two models: a small one on this device writes almost every token, a large one in the
//! cloud writes those where a router does not trust it.
//!
//! ```no_run
//! # async fn example() -> Result<(), tandem::Error> {
//! use tandem::Tandem;
//!
//! let tandem = Tandem::builder()
//!     .edge("smollm2-135m-instruct")
//!     .cloud("qwen2.5-coder-1.5b-instruct")
//!     .budget(0.07)
//!     .build()?;
//! let mut generation = tandem.generate("Why is the sky blue?").await?;
//! while let Some(span) = generation.next().await? {
//!     for token in span.tokens {
//!         print!("{}", token.text);
//!     }
//! }
//! println!("\n{:.1} % from the cloud", generation.summary().stats.routed_share * 100.0);
//! # Ok(())
//! # }
//! ```
//!
//! The modules, in the order in which a request passes through them:
//!
//! - [`builder`]: the options of a pair; [`config`]: models, cloud and machine; [`store`]: finds model
//!   files by name; [`mod@preset`]: adapters and router for one kind of question
//! - [`mod@router`]: the choice of the router and of its threshold
//! - [`mod@tandem`]: the pair; [`request`]: a request and its parameters, with [`mode`] and [`share`]
//! - [`tools`]: functions that the models may ask the caller to run
//! - [`pair`]: the trait of the two models; [`models`]: the real ones; [`pool`]: seats for several
//!   texts at once
//! - [`generation`]: one text while it is generated; [`summary`]: its statistics
//! - [`error`]: what can go wrong
//!
//! The loop itself is in [`decode`].
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod builder;
pub mod config;
pub mod error;
pub mod generation;
pub mod mode;
pub mod models;
pub mod pair;
pub mod pool;
pub mod preset;
pub mod request;
pub mod router;
pub mod share;
pub mod store;
pub mod summary;
pub mod tables;
pub mod tandem;
pub mod tools;

pub use builder::Builder;
pub use config::{AskConfig, CloudConfig, EdgeConfig, LocalCloud, Machine};
pub use error::Error;
pub use generation::Generation;
pub use mode::Mode;
pub use models::{CloudLocation, Models, PairConfig};
pub use pair::{Introduction, Pair};
pub use pool::{Admission, Lease, Owner};
pub use request::{Grammar, Prompt, Request, RequestOrigin, ResolvedRequest};
pub use router::{NamedRouter, RouterRegistry, RouterSpec, RoutingOverrides};
pub use share::Share;
pub use store::Store;
pub use summary::{Answer, Summary};
pub use tandem::{Defaults, Tandem, random_seed};

// What a program needs of the crates below.
pub use ::router::RouterKind;
pub use cloud::{CloudState, Delay, Endpoint, Engine};
pub use decode::{
    Accepted, FinishReason, Limits, Message, OnCloudError, Role, Router, Sampling, Score, Source,
    Span, Stats, Step, Threshold,
};
pub use engine::Adapter;
