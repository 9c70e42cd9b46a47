//! Finds model files on this machine by the names that users write.

use std::{ffi::OsString, fs, path::Path, path::PathBuf};

use models::{
    Catalog, Entry, Environment, Home, HomeError, Hub, Role,
    catalog::Pair,
    hub::{Access, Cache, Name},
    preset::SearchPath,
};

use crate::Error;

/// The name of the library that runs ONNX models.
pub const ONNX_RUNTIME: &str = "onnxruntime";

/// The user's own models and pairs, in the folder of models; a catalog like the built-in one.
const OWN_CATALOG: &str = "catalog.toml";

/// The pair that is used if the user names none, instead of the catalog's default.
const PAIR: &str = "TANDEM_PAIR";

/// The folder of models, the catalog of their names, and the pair that is used.
#[derive(Clone, Debug)]
pub struct Store {
    /// The folder with pulled models.
    pub home: Home,
    /// The models and pairs that have a name.
    pub catalog: Catalog,
    /// The pair whose models are used where the user names none.
    pub pair: Pair,
    /// The program beside which presets came. It is this process's own, unless this library is a
    /// part of somebody else's.
    pub program: Option<PathBuf>,
}

impl Store {
    /// Opens the user's folder, with the built-in catalog and the user's own.
    pub fn open() -> Result<Self, Error> {
        Self::with_catalog(None)
    }

    /// Opens the user's folder, with this catalog alone if one is given.
    pub fn with_catalog(path: Option<&Path>) -> Result<Self, Error> {
        let home = Home::find(Environment::read())?;
        let catalog = match path {
            Some(path) => read(path)?,
            None => {
                let mut catalog = Catalog::built_in()?;
                let own = home.file(OWN_CATALOG);
                if own.exists() {
                    catalog.extend(read(&own)?);
                }
                catalog
            }
        };
        let pair = variable(PAIR).filter(|name| !name.is_empty());
        let pair = pair.map(|name| name.to_string_lossy().into_owned());
        let pair = catalog.pair(pair.as_deref())?.clone();
        // Links are followed: what came with the program lies beside its file.
        let program = std::env::current_exe().and_then(fs::canonicalize).ok();
        Ok(Self { home, catalog, pair, program })
    }

    /// The same store with this pair; without a name, or with an empty one, it stays as it is.
    pub fn with_pair(self, name: Option<&str>) -> Result<Self, Error> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(self) };
        let no_pair = |e| Error::Usage(format!("--pair: {e}"));
        let pair = self.catalog.pair(Some(name)).map_err(no_pair)?.clone();
        Ok(Self { pair, ..self })
    }

    /// The path of a model that is given by its path, by its name in the catalog or on the hub, or
    /// not at all. The file is not opened, and nothing is downloaded.
    pub fn resolve(&self, given: Option<&str>, role: Role) -> Result<PathBuf, Error> {
        let name = given.unwrap_or_else(|| self.pair.model(role));
        if Name::is_hub_name(name) {
            let name: Name = name.parse().map_err(|e| Error::Usage(format!("{e}")))?;
            return Ok(Cache::find(&variable)?.require(&name)?);
        }
        match self.catalog.find(name) {
            Some(entry) => self.home.require(entry).map_err(|error| self.with_advice(entry, error)),
            None => Ok(name.into()),
        }
    }

    /// A plain `tandem pull` brings the models of the default pair; those of others need its name.
    fn with_advice(&self, entry: &Entry, error: HomeError) -> Error {
        let has = |pair: &&Pair| [&pair.edge, &pair.cloud].contains(&&entry.name);
        let by_default = self.catalog.pair(None).is_ok_and(|pair| has(&pair));
        match (error, self.catalog.pairs.iter().find(has)) {
            (HomeError::NotPulled { name, path }, Some(pair)) if !by_default => {
                Error::NotPulled { name, path, pair: pair.name.clone() }
            }
            (error, _) => error.into(),
        }
    }

    /// How the hub is reached: by the environment variables of the hub's own tools.
    pub fn hub() -> Result<Hub, Error> {
        Ok(Hub { access: Access::read(&variable)?, cache: Cache::find(&variable)? })
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

fn read(path: &Path) -> Result<Catalog, Error> {
    let failed = |source| Error::File { what: "the catalog", path: path.to_owned(), source };
    Ok(Catalog::parse(&fs::read_to_string(path).map_err(failed)?)?)
}

/// Looks up an environment variable of this process.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
