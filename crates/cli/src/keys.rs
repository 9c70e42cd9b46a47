//! The keys of a server: typed, or in a file.

use std::{fs, path::Path};

use anyhow::Context;
use server::http::Keys;

use crate::config::UsageError;

/// Refuses to let everybody into a server that has keys: a file that is missing for a moment would.
pub fn stay_closed(now: &Keys, next: &Keys) -> Result<(), UsageError> {
    if next.is_empty() && !now.is_empty() {
        let reason = "there would be no key any more, and everybody could come in: name a key, or \
                      restart the server if that is wanted";
        return Err(UsageError(reason.into()));
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_server_with_keys_never_loses_all_of_them() {
        let (none, one) = (Keys::default(), Keys::new(["sesame"]).unwrap());
        assert!(stay_closed(&one, &none).is_err());
        for (now, next) in [(&none, &none), (&none, &one), (&one, &one)] {
            assert!(stay_closed(now, next).is_ok());
        }
    }
}
