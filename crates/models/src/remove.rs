//! Deletes a model or library of the catalog from this machine.

use std::{fs, io};

use crate::{
    catalog::{Catalog, Entry},
    home::Home,
    pull::{PullError, lock},
};

/// Deletes a model or library, even if only part of it was pulled, and returns how many bytes it
/// had; `None` if nothing of it is here.
pub fn remove(home: &Home, catalog: &Catalog, name: &str) -> Result<Option<u64>, PullError> {
    let model = catalog.find(name).map(|entry| (entry, home.model(entry)));
    let library = || catalog.library(name).map(|entry| (entry, home.library(entry)));
    let Some((Entry { file, .. }, path)) = model.or_else(library) else { return Ok(None) };
    let partial = home.partial();
    fs::create_dir_all(&partial).map_err(|e| PullError::io(&partial, e))?;
    let _lock = lock(&partial)?;
    let mut removed = None;
    for path in [path, partial.join(file), partial.join(format!("{file}.parts"))] {
        // Of a link only the link is deleted here; its file belongs to the hub's cache.
        let deleted = fs::symlink_metadata(&path).and_then(|meta| {
            fs::remove_file(&path)?;
            Ok(meta.len())
        });
        match deleted {
            Ok(bytes) => removed = Some(removed.unwrap_or(0) + bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(PullError::io(&path, e)),
        }
    }
    Ok(removed)
}
