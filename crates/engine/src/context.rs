//! The seam between the compute thread and what computes: the caches of a model's sequences.

use decode::Token;

/// The sizes of a context.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens all sequences together may hold.
    pub cells: usize,
    /// Sequences at once.
    pub sequences: usize,
    /// Whether each sequence has an equal part of the cells to itself. Then a step looks at its own
    /// sequence only; otherwise it passes over the cells of all others.
    pub apart: bool,
    /// Tokens passed in one call.
    pub batch: usize,
    /// Threads that compute.
    pub threads: usize,
}

/// One token of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What to read.
    pub token: Token,
    /// Where: tokens before it in its sequence.
    pub position: usize,
    /// Whose.
    pub sequence: usize,
    /// Whether its logits are wanted.
    pub output: bool,
}

/// Why nothing was decoded.
#[derive(Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// No room in the cache; nothing was read.
    NoRoom,
    /// The batch makes no sense, or the engine failed.
    Failed(String),
}

/// The caches of a model's sequences, and what computes them.
pub(crate) trait Context: Send {
    /// The sizes it was made with.
    fn sizes(&self) -> Sizes;

    /// Tokens really passed to the engine for a sequence since the context was made.
    fn passed(&self, sequence: usize) -> u64;

    /// Reads a batch of tokens. With `hidden`, every entry gives logits and hidden state; otherwise
    /// those that ask for it give logits.
    fn decode(&mut self, entries: &[Entry], hidden: bool) -> Result<(), DecodeError>;

    /// Whether hidden states are switched on for whole batches: then a token whose state is wanted
    /// is read in a call of its own. Otherwise every entry with logits has one.
    fn hidden_apart(&self) -> bool;

    /// The logits of entry `i` of the last batch.
    fn logits(&self, i: usize) -> Option<&[f32]>;

    /// The hidden state of entry `i` of the last batch.
    fn hidden(&self, i: usize) -> Option<&[f32]>;

    /// Forgets everything of a sequence but its first `keep` tokens. `false` where the model's
    /// memory cannot be cut there.
    #[must_use]
    fn truncate(&mut self, sequence: usize, keep: usize) -> bool;
}
