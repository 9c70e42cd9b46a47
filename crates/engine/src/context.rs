//! The trait that each engine implements: the caches of a model's sequences, and computing them.

use decode::Token;

use crate::error::EngineError;

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens of all sequences together.
    pub cells: usize,
    pub sequences: usize,
    /// Whether each sequence has an equal part of the cells to itself. Then a step looks at its own
    /// sequence only; otherwise it passes over the cells of all others.
    pub separate: bool,
    /// The most tokens in one call.
    pub batch: usize,
    pub threads: usize,
}

/// One token of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub token: Token,
    /// The number of tokens before it in its sequence.
    pub position: usize,
    pub sequence: usize,
    /// Whether its logits are wanted afterwards.
    pub output: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The cache has no room for the batch; nothing was read.
    NoRoom,
    /// The batch is invalid, or the engine failed. What the cache holds now is unknown.
    Failed(String),
}

impl From<DecodeError> for EngineError {
    fn from(error: DecodeError) -> Self {
        Self::Decode { reason: format!("{error:?}") }
    }
}

pub(crate) trait Context: Send {
    fn sizes(&self) -> Sizes;

    /// Tokens passed to the engine for a sequence since the context was made. Counted at the call
    /// itself, so that tests of cache reuse measure what happened.
    fn passed(&self, sequence: usize) -> u64;

    /// Reads a batch of tokens. With `hidden`, every entry gives logits and hidden state; otherwise
    /// those that ask for it give logits.
    fn decode(&mut self, entries: &[Entry], hidden: bool) -> Result<(), DecodeError>;

    /// Whether hidden states can only be switched on for a whole batch, so that tokens whose state
    /// is wanted are read in a call of their own. Otherwise every entry with logits has one.
    fn hidden_needs_own_call(&self) -> bool;

    /// The logits of entry `i` of the last batch.
    fn logits(&self, i: usize) -> Option<&[f32]>;

    /// The hidden state of entry `i` of the last batch.
    fn hidden(&self, i: usize) -> Option<&[f32]>;

    /// Lets an empty sequence begin with the first `keep` tokens of another, in the same cells. `false`
    /// where sequences cannot share cells; then it is still empty.
    #[must_use]
    fn share(&mut self, _from: usize, _to: usize, _keep: usize) -> bool {
        false
    }

    /// Forgets everything of a sequence but its first `keep` tokens. `false` where the model's
    /// memory cannot be cut there.
    #[must_use]
    fn truncate(&mut self, sequence: usize, keep: usize) -> bool;
}
