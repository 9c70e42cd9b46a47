//! The models that can be pulled by name: where their bytes come from, and their hashes.

use serde::Deserialize;
use thiserror::Error;

/// The role in which a model is used when the user names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Default {
    Edge,
    Cloud,
}

/// One model: the members of its parts, joined in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    pub default: Option<Default>,
    /// The kind of machine it is for, such as `x86_64-linux`; `None` for any.
    pub target: Option<String>,
    pub file: String,
    pub bytes: u64,
    pub sha256: String,
    pub license: String,
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
}

/// A file inside a package of the Python registry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub package: String,
    pub version: String,
    /// The platform of the package that is wanted, for example a newer one than this machine's
    /// Python supports; `None` for this machine's own.
    pub platform: Option<String>,
    /// The file inside it.
    pub member: String,
    pub bytes: u64,
    pub sha256: String,
}

/// All models that can be pulled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    #[serde(rename = "model")]
    pub models: Vec<Entry>,
    /// Libraries, which are pulled only by name.
    #[serde(default, rename = "library")]
    pub libraries: Vec<Entry>,
}

#[derive(Debug, Error)]
pub enum CatalogError {
    #[error("the catalog cannot be read: {0}")]
    Toml(#[from] toml::de::Error),
    #[error("the catalog's parts of {name} have {parts} bytes together, but the model has {bytes}")]
    Sizes { name: String, parts: u64, bytes: u64 },
    #[error("the catalog's file name {file:?} is not a plain file name")]
    FileName { file: String },
}

impl Catalog {
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

    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.models.iter().find(|m| m.name == name)
    }

    /// The library of this name, for this machine.
    pub fn library(&self, name: &str) -> Option<&Entry> {
        let here = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let fits = |entry: &&Entry| entry.target.as_ref().is_none_or(|target| *target == here);
        self.libraries.iter().filter(|entry| entry.name == name).find(fits)
    }

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
