//! The separate files in which a model keeps its weights.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
};

use crate::{
    error::OnnxError,
    graph::{File, Graph},
};

/// The files with a graph's weights, relative to the model's folder, and their minimum sizes.
pub fn files(file: &File, graph: &Graph<'_>) -> Result<BTreeMap<PathBuf, u64>, OnnxError> {
    let mut files = BTreeMap::new();
    for tensor in graph.initializers.values() {
        let Some(external) = &tensor.external else { continue };
        let location = PathBuf::from(external.location);
        let plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
        if external.location.is_empty() || !location.components().all(plain) {
            let reason = "it is outside the model's folder".into();
            return Err(OnnxError::External { path: file.path().into(), file: location, reason });
        }
        let end = external.offset.saturating_add(external.length.unwrap_or(0));
        let needed = files.entry(location).or_insert(0);
        *needed = end.max(*needed);
    }
    Ok(files)
}

/// Checks that the files exist and are long enough, with clearer errors than the runtime's; returns
/// their paths.
pub fn check(file: &File, graph: &Graph<'_>) -> Result<Vec<PathBuf>, OnnxError> {
    let mut found = vec![];
    for (location, needed) in files(file, graph)? {
        let path = folder(file.path()).join(&location);
        let refuse = |reason| OnnxError::External {
            path: file.path().into(),
            file: location.clone(),
            reason,
        };
        let length = fs::metadata(&path).map_err(|e| refuse(e.to_string()))?.len();
        if length < needed {
            return Err(refuse(format!("it has {length} bytes of at least {needed}")));
        }
        found.push(path);
    }
    Ok(found)
}

/// Puts a model's external data beside a changed copy of the model: as a hard link where the disk
/// allows one, else as a copy. In the same folder there is nothing to do.
pub(crate) fn place_beside(file: &File, graph: &Graph<'_>, output: &Path) -> Result<(), OnnxError> {
    let (from, to) = (folder(file.path()), folder(output));
    let same = matches!((from.canonicalize(), to.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same {
        return Ok(());
    }
    for location in files(file, graph)?.into_keys() {
        let (source, target) = (from.join(&location), to.join(&location));
        // A hard link to a relative symbolic link would be dangling in another folder.
        let source = source.canonicalize().unwrap_or(source);
        let placed = target.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            match fs::hard_link(&source, &target) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    fs::copy(&source, &target).map(|_| ())
                }
                other => other,
            }
        });
        placed.map_err(|source| OnnxError::Io { path: target, source })?;
    }
    Ok(())
}

pub fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
