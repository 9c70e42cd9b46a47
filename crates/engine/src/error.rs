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
    /// The engine refused it.
    #[error("{} cannot be loaded: {reason}", path.display())]
    Unloadable {
        /// The file.
        path: PathBuf,
        /// The engine's words.
        reason: String,
    },
    /// Layers were to go onto a GPU, and there is none.
    #[error("--gpu-layers: {}", no_gpu(back_ends))]
    NoGpu {
        /// The GPU back ends of this program.
        back_ends: Vec<String>,
    },
    /// An adapter for another model, or no adapter.
    #[error("the adapter {} does not fit the model {}: {reason}", path.display(), model.display())]
    Adapter {
        /// The adapter's file.
        path: PathBuf,
        /// The model's file.
        model: PathBuf,
        /// The engine's words.
        reason: String,
    },
    /// The caches could not be allocated.
    #[error("no memory for a context of {tokens} tokens: {reason}; lower --context")]
    Context {
        /// What was wanted.
        tokens: usize,
        /// The engine's words.
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
    /// The engine failed.
    #[error("the model failed to decode: {reason}")]
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
    /// No ONNX Runtime, or one too old.
    #[error(
        "ONNX Runtime is needed for {} and cannot be used: {reason}; run `tandem pull onnxruntime`, or \
         set ORT_DYLIB_PATH to a libonnxruntime of version 1.22 or later",
        model.display()
    )]
    Runtime {
        /// What was to be loaded.
        model: PathBuf,
        /// What is wrong with the library.
        reason: String,
    },
    /// A library without what was asked for.
    #[error(
        "this ONNX Runtime has no execution provider {provider}; set ORT_DYLIB_PATH to a library \
         built with it, or leave out --onnx-provider"
    )]
    Provider {
        /// What was asked for.
        provider: String,
    },
    /// An ONNX file that cannot be read, or whose hidden state cannot be found.
    #[error(transparent)]
    Onnx(#[from] onnx::OnnxError),
    /// An ONNX model of another shape than a text decoder's.
    #[error("{} cannot be used as a language model: {reason}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// What is missing or unknown.
        reason: String,
    },
    /// A file beside an ONNX model.
    #[error("{}: {reason}", path.display())]
    Beside {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// ONNX models take no adapters.
    #[error(
        "{} is an ONNX model and takes no adapter: merge it with `tandem onnx export --adapter`",
        path.display()
    )]
    NoAdapters {
        /// The model.
        path: PathBuf,
    },
}

fn no_gpu(back_ends: &[String]) -> String {
    if back_ends.is_empty() {
        "this program computes on the CPU only: build it with --features cuda, vulkan or metal, or \
         leave --gpu-layers out"
            .into()
    } else {
        let back_ends = back_ends.join(", ");
        format!("{back_ends} found no GPU: is its driver installed, and may this user open it?")
    }
}
