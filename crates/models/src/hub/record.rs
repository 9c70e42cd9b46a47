//! The record of models pulled from the hub. Other programs share the hub's cache, so this record
//! decides what may be removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    home::Home,
    hub::{HubError, blob::io_error, name::Repo},
};

/// Models in the order they were pulled.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Record {
    #[serde(default, rename = "model")]
    pub models: Vec<PulledModel>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PulledModel {
    /// The repository, as `OWNER/REPO`.
    pub repo: String,
    /// The main file: the only one, the first part, or the graph.
    pub main: String,
    /// The repository's folder in the cache.
    pub folder: PathBuf,
    /// The folder of its locks in the cache.
    pub locks: PathBuf,
    #[serde(rename = "file")]
    pub files: Vec<PulledFile>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PulledFile {
    pub path: String,
    /// The name of its content in the cache.
    pub blob: String,
    /// Whether Tandem downloaded it; `false` if it was there before.
    pub ours: bool,
}

impl Record {
    pub fn read(home: &Home) -> Result<Self, HubError> {
        let path = path(home);
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text)
                .map_err(|e| HubError::Record { path, reason: e.message().into() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(io_error(&path, e)),
        }
    }

    pub fn write(&self, home: &Home) -> Result<(), HubError> {
        let path = path(home);
        let text = toml::to_string(self)
            .map_err(|e| HubError::Record { path: path.clone(), reason: e.to_string() })?;
        let new = path.with_extension("new");
        let write = || fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        write().map_err(|e| io_error(&path, e))
    }

    /// Adds a model, or replaces it. Files that an earlier pull downloaded remain Tandem's.
    pub fn add(&mut self, mut model: PulledModel) {
        for file in &mut model.files {
            file.ours |= self.is_ours(&model.folder, &file.blob);
        }
        self.models.retain(|m| !(m.folder == model.folder && m.main == model.main));
        self.models.push(model);
    }

    /// Whether Tandem downloaded this content.
    pub fn is_ours(&self, folder: &Path, blob: &str) -> bool {
        let here = self.models.iter().filter(|m| m.folder == folder);
        here.flat_map(|m| &m.files).any(|file| file.ours && file.blob == blob)
    }
}

impl PulledModel {
    pub fn is_of(&self, repo: &Repo) -> bool {
        self.repo == repo.to_string()
    }

    pub fn name(&self) -> String {
        format!("hf:{}:{}", self.repo, self.main)
    }
}

fn path(home: &Home) -> PathBuf {
    home.file("hub.toml")
}
