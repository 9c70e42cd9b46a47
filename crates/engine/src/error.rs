//! What can go wrong with a model on this machine.

use std::path::PathBuf;

use thiserror::Error;

/// Why a model cannot be loaded or cannot go on.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No such file.
    #[error("no model at {}: {reason}", path.display())]
    NotFound {
        /// Where we looked.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Not a model.
    #[error("{} is not a GGUF file: it starts with {start:?}, not \"GGUF\"", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
        /// Its first bytes.
        start: String,
    },
    /// llama.cpp refused it.
    #[error("{} cannot be loaded: {reason}", path.display())]
    Unloadable {
        /// The file.
        path: PathBuf,
        /// llama.cpp's words.
        reason: String,
    },
    /// An adapter for another model, or no adapter.
    #[error("the adapter {} does not fit the model {}: {reason}", path.display(), model.display())]
    Adapter {
        /// The adapter's file.
        path: PathBuf,
        /// The model's file.
        model: PathBuf,
        /// llama.cpp's words.
        reason: String,
    },
    /// The caches could not be allocated.
    #[error("no memory for a context of {tokens} tokens: {reason}; lower --context")]
    Context {
        /// What was wanted.
        tokens: usize,
        /// llama.cpp's words.
        reason: String,
    },
    /// The caches are full.
    #[error("the cache is full: {used} of {cells} tokens are in use and {wanted} more are needed")]
    Full {
        /// In use by all sequences.
        used: usize,
        /// What fits.
        cells: usize,
        /// What was to be read.
        wanted: usize,
    },
    /// All sequences are taken.
    #[error("all {sequences} sequences of the model are in use")]
    NoSequence {
        /// How many there are.
        sequences: usize,
    },
    /// The model's memory cannot be cut.
    #[error("this model's memory cannot be truncated, so it cannot be used for joint decoding")]
    CannotTruncate,
    /// Nothing to read.
    #[error("a step needs at least one token")]
    NothingToRead,
    /// llama.cpp failed.
    #[error("llama.cpp failed to decode: {reason}")]
    Decode {
        /// Its words.
        reason: String,
    },
    /// The model has gone away.
    #[error("the compute thread has stopped")]
    Stopped,
    /// The template is broken, or refused the conversation.
    #[error("the model's chat template failed: {reason}")]
    Template {
        /// Its words.
        reason: String,
    },
}
