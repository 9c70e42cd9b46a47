//! What can go wrong with a model on this machine.

use std::path::PathBuf;

use thiserror::Error;

/// Why a model cannot be loaded or cannot compute. The messages say what the fields are.
#[derive(Debug, Error)]
pub enum EngineError {
    #[error("no model at {}: {reason}", path.display())]
    NotFound { path: PathBuf, reason: String },
    #[error("{} is not a GGUF file: it starts with {start:?}, not \"GGUF\"", path.display())]
    NotGguf { path: PathBuf, start: String },
    #[error("{} cannot be loaded: {reason}", path.display())]
    Unloadable { path: PathBuf, reason: String },
    #[error("--gpu-layers: {}", no_gpu(back_ends))]
    NoGpu { back_ends: Vec<String> },
    #[error("the adapter {} does not fit the model {}: {reason}", path.display(), model.display())]
    Adapter { path: PathBuf, model: PathBuf, reason: String },
    #[error("no memory for a context of {tokens} tokens: {reason}; lower --context")]
    Context { tokens: usize, reason: String },
    #[error("the cache is full: {used} of {cells} tokens are in use and {wanted} more are needed")]
    Full { used: usize, cells: usize, wanted: usize },
    #[error("all {sequences} sequences of the model are in use")]
    NoSequence { sequences: usize },
    /// Recurrent models keep no state of earlier positions to return to.
    #[error("this model's memory cannot be truncated, so it cannot be used for joint decoding")]
    CannotTruncate,
    #[error("a step needs at least one token")]
    NothingToRead,
    #[error("the model failed to decode: {reason}")]
    Decode { reason: String },
    #[error("the compute thread has stopped")]
    Stopped,
    #[error("the model's chat template failed: {reason}")]
    Template { reason: String },
    #[error("the operating system gave no random numbers: {reason}")]
    Random { reason: String },
    #[error("the text cannot be tokenized: {reason}")]
    Tokenize { reason: String },
    #[error(
        "ONNX Runtime is needed for {} and cannot be used: {reason}; run `tandem pull onnxruntime`, or \
         set ORT_DYLIB_PATH to a libonnxruntime of version 1.22 or later",
        model.display()
    )]
    Runtime { model: PathBuf, reason: String },
    #[error(
        "this ONNX Runtime has no execution provider {provider}; set ORT_DYLIB_PATH to a library \
         built with it, or leave out --onnx-provider"
    )]
    Provider { provider: String },
    #[error(transparent)]
    Onnx(#[from] onnx::OnnxError),
    #[error("{} cannot be used as a language model: {reason}", path.display())]
    Layout { path: PathBuf, reason: String },
    /// A file that belongs to an ONNX model, such as its tokenizer, is missing or damaged.
    #[error("{}: {reason}", path.display())]
    ModelFile { path: PathBuf, reason: String },
    #[error(
        "{} is an ONNX model and takes no adapter: merge it with `tandem onnx export --adapter`",
        path.display()
    )]
    NoAdapters { path: PathBuf },
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
