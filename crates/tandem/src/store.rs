//! From the names people use to model files on this machine.

use std::{ffi::OsString, fs, path::Path, path::PathBuf};

use models::{
    Catalog, Environment, Home, catalog,
    hub::{Cache, Name},
    preset::SearchPath,
};

use crate::Error;

/// The name of the library that runs ONNX models.
pub const ONNX_RUNTIME: &str = "onnxruntime";

/// Where models are, and which there are.
#[derive(Clone, Debug)]
pub struct Store {
    /// Where they live.
    pub home: Home,
    /// Which there are by name.
    pub catalog: Catalog,
    /// The program beside which presets came. It is this process's own, unless this library is a
    /// part of somebody else's.
    pub program: Option<PathBuf>,
}

impl Store {
    /// The user's home, and the built-in catalog.
    pub fn open() -> Result<Self, Error> {
        Self::with_catalog(None)
    }

    /// The same, perhaps with a catalog of the user's own.
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

    /// A path as given, a name of the catalog or of the hub, or the default. The file is not opened
    /// here, and nothing is fetched.
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

    /// Where presets are looked for by name.
    pub fn presets(&self) -> SearchPath {
        SearchPath::new(&self.home, self.program.as_deref())
    }
}

/// A variable of this process's environment.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
