//! How a model of the hub is named: `hf:OWNER/REPO[:SELECTOR]`.

use std::{fmt, str::FromStr};

use crate::hub::HubError;

/// The prefix of every name of a model on the hub.
pub const SCHEME: &str = "hf:";

/// A model on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub repo: Repo,
    /// A file, a folder or a quantisation in that repository.
    pub selector: Option<String>,
}

/// A repository of models: `OWNER/REPO`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repo(String);

impl Repo {
    /// Its folder in the hub's cache.
    pub fn folder(&self) -> String {
        format!("models--{}", self.0.replace('/', "--"))
    }

    /// The repository of a folder in the hub's cache.
    pub fn of_folder(folder: &str) -> Option<Self> {
        let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
        format!("{owner}/{name}").parse().ok()
    }
}

impl FromStr for Repo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (owner, name) = text.split_once('/').ok_or("write hf:OWNER/REPO")?;
        // These are the hub's own rules. The cache writes "--" for the slash.
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let plain = |part: &str| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            let ends = edge(part.chars().next()) && edge(part.chars().next_back());
            ends && part.chars().all(allowed) && !part.contains("--") && !part.contains("..")
        };
        if plain(owner) && plain(name) {
            Ok(Self(text.into()))
        } else {
            Err(format!("{text:?} is not the OWNER/REPO of a repository"))
        }
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Name {
    /// Whether a text is a name on the hub rather than a path or a name in the catalog.
    pub fn is_hub_name(text: &str) -> bool {
        text.starts_with(SCHEME)
    }
}

impl FromStr for Name {
    type Err = HubError;

    fn from_str(text: &str) -> Result<Self, HubError> {
        let refuse = |reason: String| HubError::Name { given: text.into(), reason };
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| refuse("it does not begin with hf:".into()))?;
        let (repo, selector) = match rest.split_once(':') {
            Some((repo, selector)) => (repo, Some(selector.trim_end_matches('/'))),
            None => (rest, None),
        };
        if let Some(selector) = selector.filter(|s| !is_plain_path(s)) {
            return Err(refuse(format!("{selector:?} is not a file, a folder or a quantisation")));
        }
        let repo = repo.parse().map_err(refuse)?;
        Ok(Self { repo, selector: selector.map(str::to_owned) })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.repo)?;
        self.selector.as_ref().map_or(Ok(()), |selector| write!(f, ":{selector}"))
    }
}

/// Whether a path stays inside the folder it is joined to, on every system.
pub(crate) fn is_plain_path(path: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    !path.contains(|c: char| c == '\\' || c.is_control()) && path.split('/').all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for text in ["hf:a/b", "hf:Some-One/x_y.1-GGUF:Q4_K_M", "hf:a/b:onnx/model_q4.onnx"] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
        }
        let folder: Name = "hf:a/b:cpu/int4/".parse().unwrap();
        assert_eq!(folder.selector.as_deref(), Some("cpu/int4"));
    }

    #[test]
    fn invalid_names_and_paths_are_refused() {
        for text in [
            "a/b",
            "hf:",
            "hf:b",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/..",
            "hf:a/b:",
            "hf:a/b:../x.gguf",
            "hf:a/b:/etc/x",
            "hf:a/b:x//y",
            "hf:a/b:x\\y",
            "hf:a--b/c",
            "hf:a/b c",
            "hf:a/b:x\n",
        ] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn folders_of_the_cache_name_their_repository() {
        let repo: Repo = "Owner/My-Repo".parse().unwrap();
        assert_eq!(repo.folder(), "models--Owner--My-Repo");
        assert_eq!(Repo::of_folder(&repo.folder()), Some(repo));
        assert_eq!(Repo::of_folder("datasets--a--b"), None);
        assert_eq!(Repo::of_folder("models--gpt2"), None);
    }
}
