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
    /// Not a name.
    #[error("{given:?} is not the name of a model on the hub: {reason}")]
    Name {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing says where the cache is.
    #[error("no place for the hub's cache: set HF_HOME to a folder")]
    NoCache,
    /// `HF_ENDPOINT` is no address.
    #[error("HF_ENDPOINT={given}: {reason}")]
    Endpoint {
        /// What it is.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `HF_HUB_DOWNLOAD_TIMEOUT` is no time.
    #[error("HF_HUB_DOWNLOAD_TIMEOUT={given}: write whole seconds, at least 1")]
    Timeout {
        /// What it is.
        given: String,
    },
    /// Not on this machine.
    #[error("the model {name} is not here ({}): run `tandem pull {name}`", folder.display())]
    NotPulled {
        /// The model.
        name: Name,
        /// Where it would be.
        folder: PathBuf,
    },
    /// In the cache, but not as the runtime can use it.
    #[error(
        "{name} is here, but its weights are links, which ONNX Runtime does not follow: run \
         `tandem pull {name}`, which fetches nothing twice"
    )]
    Unlinked {
        /// The model.
        name: Name,
    },
    /// The repository does not have it, or has several.
    #[error("{repo} {problem}")]
    Choice {
        /// The repository.
        repo: Repo,
        /// What it has.
        problem: ChoiceError,
    },
    /// No connection.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// Who was asked.
        host: String,
        /// Why not.
        reason: String,
    },
    /// A connection that ended too soon.
    #[error("the connection to {host} broke: {reason}")]
    Broken {
        /// Who was asked.
        host: String,
        /// How it ended.
        reason: String,
    },
    /// Connected, but nothing comes.
    #[error("{host} sent nothing for {} s (HF_HUB_DOWNLOAD_TIMEOUT)", after.as_secs())]
    Stalled {
        /// Who was asked.
        host: String,
        /// For how long.
        after: Duration,
    },
    /// A file that does not come, however often it is tried.
    #[error("{file} was given up after {tries} tries: {last}; what is here is kept, pull again")]
    GivenUp {
        /// The file.
        file: String,
        /// How often it was tried without getting on.
        tries: u32,
        /// What happened the last time.
        last: Box<HubError>,
    },
    /// No such repository.
    #[error("there is no model {repo} at {endpoint}")]
    NoRepo {
        /// The repository.
        repo: Repo,
        /// Which hub.
        endpoint: String,
    },
    /// The hub wants to know who asks.
    #[error("the hub does not give out {repo} ({status}{reason}): {advice}")]
    Denied {
        /// The repository.
        repo: Repo,
        /// What the hub answered.
        status: u16,
        /// In its own words, if it had any.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// Another answer than a file.
    #[error("the hub answered {status} for {what}{reason}")]
    Refused {
        /// What was asked for.
        what: String,
        /// What the hub answered.
        status: u16,
        /// In its own words, if it had any.
        reason: String,
    },
    /// Not what a hub says.
    #[error("the hub's answer about {what} cannot be used: {reason}")]
    Garbled {
        /// What was asked for.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Not the bytes the hub promised.
    #[error("{file} arrived damaged: its {kind} is not the hub's; it was thrown away, pull again")]
    Damaged {
        /// The file.
        file: String,
        /// Which hash.
        kind: &'static str,
    },
    /// An ONNX model that cannot be completed.
    #[error("{file} cannot be used: {reason}")]
    Onnx {
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The disk is full.
    #[error(
        "the disk is full: {} more MB are needed and {} MB are free under {}; make room and pull \
         again, what is here is kept",
        needed.div_ceil(1_000_000), free / 1_000_000, folder.display()
    )]
    DiskFull {
        /// Where.
        folder: PathBuf,
        /// What is still to be written.
        needed: u64,
        /// What is left.
        free: u64,
    },
    /// Another program holds the hub's lock.
    #[error("another program is fetching this file: {} is locked", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// What was pulled cannot be told any more.
    #[error("the record of pulled models, {}, cannot be read: {reason}", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Nothing to remove.
    #[error("tandem pulled no {name}{}", but(.others))]
    NothingPulled {
        /// What was to be removed.
        name: Name,
        /// What could be.
        others: Vec<String>,
    },
    /// Other programs put it there.
    #[error(
        "{name} is in the hub's cache ({}), but tandem did not fetch it: it stays, remove it with the \
         program that did", folder.display()
    )]
    NotOurs {
        /// The model.
        name: Name,
        /// Its repository in the cache.
        folder: PathBuf,
    },
    /// Another pull is at work, or its lock fails.
    #[error(transparent)]
    Lock(PullError),
    /// A file or folder failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn but(others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!("; it did pull {}", others.join(", ")) }
}
