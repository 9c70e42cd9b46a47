//! What can be wrong with an ONNX file.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::hidden::Candidate;

/// Why bytes are not a valid protocol-buffer message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    #[error("it ends in the middle of a field: the file is truncated or damaged")]
    Truncated,
    #[error("it holds an integer of more than 64 bits: the file is damaged")]
    Varint,
    #[error("it holds the invalid field tag {tag}: the file is damaged")]
    Tag { tag: u64 },
    #[error("field {number} has the wrong kind")]
    Kind { number: u32 },
    #[error("field {number} is not UTF-8")]
    Text { number: u32 },
    #[error("field {number} holds more than {most} numbers")]
    TooMany { number: u32, most: usize },
    #[error("it has more than {most} {what}")]
    TooManyItems { what: &'static str, most: usize },
}

/// Why an ONNX model cannot be read or changed.
#[derive(Debug, Error)]
pub enum OnnxError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not an ONNX model: {source}", path.display())]
    Wire { path: PathBuf, source: WireError },
    #[error("{} is not an ONNX model: it has no graph", path.display())]
    NoGraph { path: PathBuf },
    #[error("{} has {bytes} bytes; an ONNX file has at most 2 GiB, weights beyond that are external data", path.display())]
    TooLarge { path: PathBuf, bytes: u64 },
    #[error("{} has more than {most} {what}, so it cannot be a language model", path.display())]
    TooMany { path: PathBuf, what: &'static str, most: usize },
    #[error("{}: the graph is cyclic: the node {node:?} depends on its own output", path.display())]
    Cyclic { path: PathBuf, node: String },
    #[error("{}: branches are nested deeper than {most}", path.display())]
    TooDeep { path: PathBuf, most: usize },
    #[error("{}: its hidden state cannot be found: {reason}{}", path.display(), Candidate::describe(candidates))]
    Hidden { path: PathBuf, reason: String, candidates: Vec<Candidate> },
    #[error("{}: it has no tensor called {tensor:?}{}", path.display(), Candidate::describe(candidates))]
    NoTensor { path: PathBuf, tensor: String, candidates: Vec<Candidate> },
    #[error("{} already has its hidden state as the output {output:?}: use it as it is", path.display())]
    Exposed { path: PathBuf, output: String },
    #[error("{}: its external data {} cannot be used: {reason}", path.display(), file.display())]
    External { path: PathBuf, file: PathBuf, reason: String },
}
