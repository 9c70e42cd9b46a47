//! What can go wrong while routers are made and measured.

use std::{io, path::PathBuf};

use decode::{CloudError, EdgeError};
use engine::EngineError;
use router::FileError;
use thiserror::Error;

use crate::{
    collect::CollectionError,
    eval::{ReadError, ResultsError, confine::ConfineError},
    report::ReportError,
    train::TrainError,
};

#[derive(Debug, Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Pair(#[from] tandem::Error),
    #[error(transparent)]
    Edge(#[from] EdgeError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Collection(#[from] CollectionError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    RouterFile(#[from] FileError),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Confine(#[from] ConfineError),
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("a prompt has {tokens} tokens and the context holds {context}: raise --context")]
    PromptTooLong { tokens: usize, context: usize },
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
