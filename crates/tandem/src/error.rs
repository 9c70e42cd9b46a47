//! What can go wrong between a wish and an answer.

use std::{io, path::PathBuf};

use decode::{CloudError, SamplingError, SessionError, ThresholdError};
use engine::EngineError;
use models::{CatalogError, HomeError, HubError, PresetError};
use router::{FileError, UnknownRouter};
use thiserror::Error;

/// Why there is no pair, or no text from it.
#[derive(Debug, Error)]
pub enum Error {
    /// What was asked for contradicts itself or makes no sense: the caller's mistake.
    #[error("{0}")]
    Usage(String),
    /// Things that were chosen do not belong together.
    #[error("{0}")]
    Mismatch(String),
    /// There is no cloud, and this needs one.
    #[error("there is no cloud here, and {0} needs one")]
    NoCloud(&'static str),
    /// As many texts are being made and waited for as may be.
    #[error("all seats are taken and the queue is full: try again in a moment")]
    Busy,
    /// No new text begins.
    #[error("no new text begins: this is about to stop")]
    Stopping,
    /// Files that were named cannot be read.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What it was named as.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The template named for the cloud cannot render these messages.
    #[error("the cloud's chat template: {0}")]
    CloudTemplate(String),
    /// A generation cannot begin or go on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A model on this machine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The cloud failed.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Sampling parameters that make no sense.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A threshold outside 0..=1.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
    /// A router file that does not fit or cannot be read.
    #[error(transparent)]
    RouterFile(#[from] FileError),
    /// No such router.
    #[error(transparent)]
    UnknownRouter(#[from] UnknownRouter),
    /// A preset that cannot be used.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A model that is not here.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A catalog that is not one.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A model of the hub that is not here.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// A task of ours ended early: a fault in this program.
    #[error("a task of this program failed: {0}")]
    Internal(String),
}

/// The whole chain of causes, each said once: what people are told.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = vec![];
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if !parts.iter().any(|said| said.contains(&cause)) {
            parts.push(cause);
        }
        next = error.source();
    }
    parts.join(": ")
}
