//! The keys of a server: typed, or in a file.

use std::{fs, path::Path};

use anyhow::Context;
use server::http::Keys;

use crate::config::UsageError;

/// The keys that were typed and those in a file, one on each line. `option` takes one, and the same with
/// `-file` behind it the file.
pub fn keys(typed: &[String], file: Option<&Path>, option: &str) -> anyhow::Result<Keys> {
    let mut keys = typed.to_vec();
    if let Some(path) = file {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("{option}-file {}", path.display()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let before = keys.len();
        keys.extend(lines.map(String::from));
        if keys.len() == before {
            // Nobody names a file of keys to let everybody in.
            let reason = format!("{option}-file {} holds no key", path.display());
            return Err(UsageError(reason).into());
        }
    }
    Keys::new(keys).map_err(|error| UsageError(format!("{option}: {error}")).into())
}
