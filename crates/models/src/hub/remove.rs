//! Deletes a pulled model from the hub's cache. Files that other programs or models use stay.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    home::Home,
    hub::{
        Cache, HubError, Name,
        blob::{incomplete, io_error},
        cache::{entries, is_same},
        choose::{Choice, ChoiceError, choose, folder},
        record::{PulledModel, Record},
    },
    pull::lock,
};

#[derive(Debug)]
pub struct Removed {
    pub name: String,
    /// The bytes that are free now.
    pub bytes: u64,
}

/// Deletes a model, even if only part of it was pulled.
pub fn remove(home: &Home, cache: &Cache, name: &Name) -> Result<Removed, HubError> {
    let partial = home.partial();
    fs::create_dir_all(&partial).map_err(|e| io_error(&partial, e))?;
    let _lock = lock(&partial).map_err(HubError::Lock)?;
    let mut record = Record::read(home)?;
    let Some(index) = find(&record, name)? else {
        return Err(match cache.require(name) {
            Ok(_) => {
                HubError::NotOurs { name: name.clone(), folder: cache.repo(&name.repo).folder }
            }
            Err(_) => HubError::NothingPulled {
                name: name.clone(),
                others: record.models.iter().map(PulledModel::name).collect(),
            },
        });
    };
    let model = record.models.remove(index);
    let is_shared = |blob: &str| {
        let others = record.models.iter().filter(|m| m.folder == model.folder);
        others.flat_map(|m| &m.files).any(|file| file.blob == blob)
    };
    let mut ours = model.files.iter().filter(|file| file.ours).peekable();
    if ours.peek().is_none() {
        // It was recorded when it was pulled, but other programs had downloaded it before.
        return Err(HubError::NotOurs { name: name.clone(), folder: model.folder });
    }
    let mut bytes = 0;
    for file in ours.filter(|file| !is_shared(&file.blob)) {
        let blob = model.folder.join("blobs").join(&file.blob);
        unlink(&model.folder.join("snapshots"), &blob)?;
        bytes += delete(&blob)? + delete(&incomplete(&blob))?;
    }
    remove_empty_repo(&model)?;
    record.write(home)?;
    Ok(Removed { name: model.name(), bytes })
}

/// The index of the pulled model with this name.
fn find(record: &Record, name: &Name) -> Result<Option<usize>, HubError> {
    let all = record.models.iter().enumerate();
    let here: Vec<_> = all.filter(|(_, m)| m.is_of(&name.repo)).collect();
    let several = |models: Vec<String>| HubError::Choice {
        repo: name.repo.clone(),
        problem: ChoiceError::Several { models },
    };
    let Some(selector) = &name.selector else {
        return match here[..] {
            [] => Ok(None),
            [(index, _)] => Ok(Some(index)),
            _ => Err(several(here.iter().map(|(_, m)| m.main.clone()).collect())),
        };
    };
    let files = here.iter().flat_map(|(_, m)| &m.files).map(|file| file.path.clone());
    let is_meant: Box<dyn Fn(&str) -> bool> =
        match choose(&files.collect::<Vec<_>>(), Some(selector)) {
            Ok(Choice::Gguf(parts)) => {
                Box::new(move |main| parts.first().is_some_and(|p| p == main))
            }
            Ok(Choice::Onnx(graph)) => Box::new(move |main| graph == main),
            Ok(Choice::Genai(place)) => Box::new(move |main| folder(main) == place),
            Err(ChoiceError::Several { models }) => return Err(several(models)),
            Err(_) => return Ok(None),
        };
    Ok(here.iter().find(|(_, m)| is_meant(&m.main)).map(|(index, _)| *index))
}

/// Removes the links to a content in all commits, and folders that become empty.
fn unlink(folder: &Path, blob: &Path) -> Result<(), HubError> {
    for path in entries(folder)? {
        if path.is_symlink() {
            let target = fs::read_link(&path).map_err(|e| io_error(&path, e))?;
            if target.file_name() == blob.file_name() {
                delete(&path)?;
            }
        } else if is_same(&path, blob) {
            delete(&path)?;
        } else if path.is_dir() {
            unlink(&path, blob)?;
            remove_if_empty(&path)?;
        }
    }
    Ok(())
}

/// Removes the rest of a repository's folder if it has no contents left.
fn remove_empty_repo(model: &PulledModel) -> Result<(), HubError> {
    let blobs = model.folder.join("blobs");
    if !entries(&blobs)?.is_empty() {
        return Ok(());
    }
    for path in [model.folder.join("refs"), model.locks.clone()] {
        match fs::remove_dir_all(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_error(&path, e)),
            _ => {}
        }
    }
    let rest: [PathBuf; 3] = [blobs, model.folder.join("snapshots"), model.folder.clone()];
    rest.iter().try_for_each(|path| remove_if_empty(path))
}

/// Deletes a file if it exists; returns how many bytes it had.
fn delete(path: &Path) -> Result<u64, HubError> {
    let removed = fs::symlink_metadata(path).and_then(|meta| {
        fs::remove_file(path)?;
        Ok(if meta.is_file() { meta.len() } else { 0 })
    });
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
        other => other.map_err(|e| io_error(path, e)),
    }
}

fn remove_if_empty(folder: &Path) -> Result<(), HubError> {
    match fs::remove_dir(folder) {
        Err(e)
            if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) =>
        {
            Err(io_error(folder, e))
        }
        _ => Ok(()),
    }
}
