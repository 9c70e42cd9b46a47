//! How the hub is reached. The environment variables are those of the hub's own tools, with the
//! same meaning.

use std::{
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::Url;

use crate::hub::HubError;

const ENDPOINT: &str = "https://huggingface.co";

/// How long the hub may send nothing before a download is interrupted and tried again.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Looks up an environment variable by name.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The hub's address, the user's token and the timeout.
#[derive(Clone, Debug)]
pub struct Access {
    pub endpoint: Url,
    pub token: Option<Token>,
    /// How long the hub may send nothing.
    pub stall_timeout: Duration,
}

/// The user's secret token, and where it was found. Only the latter is ever printed.
#[derive(Clone)]
pub struct Token {
    secret: String,
    source: String,
}

impl Token {
    pub(crate) fn expose(&self) -> &str {
        &self.secret
    }

    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(from {})", self.source)
    }
}

impl Access {
    /// `HF_ENDPOINT`, `HF_TOKEN` or the hub tools' token file, and `HF_HUB_DOWNLOAD_TIMEOUT`.
    pub fn read(variable: Variable<'_>) -> Result<Self, HubError> {
        let text = |name| text(variable, name);
        let given = text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.into());
        let refuse = |reason: String| HubError::Endpoint { given: given.clone(), reason };
        let endpoint = Url::parse(&given).map_err(|e| refuse(e.to_string()))?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.host().is_none() {
            return Err(refuse("it must be the address of a web server".into()));
        }
        let stall_timeout = match text("HF_HUB_DOWNLOAD_TIMEOUT") {
            None => STALL_TIMEOUT,
            Some(given) => match given.trim().parse() {
                Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
                _ => return Err(HubError::Timeout { given }),
            },
        };
        Ok(Self { endpoint, token: token(variable)?, stall_timeout })
    }
}

/// The folder of the hub's cache: `HF_HUB_CACHE`, else `hub` in the hub's home.
pub(crate) fn cache_folder(variable: Variable<'_>) -> Option<PathBuf> {
    let named = |name| path(variable, name);
    let own = named("HF_HUB_CACHE").or_else(|| named("HUGGINGFACE_HUB_CACHE"));
    own.or_else(|| Some(home(variable)?.join("hub")))
}

/// `HF_HOME`, else `huggingface` in the XDG cache folder.
fn home(variable: Variable<'_>) -> Option<PathBuf> {
    let user = || path(variable, "HOME").map(|home| home.join(".cache"));
    let default = || Some(path(variable, "XDG_CACHE_HOME").or_else(user)?.join("huggingface"));
    path(variable, "HF_HOME").or_else(default)
}

fn token(variable: Variable<'_>) -> Result<Option<Token>, HubError> {
    for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
        if let Some(secret) = text(variable, name).and_then(secret) {
            return Ok(Some(Token { secret, source: name.into() }));
        }
    }
    let file = path(variable, "HF_TOKEN_PATH");
    let Some(file) = file.or_else(|| Some(home(variable)?.join("token"))) else { return Ok(None) };
    match fs::read_to_string(&file) {
        Ok(read) => {
            let source = file.display().to_string();
            Ok(secret(read).map(|secret| Token { secret, source }))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(HubError::Io { path: file, source }),
    }
}

/// Tokens are pasted or echoed into files, so there may be line ends around them.
fn secret(text: String) -> Option<String> {
    let secret = text.trim().to_owned();
    if secret.is_empty() { None } else { Some(secret) }
}

fn text(variable: Variable<'_>, name: &str) -> Option<String> {
    variable(name).and_then(|v| v.into_string().ok()).filter(|v| !v.is_empty())
}

/// The hub's tools accept `~` in these variables, so their users may have written it.
fn path(variable: Variable<'_>, name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(variable(name).filter(|v| !v.is_empty())?);
    match (path.strip_prefix("~"), variable("HOME")) {
        (Ok(rest), Some(home)) => Some(Path::new(&home).join(rest)),
        _ => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into())
    }

    #[test]
    fn the_cache_is_where_the_hubs_tools_have_it() {
        for (set, expected) in [
            (&[("HOME", "/h")][..], "/h/.cache/huggingface/hub"),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HOME", "/h"), ("HF_HOME", "/hf")], "/hf/hub"),
            (&[("HOME", "/h"), ("HF_HOME", "~/hf")], "/h/hf/hub"),
            (&[("HF_HOME", "/hf"), ("HUGGINGFACE_HUB_CACHE", "/old")], "/old"),
            (&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HUB_CACHE", "/c")], "/c"),
        ] {
            assert_eq!(cache_folder(&with(set)).as_deref(), Some(Path::new(expected)), "{set:?}");
        }
        assert_eq!(cache_folder(&with(&[])), None);
    }

    #[test]
    fn a_token_is_found_and_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "from-file\n").unwrap();
        let home = folder.path().to_str().unwrap();
        let read = |set: &[(&str, &str)]| Access::read(&with(set)).unwrap().token;
        let token = read(&[("HF_HOME", home)]).unwrap();
        assert_eq!(token.expose(), "from-file");
        assert!(!format!("{token:?}").contains("from-file"));
        let token = read(&[("HF_HOME", home), ("HF_TOKEN", " from-env ")]).unwrap();
        assert_eq!((token.expose(), token.source()), ("from-env", "HF_TOKEN"));
        assert!(read(&[("HF_HOME", "/nowhere")]).is_none());
    }

    #[test]
    fn invalid_settings_are_refused() {
        for set in [
            ("HF_ENDPOINT", "hub"),
            ("HF_ENDPOINT", "file:///x"),
            ("HF_HUB_DOWNLOAD_TIMEOUT", "0"),
            ("HF_HUB_DOWNLOAD_TIMEOUT", "soon"),
        ] {
            let error = Access::read(&with(&[set])).unwrap_err().to_string();
            assert!(error.contains(set.0) && error.contains(set.1), "{error}");
        }
    }
}
