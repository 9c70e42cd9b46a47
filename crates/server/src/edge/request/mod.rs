//! What is asked: read as it travels, then checked, so that both routes' requests become a
//! [`GenerationRequest`].
//!
//! - [`wire`]: the types that travel; `read`: from JSON to them
//! - `unsupported`: parameters that are not heeded: refused, or ignored
//! - `format`: the form that an answer is held to; `tools`: functions that it may call
//! - [`chat`] and [`completion`]: checks of what is particular to each route; `common`: of the rest

pub mod chat;
mod common;
pub mod completion;
mod format;
pub mod read;
mod tools;
pub mod unsupported;
pub mod wire;

pub use common::{Checks, PairChecks};

use cloud::protocol::Prompt;
use decode::{Limits, OnCloudError, Sampling, ThresholdPolicy, Token};
use tandem::{Grammar, NamedRouter, RequestOrigin, ResolvedRequest};

use super::{config::Mode, pairs::PairId};

/// Texts one request may ask for, over all its prompts.
pub const MAX_TEXTS: usize = 16;

/// Alternatives the trace tells.
const TRACED_ALTERNATIVES: usize = 5;

/// What is asked of the models.
#[derive(Debug)]
pub struct GenerationRequest {
    /// The pair that writes.
    pub pair: PairId,
    /// The model's name, as the answer repeats it.
    pub model: String,
    pub mode: Mode,
    /// Texts to begin with: a chat has one.
    pub prompts: Vec<Prompt>,
    /// Texts for each.
    pub choices: usize,
    pub sampling: Sampling,
    pub limits: Limits,
    pub router: NamedRouter,
    pub policy: ThresholdPolicy,
    pub on_error: OnCloudError,
    /// Whether every token is told.
    pub trace: bool,
    /// How many log-probabilities besides its own each token tells, if they are asked for.
    pub logprobs: Option<usize>,
    pub delivery: Delivery,
    /// The form that every text is held to.
    pub grammar: Option<Grammar>,
    /// What is added to the edge's logits.
    pub biases: Vec<(Token, f32)>,
    /// Whether texts are read for calls of tools.
    pub tools: bool,
}

/// How an answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    Stream {
        /// With a last chunk that counts tokens.
        usage: bool,
    },
}

impl GenerationRequest {
    /// How many texts there will be.
    pub fn texts(&self) -> usize {
        self.prompts.len() * self.choices
    }

    /// What is asked for one of its texts; `None` where it has no such prompt.
    pub fn resolved(
        &self,
        prompt: usize,
        choice: usize,
        tokens: &[Token],
    ) -> Option<ResolvedRequest> {
        Some(ResolvedRequest {
            mode: self.mode,
            prompt: self.prompts.get(prompt)?.clone(),
            tokens: tokens.to_vec(),
            written: vec![],
            sampling: self.sampling(choice),
            limits: self.limits.clone(),
            router: self.router.clone(),
            policy: self.policy.clone(),
            on_error: self.on_error,
            alternatives: self.trace.then_some(TRACED_ALTERNATIVES).max(self.logprobs),
            grammar: self.grammar.clone(),
            constraint: None,
            origin: RequestOrigin::default(),
        })
    }

    /// How the text of a choice is sampled: each by its own seed, the first by the one given.
    pub fn sampling(&self, choice: usize) -> Sampling {
        let seed = match choice {
            0 => self.sampling.seed,
            n => decode::sampling::hash(self.sampling.seed, n),
        };
        Sampling { seed, ..self.sampling }
    }
}
