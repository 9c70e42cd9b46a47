//! Presets: folders with adapters and routers that belong together, for one kind of question.
//!
//! - [`Manifest`]: the description of a preset, in the file `preset.toml`
//! - [`SearchPath`]: the folders in which presets are searched by name
//! - [`Preset`]: one preset, whose files are checked against the hashes in its manifest

mod manifest;
mod search;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

pub use self::{
    manifest::{AdapterPart, Defaults, EdgeKind, Manifest, ModelPart, RouterPart, TablePart},
    search::{PresetEntry, SearchPath},
};
use crate::digest;

/// The file that makes a folder a preset.
pub const MANIFEST: &str = "preset.toml";

/// A preset on this machine.
#[derive(Clone, Debug)]
pub struct Preset {
    folder: PathBuf,
    manifest: Manifest,
}

#[derive(Debug, Error)]
pub enum PresetError {
    #[error(
        "there is no preset {name:?}: there are {known} (looked in {places}); for a folder elsewhere \
         give its path, such as ./{name}"
    )]
    Unknown { name: String, known: String, places: String },
    #[error(
        "there is no folder {}: give the folder of a preset, or a name from `tandem preset list`",
        folder.display()
    )]
    NoFolder { folder: PathBuf },
    #[error(
        "{} is not a preset: it has no {MANIFEST}; docs/presets.md says how to make one",
        folder.display()
    )]
    NoManifest { folder: PathBuf },
    #[error("{} {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the preset's file {} is missing: copy the preset again", path.display())]
    Missing { path: PathBuf },
    #[error("{} is not a plain file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is a link to a file outside the preset: put the file itself there", path.display())]
    Outside { path: PathBuf },
    #[error(
        "{} is damaged or was replaced: its sha256 is {found}, and the preset's manifest has \
         {wanted:?}; copy the preset again",
        path.display()
    )]
    WrongHash { path: PathBuf, found: String, wanted: String },
}

impl Preset {
    /// Reads the manifest only.
    pub fn open(folder: &Path) -> Result<Self, PresetError> {
        let path = folder.join(MANIFEST);
        if matches!(path.try_exists(), Ok(false)) {
            return Err(PresetError::NoManifest { folder: folder.into() });
        }
        Ok(Self { folder: folder.into(), manifest: Manifest::read(&path)? })
    }

    /// Reads the manifest and checks every file that it names.
    pub fn load(folder: &Path) -> Result<Self, PresetError> {
        let preset = Self::open(folder)?;
        for (file, wanted) in preset.manifest.files() {
            preset.check(file, wanted)?;
        }
        Ok(preset)
    }

    /// Checks that a file exists in the folder and has this hash.
    pub fn check(&self, file: &str, wanted: &str) -> Result<(), PresetError> {
        let path = self.path(file);
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => PresetError::Missing { path: path.clone() },
            _ => PresetError::Unreadable { path: path.clone(), source },
        };
        // Checked before it is opened, because a pipe or a device would never end.
        if !fs::metadata(&path).map_err(unreadable)?.is_file() {
            return Err(PresetError::NotAFile { path });
        }
        // A file outside the folder would be missing in a copy of the folder.
        let real = |path: &Path| fs::canonicalize(path).map_err(unreadable);
        if !real(&path)?.starts_with(real(&self.folder)?) {
            return Err(PresetError::Outside { path });
        }
        let found = digest::of_file(&path).map_err(unreadable)?;
        if !found.eq_ignore_ascii_case(wanted) {
            return Err(PresetError::WrongHash { path, found, wanted: wanted.into() });
        }
        Ok(())
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: [&str; 5] =
        ["commonsenseqa", "commonsenseqa-qwen", "general", "general-qwen", "maths-qwen"];

    fn shipped(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets").join(name)
    }

    #[test]
    fn the_presets_that_come_with_the_program_are_whole() {
        for name in SHIPPED {
            let preset = Preset::load(&shipped(name)).unwrap();
            assert_eq!(preset.manifest().name, name);
            let catalog = crate::Catalog::built_in().unwrap();
            let edge = catalog.find(&preset.manifest().edge.model).unwrap();
            assert_eq!(edge.sha256, preset.manifest().edge.sha256);
        }
    }

    #[test]
    fn every_flaw_of_a_file_is_its_own_error() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("p");
        fs::create_dir(&folder).unwrap();
        assert!(matches!(Preset::load(&folder), Err(PresetError::NoManifest { .. })));
        for name in ["preset.toml", "router.safetensors"] {
            fs::copy(shipped("general").join(name), folder.join(name)).unwrap();
        }
        Preset::load(&folder).unwrap();
        let file = folder.join("router.safetensors");
        let whole = fs::read(&file).unwrap();

        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        fs::write(&file, damaged).unwrap();
        let error = Preset::load(&folder).unwrap_err();
        assert!(matches!(&error, PresetError::WrongHash { path, .. } if *path == file), "{error}");

        fs::remove_file(&file).unwrap();
        assert!(matches!(Preset::load(&folder), Err(PresetError::Missing { .. })));

        fs::create_dir(&file).unwrap();
        assert!(matches!(Preset::load(&folder), Err(PresetError::NotAFile { .. })));
        fs::remove_dir(&file).unwrap();

        // The right bytes, but not in the folder.
        let elsewhere = root.path().join("elsewhere");
        fs::write(&elsewhere, &whole).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert!(matches!(Preset::load(&folder), Err(PresetError::Outside { .. })));
        fs::remove_file(&file).unwrap();
        fs::rename(&elsewhere, folder.join("other")).unwrap();
        std::os::unix::fs::symlink("other", &file).unwrap();
        Preset::load(&folder).unwrap();
    }
}
