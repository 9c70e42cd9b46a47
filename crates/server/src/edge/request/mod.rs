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
use crate::http::ApiError;

/// Texts one request may ask for, over all its prompts.
pub const MAX_TEXTS: usize = 16;

/// Alternatives the trace tells.
const TRACED_ALTERNATIVES: usize = 5;

/// The most tokens of an answer that is told at once, each counted with the alternatives it tells: one takes
/// up to half a kilobyte until all of them are written. A stream holds none.
const MOST_TOLD: usize = 1 << 17;

/// What an answer takes at most as JSON: a token, a log-probability, what a trace tells of a token, what a
/// text tells of itself, and with a trace all that was sent for it.
const TOKEN_BYTES: usize = 96;
const LOGPROB_BYTES: usize = 160;
const TRACE_BYTES: usize = 1600;
const SUMMARY_BYTES: usize = 4 << 10;
const SENT_BYTES: usize = 1 << 20;

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

    /// How many alternatives each token tells.
    fn alternatives(&self) -> Option<usize> {
        self.trace.then_some(TRACED_ALTERNATIVES).max(self.logprobs)
    }

    /// The most tokens of each text, with an edge of this context.
    fn longest(&self, context: usize) -> usize {
        match self.mode {
            // Its context is the cloud's.
            Mode::Large => self.limits.max_tokens,
            Mode::Small | Mode::Joint | Mode::Verify => self.limits.max_tokens.min(context),
        }
    }

    /// The bytes of the largest answer it may get; fails where an answer told at once would be too large.
    pub fn answer_bytes(&self, context: usize) -> Result<usize, ApiError> {
        if self.delivery != Delivery::Whole {
            return Ok(0);
        }
        let (texts, tokens) = (self.texts(), self.longest(context));
        let alternatives = self.alternatives().unwrap_or(0);
        let told = texts.saturating_mul(tokens).saturating_mul(1 + alternatives);
        if told > MOST_TOLD {
            let problem = format!(
                "is too large for one answer: {texts} texts of {tokens} tokens with {alternatives} \
                 alternatives each are {told} to tell, and {MOST_TOLD} may be. Ask for fewer, or stream"
            );
            return Err(ApiError::field("max_tokens", problem).code("answer_too_large"));
        }
        let logprobs = self.logprobs.map_or(0, |top| (1 + top) * LOGPROB_BYTES);
        let more = alternatives.saturating_sub(TRACED_ALTERNATIVES) * LOGPROB_BYTES;
        let (trace, sent) = if self.trace { (TRACE_BYTES + more, SENT_BYTES) } else { (0, 0) };
        Ok(texts * (tokens * (TOKEN_BYTES + logprobs + trace) + SUMMARY_BYTES + sent))
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
            alternatives: self.alternatives(),
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
