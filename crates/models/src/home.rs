//! Where model files live.

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

/// The folder that holds everything Tandem keeps on this machine.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
}

/// What decides where home is; the program reads it from its environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `TANDEM_HOME`.
    pub tandem_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
}

impl Environment {
    /// This process's.
    pub fn read() -> Self {
        let path = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            tandem_home: path("TANDEM_HOME"),
            xdg_cache_home: path("XDG_CACHE_HOME"),
            home: path("HOME"),
        }
    }
}

/// Why there is no home, or no model in it.
#[derive(Debug, Error)]
pub enum HomeError {
    /// Nothing says where.
    #[error("no place for models: set TANDEM_HOME to a folder")]
    Nowhere,
    /// Not pulled yet.
    #[error("the model {name} is not here ({}): run `tandem pull`", path.display())]
    NotPulled {
        /// The model.
        name: String,
        /// Where it would be.
        path: PathBuf,
    },
    /// A folder or file that cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A model file on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its name in the catalog or on the hub, or its file's.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its hash: taken now, or for a model of the hub the one it was checked against. None where
    /// it has several files.
    pub sha256: Option<String>,
}

impl Home {
    /// `TANDEM_HOME`, else the XDG cache folder.
    pub fn find(environment: Environment) -> Result<Self, HomeError> {
        let cache = || environment.home.map(|home| home.join(".cache"));
        let xdg = || environment.xdg_cache_home.or_else(cache).map(|c| c.join("tandem"));
        let root = environment.tandem_home.or_else(xdg).ok_or(HomeError::Nowhere)?;
        Ok(Self { root })
    }

    /// The folder of finished models.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// The folder of what is being fetched.
    pub fn partial(&self) -> PathBuf {
        self.root.join("partial")
    }

    /// The folder of the user's own presets.
    pub fn presets(&self) -> PathBuf {
        self.root.join("presets")
    }

    /// Where a file of the program's own is kept.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where a library is, or will be.
    pub fn library(&self, entry: &Entry) -> PathBuf {
        self.root.join(&entry.name).join(&entry.file)
    }

    /// Where a model is, or will be.
    pub fn model(&self, entry: &Entry) -> PathBuf {
        self.models().join(&entry.file)
    }

    /// Whether a model is there: only whole files get their final name, so its size is enough.
    pub fn has(&self, entry: &Entry) -> bool {
        fs::metadata(self.model(entry)).is_ok_and(|m| m.is_file() && m.len() == entry.bytes)
    }

    /// The path of a model that must be there.
    pub fn require(&self, entry: &Entry) -> Result<PathBuf, HomeError> {
        let (path, name) = (self.model(entry), entry.name.clone());
        if self.has(entry) { Ok(path) } else { Err(HomeError::NotPulled { name, path }) }
    }

    /// Every model file here.
    pub fn list(&self, catalog: &Catalog) -> Result<Vec<Listed>, HomeError> {
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
            listed.push(Listed { name, path, bytes, sha256: Some(sha256) });
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
