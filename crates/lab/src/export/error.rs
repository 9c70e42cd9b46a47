//! Why a model cannot be exported.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Why a GGUF model cannot be written as ONNX.
#[derive(Debug, Error)]
pub enum ExportError {
    /// A file or folder failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not a GGUF file, or a damaged one.
    #[error("{} cannot be read as GGUF: {reason}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A family we do not write.
    #[error("{} is a {architecture} model; only the llama and qwen2 families can be exported", path.display())]
    Architecture {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        architecture: String,
    },
    /// Something about it that we do not write.
    #[error("{} cannot be exported: {reason}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What.
        reason: String,
    },
    /// Quantising a second time.
    #[error(
        "{} holds {kind} weights already ({tensor}): rounding them to 4 bits a second time breaks the \
         model (measured: 0.60 agreement with the original). Export int8, begin with full-precision \
         weights, or force it",
        path.display()
    )]
    FourBits {
        /// The file.
        path: PathBuf,
        /// The kind of weight it has.
        kind: String,
        /// Where.
        tensor: String,
    },
    /// A LoRA of another model.
    #[error("the adapter {} does not fit the model: {reason}", path.display())]
    Adapter {
        /// The adapter.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
