//! What can be wrong with an ONNX file.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::hidden::Candidate;

/// Bytes that are no protocol-buffer message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The file ends too soon.
    #[error("it ends in the middle of a field: the file is truncated or damaged")]
    Truncated,
    /// An integer of more than 64 bits.
    #[error("it holds an integer that does not end: the file is damaged")]
    Varint,
    /// A tag that means nothing.
    #[error("it holds the field tag {tag}, which means nothing: the file is damaged")]
    Tag {
        /// The tag.
        tag: u64,
    },
    /// A field of another kind than its number says.
    #[error("field {number} has the wrong kind")]
    Kind {
        /// The field.
        number: u32,
    },
    /// A string that is none.
    #[error("field {number} is not UTF-8")]
    Text {
        /// The field.
        number: u32,
    },
    /// More numbers than make sense.
    #[error("field {number} holds more than {most} numbers")]
    TooMany {
        /// The field.
        number: u32,
        /// What is allowed.
        most: usize,
    },
}

/// Why an ONNX model cannot be read or changed.
#[derive(Debug, Error)]
pub enum OnnxError {
    /// A file or folder failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not a model.
    #[error("{} is not an ONNX model: {source}", path.display())]
    Wire {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: WireError,
    },
    /// A message without a graph.
    #[error("{} is not an ONNX model: it has no graph", path.display())]
    NoGraph {
        /// The file.
        path: PathBuf,
    },
    /// Larger than the format allows.
    #[error("{} has {bytes} bytes; an ONNX file has at most 2 GiB, weights beyond that are external data", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A graph larger than any model's.
    #[error("{} has more than {most} {what}: that is no model", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// What is allowed.
        most: usize,
    },
    /// A graph that feeds itself.
    #[error("{}: the graph is cyclic: the node {node:?} depends on its own output", path.display())]
    Cyclic {
        /// The file.
        path: PathBuf,
        /// A node of the circle.
        node: String,
    },
    /// Branches in branches in branches.
    #[error("{}: branches are nested deeper than {most}", path.display())]
    TooDeep {
        /// The file.
        path: PathBuf,
        /// What is allowed.
        most: usize,
    },
    /// The hidden state was not found, or more than one could be it.
    #[error("{}: {reason}{}", path.display(), Candidate::describe(candidates))]
    Hidden {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
        /// What it could be.
        candidates: Vec<Candidate>,
    },
    /// `--tensor` names nothing.
    #[error("{}: no node gives out a tensor called {tensor:?}{}", path.display(), Candidate::describe(candidates))]
    NoTensor {
        /// The file.
        path: PathBuf,
        /// The name.
        tensor: String,
        /// What it could be.
        candidates: Vec<Candidate>,
    },
    /// Nothing to do.
    #[error("{} gives out its hidden state already, as {output:?}: use it as it is", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// The output.
        output: String,
    },
    /// A file the model needs is missing or short.
    #[error("{}: its external data {} cannot be used: {reason}", path.display(), file.display())]
    External {
        /// The model.
        path: PathBuf,
        /// The file it names.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
