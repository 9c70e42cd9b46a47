//! Finds model files on this machine by the names that users write.

use std::{ffi::OsString, fs, path::Path, path::PathBuf};

use models::{
    Catalog, Environment, Home, catalog,
    hub::{Cache, Name},
    preset::SearchPath,
};

use crate::Error;

/// The name of the library that runs ONNX models.
pub const ONNX_RUNTIME: &str = "onnxruntime";

/// The folder of models, and the catalog of their names.
#[derive(Clone, Debug)]
pub struct Store {
    /// The folder with pulled models.
    pub home: Home,
    /// The models that have a name.
    pub catalog: Catalog,
    /// The program beside which presets came. It is this process's own, unless this library is a
    /// part of somebody else's.
    pub program: Option<PathBuf>,
}

impl Store {
    /// Opens the user's folder, with the built-in catalog.
    pub fn open() -> Result<Self, Error> {
        Self::with_catalog(None)
    }

    /// Opens the user's folder, with this catalog if one is given.
    pub fn with_catalog(path: Option<&Path>) -> Result<Self, Error> {
        let catalog = match path {
            None => Catalog::built_in()?,
            Some(path) => {
                let failed =
                    |source| Error::File { what: "the catalog", path: path.to_owned(), source };
                Catalog::parse(&fs::read_to_string(path).map_err(failed)?)?
            }
        };
        // Links are followed: what came with the program lies beside its file.
        let program = std::env::current_exe().and_then(fs::canonicalize).ok();
        Ok(Self { home: Home::find(Environment::read())?, catalog, program })
    }

    /// The path of a model that is given by its path, by its name in the catalog or on the hub, or
    /// not at all. The file is not opened, and nothing is downloaded.
    pub fn resolve(&self, given: Option<&str>, role: catalog::Default) -> Result<PathBuf, Error> {
        let entry = match given {
            Some(name) if Name::is_hub_name(name) => {
                let name: Name = name.parse().map_err(|e| Error::Usage(format!("{e}")))?;
                return Ok(Cache::find(&variable)?.require(&name)?);
            }
            Some(name) => match self.catalog.find(name) {
                Some(entry) => entry,
                None => return Ok(name.into()),
            },
            None => self
                .catalog
                .default(role)
                .ok_or_else(|| Error::Usage("the catalog names no default model".into()))?,
        };
        Ok(self.home.require(entry)?)
    }

    /// The library that runs ONNX models: the user's own, or the one that was pulled.
    pub fn onnx_runtime(&self) -> Option<PathBuf> {
        let own = variable("ORT_DYLIB_PATH").filter(|path| !path.is_empty());
        let pulled = || Some(self.home.library(self.catalog.library(ONNX_RUNTIME)?));
        own.map(PathBuf::from).or_else(pulled)
    }

    /// The folders in which presets are searched by name.
    pub fn presets(&self) -> SearchPath {
        SearchPath::new(&self.home, self.program.as_deref())
    }
}

/// Looks up an environment variable of this process.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
