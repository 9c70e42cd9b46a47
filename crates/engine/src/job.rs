//! The jobs that sequences send to the compute thread, and their results.

use std::time::Duration;

use decode::{Reading, Token};

use crate::{compute::Reply, error::EngineError};

/// The model's view of the position after the tokens it was given.
#[derive(Clone, Debug)]
pub struct Output {
    /// How many tokens the sequence has read.
    pub position: usize,
    /// One raw logit for each token of the vocabulary.
    pub logits: Vec<f32>,
    /// The last hidden state; empty unless it was asked for.
    pub hidden: Vec<f32>,
    pub reading: Reading,
}

/// The probability of a token that the model was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The token that the model itself would have chosen.
    pub greedy: Token,
    pub greedy_logprob: f32,
    /// The log-probability of the token it was given.
    pub logprob: f32,
}

#[derive(Clone, Debug)]
pub struct Scores {
    /// One for each token after the first.
    pub tokens: Vec<Scored>,
    pub reading: Reading,
}

pub(crate) enum JobKind {
    /// The logits after the last token.
    Step { hidden: bool, reply: Reply<Output> },
    /// Logits and hidden state after every token.
    Steps { outputs: Vec<Output>, reply: Reply<Vec<Output>> },
    /// The log-probability of each token, given those before it.
    Score { scored: Vec<Scored>, reply: Reply<Scores> },
}

/// Tokens to read after the first `keep` of a sequence. What the cache holds beyond is forgotten.
pub(crate) struct Job {
    pub sequence: usize,
    pub keep: usize,
    pub tokens: Vec<Token>,
    pub kind: JobKind,
    /// How many of the tokens have been read.
    pub done: usize,
    pub prefill: Duration,
    pub decode: Duration,
    /// The sequence's count of tokens passed to the engine, when the job began.
    pub passed_before: u64,
}

impl Job {
    pub fn new(sequence: usize, keep: usize, tokens: Vec<Token>, kind: JobKind) -> Self {
        let (prefill, decode) = (Duration::ZERO, Duration::ZERO);
        Self { sequence, keep, tokens, kind, done: 0, prefill, decode, passed_before: 0 }
    }

    pub fn left(&self) -> usize {
        self.tokens.len() - self.done
    }

    /// Whether its caller has gone away.
    pub fn is_abandoned(&self) -> bool {
        match &self.kind {
            JobKind::Step { reply, .. } => reply.is_closed(),
            JobKind::Steps { reply, .. } => reply.is_closed(),
            JobKind::Score { reply, .. } => reply.is_closed(),
        }
    }

    pub fn fail(self, error: EngineError) {
        match self.kind {
            JobKind::Step { reply, .. } => drop(reply.send(Err(error))),
            JobKind::Steps { reply, .. } => drop(reply.send(Err(error))),
            JobKind::Score { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}
