//! What a sequence wants of its model.

use std::time::Duration;

use decode::{Reading, Token};

use crate::{compute::Reply, error::EngineError};

/// The model's view behind the tokens it was given.
#[derive(Clone, Debug)]
pub struct Output {
    /// How many tokens the sequence has read.
    pub position: usize,
    /// One raw logit a token.
    pub logits: Vec<f32>,
    /// The last hidden state; empty unless it was asked for.
    pub hidden: Vec<f32>,
    /// What was read for it.
    pub reading: Reading,
}

/// What the model thought of a token it was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The token it would have chosen.
    pub greedy: Token,
    /// The log-probability of that one.
    pub greedy_logprob: f32,
    /// The log-probability of the one it was given.
    pub logprob: f32,
}

/// The scores of a continuation.
#[derive(Clone, Debug)]
pub struct Scores {
    /// One for each token behind the first.
    pub tokens: Vec<Scored>,
    /// What was read for them.
    pub reading: Reading,
}

pub(crate) enum Want {
    /// The logits behind the last token.
    Step { hidden: bool, reply: Reply<Output> },
    /// Logits and hidden state behind every token.
    Steps { outputs: Vec<Output>, reply: Reply<Vec<Output>> },
    /// How likely each token was behind those before it.
    Score { scored: Vec<Scored>, reply: Reply<Scores> },
}

/// Tokens to read behind the first `keep` of a sequence.
pub(crate) struct Job {
    pub sequence: usize,
    pub keep: usize,
    pub tokens: Vec<Token>,
    pub want: Want,
    /// How many of the tokens have been read.
    pub done: usize,
    pub prefill: Duration,
    pub decode: Duration,
    /// The sequence's count of tokens passed to the engine, when the job began.
    pub passed_before: u64,
}

impl Job {
    pub fn new(sequence: usize, keep: usize, tokens: Vec<Token>, want: Want) -> Self {
        let (prefill, decode) = (Duration::ZERO, Duration::ZERO);
        Self { sequence, keep, tokens, want, done: 0, prefill, decode, passed_before: 0 }
    }

    pub fn left(&self) -> usize {
        self.tokens.len() - self.done
    }

    /// Whether nobody waits for it any more.
    pub fn is_abandoned(&self) -> bool {
        match &self.want {
            Want::Step { reply, .. } => reply.is_closed(),
            Want::Steps { reply, .. } => reply.is_closed(),
            Want::Score { reply, .. } => reply.is_closed(),
        }
    }

    pub fn fail(self, error: EngineError) {
        match self.want {
            Want::Step { reply, .. } => drop(reply.send(Err(error))),
            Want::Steps { reply, .. } => drop(reply.send(Err(error))),
            Want::Score { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}
