//! The folder in which Tandem keeps model files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;
use thiserror::Error;

use crate::{
    catalog::{Catalog, Entry},
    digest,
};

/// The folder with everything that Tandem keeps on this machine.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
}

/// The environment variables that decide where the folder is.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub tandem_home: Option<PathBuf>,
    pub xdg_cache_home: Option<PathBuf>,
    pub home: Option<PathBuf>,
}

impl Environment {
    pub fn read() -> Self {
        let path = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            tandem_home: path("TANDEM_HOME"),
            xdg_cache_home: path("XDG_CACHE_HOME"),
            home: path("HOME"),
        }
    }
}

#[derive(Debug, Error)]
pub enum HomeError {
    #[error("there is no folder for models: set TANDEM_HOME to one")]
    NoFolder,
    #[error("the model {name} is not here ({}): run `tandem pull`", path.display())]
    NotPulled { name: String, path: PathBuf },
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// A model file on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct LocalModel {
    /// Its name in the catalog or on the hub; else the name of its file.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    /// Its hash: computed now, or for a model of the hub the one it was checked against. `None` if
    /// it has several files.
    pub sha256: Option<String>,
}

impl Home {
    /// `TANDEM_HOME`, else the XDG cache folder.
    pub fn find(environment: Environment) -> Result<Self, HomeError> {
        let cache = || environment.home.map(|home| home.join(".cache"));
        let xdg = || environment.xdg_cache_home.or_else(cache).map(|c| c.join("tandem"));
        let root = environment.tandem_home.or_else(xdg).ok_or(HomeError::NoFolder)?;
        Ok(Self { root })
    }

    /// The folder of finished models.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// The folder of downloads under way.
    pub fn partial(&self) -> PathBuf {
        self.root.join("partial")
    }

    /// The folder of the user's own presets.
    pub fn presets(&self) -> PathBuf {
        self.root.join("presets")
    }

    /// The path of one of the program's own files, such as its settings.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The path of a library, whether or not it has been pulled.
    pub fn library(&self, entry: &Entry) -> PathBuf {
        self.root.join(&entry.name).join(&entry.file)
    }

    /// The path of a model, whether or not it has been pulled.
    pub fn model(&self, entry: &Entry) -> PathBuf {
        self.models().join(&entry.file)
    }

    /// Whether a model is there. Only whole files get their final name, so checking the size is
    /// enough.
    pub fn has(&self, entry: &Entry) -> bool {
        fs::metadata(self.model(entry)).is_ok_and(|m| m.is_file() && m.len() == entry.bytes)
    }

    /// The path of a model, or an error if it has not been pulled.
    pub fn require(&self, entry: &Entry) -> Result<PathBuf, HomeError> {
        let (path, name) = (self.model(entry), entry.name.clone());
        if self.has(entry) { Ok(path) } else { Err(HomeError::NotPulled { name, path }) }
    }

    pub fn list(&self, catalog: &Catalog) -> Result<Vec<LocalModel>, HomeError> {
        let folder = self.models();
        let unreadable = |path: &Path, source| HomeError::Unreadable { path: path.into(), source };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(e) => return Err(unreadable(&folder, e)),
        };
        let mut listed = vec![];
        for entry in entries {
            let path = entry.map_err(|e| unreadable(&folder, e))?.path();
            if path.extension().is_none_or(|e| e != "gguf") {
                continue;
            }
            let file = path.file_name().map(|f| f.to_string_lossy().into_owned());
            let known = catalog.models.iter().find(|m| Some(&m.file) == file.as_ref());
            let name = known.map(|m| m.name.clone()).or(file).unwrap_or_default();
            let bytes = fs::metadata(&path).map_err(|e| unreadable(&path, e))?.len();
            let sha256 = digest::of_file(&path).map_err(|e| unreadable(&path, e))?;
            listed.push(LocalModel { name, path, bytes, sha256: Some(sha256) });
        }
        listed.sort_by_key(|m| m.bytes);
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_follows_the_environment() {
        let at = |tandem: Option<&str>, xdg: Option<&str>, home: Option<&str>| {
            Home::find(Environment {
                tandem_home: tandem.map(Into::into),
                xdg_cache_home: xdg.map(Into::into),
                home: home.map(Into::into),
            })
            .map(|h| h.models())
        };
        assert_eq!(at(Some("/t"), Some("/x"), Some("/h")).unwrap(), Path::new("/t/models"));
        assert_eq!(at(None, Some("/x"), Some("/h")).unwrap(), Path::new("/x/tandem/models"));
        assert_eq!(at(None, None, Some("/h")).unwrap(), Path::new("/h/.cache/tandem/models"));
        assert!(at(None, None, None).unwrap_err().to_string().contains("TANDEM_HOME"));
    }
}
