//! What can go wrong while routers are made and measured.

use std::{io, path::PathBuf};

use decode::{CloudError, EdgeError};
use engine::EngineError;
use router::FileError;
use thiserror::Error;

use crate::{
    collect::CollectionError,
    eval::{ReadError, ResultsError},
    report::ReportError,
    train::TrainError,
};

/// Why a run of the workshop ended early.
#[derive(Debug, Error)]
pub enum Error {
    /// What was asked for makes no sense: the caller's mistake.
    #[error("{0}")]
    Usage(String),
    /// The pair could not be made, or could not decode.
    #[error(transparent)]
    Pair(#[from] tandem::Error),
    /// The small model failed.
    #[error(transparent)]
    Edge(#[from] EdgeError),
    /// A model on this machine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The cloud failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Examples cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A folder of samples cannot be used.
    #[error(transparent)]
    Collection(#[from] CollectionError),
    /// Training gave no router.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A router file cannot be used.
    #[error(transparent)]
    RouterFile(#[from] FileError),
    /// A file of results cannot be used.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// There is no report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The disk said no.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A prompt that leaves no room for an answer.
    #[error("a prompt has {tokens} tokens and the context holds {context}: raise --context")]
    PromptTooLong {
        /// Its length.
        tokens: usize,
        /// What the edge holds.
        context: usize,
    },
    /// A fault in this program.
    #[error("a task of this program failed: {0}")]
    Internal(String),
}

impl Error {
    /// Whether the user has to write something else, rather than mend something.
    pub fn is_usage(&self) -> bool {
        let pair = matches!(self, Self::Pair(tandem::Error::Usage(_)));
        pair || matches!(self, Self::Usage(_) | Self::Read(ReadError::NoData { .. }))
    }

    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Self::Usage(reason.into())
    }

    pub(crate) fn internal(reason: impl ToString) -> Self {
        Self::Internal(reason.to_string())
    }
}
