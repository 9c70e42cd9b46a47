//! What can go wrong when a pair is built or used.

use std::{io, path::PathBuf};

use decode::{CloudError, SamplingError, SessionError, ThresholdError};
use engine::{EngineError, GrammarError};
use models::{CatalogError, HomeError, HubError, PresetError};
use router::{FileError, UnknownRouter};
use thiserror::Error;

/// Why a pair cannot be built, or a text cannot be generated.
#[derive(Debug, Error)]
pub enum Error {
    /// The options are invalid or contradict each other: the caller's mistake.
    #[error("{0}")]
    Usage(String),
    /// The chosen models, router or preset do not fit each other.
    #[error("{0}")]
    Mismatch(String),
    /// The pair was built without a cloud.
    #[error("there is no cloud here, and {0} needs one")]
    NoCloud(&'static str),
    /// All seats are in use and the queue is full.
    #[error("all seats are taken and the queue is full: try again in a moment")]
    Busy,
    /// The prompt cannot fit the context, whatever its tokens are.
    #[error("the prompt has at least {tokens} tokens and the context holds {context}")]
    PromptTooLarge {
        /// Tokens that it has at least.
        tokens: usize,
        /// Tokens that the context holds.
        context: usize,
    },
    /// The pair was closed while the request waited.
    #[error("the server is stopping and starts no new text")]
    Stopping,
    /// A file that the caller named cannot be read.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// The option that named it.
        what: &'static str,
        /// Its path, as it was given.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The template given for the cloud cannot render these messages.
    #[error("the cloud's chat template: {0}")]
    CloudTemplate(String),
    /// A generation cannot begin or continue.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A model on this machine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A grammar or schema that a text cannot be held to.
    #[error("the grammar cannot be used: {0}")]
    Grammar(#[from] GrammarError),
    /// The cloud failed where the edge may not stand in for it.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Sampling parameters outside their ranges.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A threshold outside 0..=1.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
    /// A router file that does not fit the model or cannot be read.
    #[error(transparent)]
    RouterFile(#[from] FileError),
    /// A router name that is not known.
    #[error(transparent)]
    UnknownRouter(#[from] UnknownRouter),
    /// A preset that cannot be used.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// A model that has not been pulled.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A model that has not been pulled, of another pair than the default one.
    #[error(
        "the model {name} is not here ({}): run `tandem pull --pair {pair}`", path.display()
    )]
    NotPulled {
        /// Its name in the catalog.
        name: String,
        /// Where it would be.
        path: PathBuf,
        /// A pair that has it.
        pair: String,
    },
    /// A catalog of models that is invalid.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A model of the hub that has not been pulled.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// A bug: an internal task ended early.
    #[error("a task of this program failed: {0}")]
    Internal(String),
}

/// The whole chain of causes, each said once: what people are told.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = vec![];
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if !parts.iter().any(|part| part.contains(&cause)) {
            parts.push(cause);
        }
        next = error.source();
    }
    parts.join(": ")
}
