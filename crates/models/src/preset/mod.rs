//! Presets: folders with adapters and routers that belong together, for one kind of question.
//!
//! - [`Manifest`]: what a folder says of itself
//! - [`SearchPath`]: where folders are looked for
//! - [`Preset`]: a folder whose files are the ones its manifest names

mod manifest;
mod search;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

pub use self::{
    manifest::{AdapterPart, Defaults, EdgeKind, Manifest, RouterPart, Side},
    search::{Found, SearchPath},
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

/// Why a preset cannot be used.
#[derive(Debug, Error)]
pub enum PresetError {
    /// No such name.
    #[error(
        "there is no preset {name:?}: there are {known} (looked in {places}); a folder elsewhere is \
         given by its path, as in ./{name}"
    )]
    Unknown {
        /// The name.
        name: String,
        /// What there is.
        known: String,
        /// Where was looked.
        places: String,
    },
    /// No folder at a path.
    #[error("there is no folder {}: a preset is a folder, or a name `tandem preset list` shows", folder.display())]
    NoFolder {
        /// The path.
        folder: PathBuf,
    },
    /// A folder, but no preset.
    #[error("{} is no preset: it holds no {MANIFEST}; docs/presets.md says how one is made", folder.display())]
    NoManifest {
        /// The folder.
        folder: PathBuf,
    },
    /// A manifest that is not one.
    #[error("{} {reason}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it; reads on after its name.
        reason: String,
    },
    /// The disk said no.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The manifest names it, and it is not there.
    #[error("{} is missing, and the preset needs it: copy the preset again", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A folder, a device or the like.
    #[error("{} is not a plain file", path.display())]
    NotAFile {
        /// What it is called.
        path: PathBuf,
    },
    /// A link to what is not part of the preset.
    #[error("{} is a link that leads out of the preset: put the file itself there", path.display())]
    Outside {
        /// The link.
        path: PathBuf,
    },
    /// Another file than the manifest names.
    #[error(
        "{} is damaged or another file: its sha256 is {found}, and the preset's manifest says \
         {wanted:?}; copy the preset again",
        path.display()
    )]
    WrongHash {
        /// The file.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// The manifest's.
        wanted: String,
    },
}

impl Preset {
    /// Reads a folder's manifest. Its files are not looked at.
    pub fn open(folder: &Path) -> Result<Self, PresetError> {
        let path = folder.join(MANIFEST);
        if matches!(path.try_exists(), Ok(false)) {
            return Err(PresetError::NoManifest { folder: folder.into() });
        }
        Ok(Self { folder: folder.into(), manifest: Manifest::read(&path)? })
    }

    /// Reads a folder and checks every file in it.
    pub fn load(folder: &Path) -> Result<Self, PresetError> {
        let preset = Self::open(folder)?;
        for (file, wanted) in preset.manifest.files() {
            preset.check(file, wanted)?;
        }
        Ok(preset)
    }

    /// Whether a file is the one the manifest names.
    pub fn check(&self, file: &str, wanted: &str) -> Result<(), PresetError> {
        let path = self.path(file);
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => PresetError::Missing { path: path.clone() },
            _ => PresetError::Unreadable { path: path.clone(), source },
        };
        // Before it is opened: a pipe or a device would never end.
        if !fs::metadata(&path).map_err(unreadable)?.is_file() {
            return Err(PresetError::NotAFile { path });
        }
        // What is not in the folder is lost when the folder is handed on.
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

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where one of its files is.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: [&str; 2] = ["commonsenseqa", "general"];

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
