//! What can go wrong with the hub.

use std::{io, path::PathBuf, time::Duration};

use thiserror::Error;

use crate::{
    hub::{
        choose::ChoiceError,
        name::{Name, Repo},
    },
    pull::PullError,
};

/// Why a model of the hub cannot be named, found, pulled or removed.
#[derive(Debug, Error)]
pub enum HubError {
    #[error("{given:?} is not the name of a model on the hub: {reason}")]
    Name { given: String, reason: String },
    #[error("there is no folder for the hub's cache: set HF_HOME to one")]
    NoCache,
    #[error("HF_ENDPOINT={given}: {reason}")]
    Endpoint { given: String, reason: String },
    #[error("HF_HUB_DOWNLOAD_TIMEOUT={given}: write whole seconds, at least 1")]
    Timeout { given: String },
    #[error("the model {name} is not here ({}): run `tandem pull {name}`", folder.display())]
    NotPulled { name: Name, folder: PathBuf },
    #[error(
        "{name} is here, but its weights are links, which ONNX Runtime does not follow: run \
         `tandem pull {name}`, which downloads nothing again"
    )]
    Unlinked { name: Name },
    #[error("{repo} {problem}")]
    Choice { repo: Repo, problem: ChoiceError },
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("the connection to {host} broke: {reason}")]
    Broken { host: String, reason: String },
    #[error("{host} sent nothing for {} s (HF_HUB_DOWNLOAD_TIMEOUT)", after.as_secs())]
    Stalled { host: String, after: Duration },
    #[error(
        "{file} was given up after {tries} tries: {last}; pull again, and it resumes from here"
    )]
    GivenUp { file: String, tries: u32, last: Box<HubError> },
    #[error("there is no model {repo} at {endpoint}")]
    NoRepo { repo: Repo, endpoint: String },
    #[error("the hub does not give out {repo} ({status}{reason}): {advice}")]
    Denied { repo: Repo, status: u16, reason: String, advice: String },
    #[error("the hub answered {status} for {what}{reason}")]
    Refused { what: String, status: u16, reason: String },
    #[error("the hub's answer about {what} cannot be used: {reason}")]
    InvalidAnswer { what: String, reason: String },
    #[error("{file} arrived damaged: its {kind} is not the hub's; it was deleted, pull again")]
    Damaged { file: String, kind: &'static str },
    #[error("{file} of {repo} is another file than the catalog's: its sha256 differs")]
    OtherFile { file: String, repo: Repo },
    #[error("{file} cannot be used: {reason}")]
    Onnx { file: String, reason: String },
    #[error(
        "the disk is full: {} more MB are needed and {} MB are free under {}; make room and pull \
         again, and it resumes from here",
        needed.div_ceil(1_000_000), free / 1_000_000, folder.display()
    )]
    DiskFull { folder: PathBuf, needed: u64, free: u64 },
    #[error("another program is downloading this file: {} is locked", path.display())]
    Busy { path: PathBuf },
    #[error("the record of pulled models, {}, cannot be read: {reason}", path.display())]
    Record { path: PathBuf, reason: String },
    #[error("tandem pulled no {name}{}", pulled_instead(.others))]
    NothingPulled { name: Name, others: Vec<String> },
    #[error(
        "{name} is in the hub's cache ({}), but another program downloaded it: remove it with that \
         program", folder.display()
    )]
    NotOurs { name: Name, folder: PathBuf },
    #[error(transparent)]
    Lock(PullError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn pulled_instead(others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!("; it did pull {}", others.join(", ")) }
}
