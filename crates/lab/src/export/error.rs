//! Why a model cannot be exported.

use std::{io, path::PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum ExportError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} cannot be read as GGUF: {reason}", path.display())]
    Gguf { path: PathBuf, reason: String },
    #[error("{} is a {architecture} model; only the llama and qwen2 families can be exported", path.display())]
    Architecture { path: PathBuf, architecture: String },
    #[error("{} cannot be exported: {reason}", path.display())]
    Unsupported { path: PathBuf, reason: String },
    #[error(
        "{} holds {kind} weights already ({tensor}): rounding them to 4 bits a second time breaks the \
         model (measured: 0.60 agreement with the original). Export int8, begin with full-precision \
         weights, or force it",
        path.display()
    )]
    FourBits { path: PathBuf, kind: String, tensor: String },
    #[error(
        "the folder {} holds {file}, which no export writes: choose a new folder, because an export \
         takes the place of the whole folder",
        folder.display()
    )]
    NotAnExport { folder: PathBuf, file: String },
    #[error("the adapter {} does not fit the model: {reason}", path.display())]
    Adapter { path: PathBuf, reason: String },
}
