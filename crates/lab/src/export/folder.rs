//! A folder that is there whole or not at all.
//!
//! It is written beside its place under another name and moved there at the end. A server that has
//! mapped the files of an earlier export keeps them: they lose their names and not their contents.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use router::atomic::beside;

use super::ExportError;

/// A folder being written; dropping it without [`finish`](Self::finish) removes it.
pub struct NewFolder {
    place: PathBuf,
    /// Where it is written. `None` once it is in its place.
    partial: Option<PathBuf>,
}

impl NewFolder {
    /// Begins a folder for this place. A folder that is there already may hold these files and no
    /// others: it will be replaced.
    pub fn create(place: &Path, files: &[&str]) -> Result<Self, ExportError> {
        refuse_others(place, files)?;
        let partial = beside(place, "partial");
        if let Some(parent) = partial.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        fs::create_dir(&partial).map_err(failed(&partial))?;
        Ok(Self { place: place.to_owned(), partial: Some(partial) })
    }

    /// The path of a file while the folder is written.
    pub fn file(&self, name: &str) -> PathBuf {
        self.partial.as_ref().unwrap_or(&self.place).join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let path = self.file(name);
        fs::write(&path, bytes).map_err(failed(&path))
    }

    /// Moves the folder to its place, once everything in it is on the disk.
    pub fn finish(mut self) -> Result<(), ExportError> {
        let Some(partial) = self.partial.clone() else { return Ok(()) };
        let failed_here = || failed(&partial);
        for entry in fs::read_dir(&partial).map_err(failed_here())? {
            let path = entry.map_err(failed_here())?.path();
            File::open(&path).and_then(|file| file.sync_all()).map_err(failed(&path))?;
        }
        sync_folder(&partial).map_err(failed_here())?;
        let earlier = beside(&self.place, "earlier");
        let replaces = self.place.exists();
        if replaces {
            fs::rename(&self.place, &earlier).map_err(failed(&self.place))?;
        }
        if let Err(error) = fs::rename(&partial, &self.place) {
            if replaces {
                // What was there before is better than nothing; the first error is the one to tell.
                drop(fs::rename(&earlier, &self.place));
            }
            return Err(failed(&self.place)(error));
        }
        self.partial = None;
        if replaces {
            fs::remove_dir_all(&earlier).map_err(failed(&earlier))?;
        }
        if let Some(parent) = self.place.parent().filter(|parent| parent.is_dir()) {
            sync_folder(parent).map_err(failed(parent))?;
        }
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // The reason why it was given up is the one to tell; a leftover is harmless.
            drop(fs::remove_dir_all(partial));
        }
    }
}

/// Folders are files to Unix, and their names are on the disk only when they are synced too.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

fn refuse_others(place: &Path, files: &[&str]) -> Result<(), ExportError> {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(place)(error)),
    };
    for entry in entries {
        let name = entry.map_err(failed(place))?.file_name();
        if !files.iter().any(|file| name == *file) {
            let (folder, file) = (place.to_owned(), name.to_string_lossy().into_owned());
            return Err(ExportError::NotAnExport { folder, file });
        }
    }
    Ok(())
}

pub fn failed(path: &Path) -> impl FnOnce(io::Error) -> ExportError + use<> {
    let path = path.to_owned();
    move |source| ExportError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const FILES: [&str; 2] = ["a", "b"];

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(folder).unwrap().map(name);
        let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_open_keeps_its_contents() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("model");
        for text in ["first", "second"] {
            let mut open = File::open(place.join("a")).ok();
            let folder = NewFolder::create(&place, &FILES).unwrap();
            folder.write("a", text.as_bytes()).unwrap();
            // Until it is finished, what was there is there.
            assert_eq!(fs::read_to_string(place.join("a")).is_ok(), open.is_some());
            folder.finish().unwrap();
            assert_eq!(fs::read_to_string(place.join("a")).unwrap(), text);
            if let Some(open) = &mut open {
                let mut before = String::new();
                open.read_to_string(&mut before).unwrap();
                assert_eq!(before, "first");
            }
            assert_eq!(names(home.path()), ["model"]);
        }
    }

    #[test]
    fn a_folder_that_was_given_up_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("model");
        let folder = NewFolder::create(&place, &FILES).unwrap();
        folder.write("a", b"half").unwrap();
        drop(folder);
        assert!(names(home.path()).is_empty());
    }

    #[test]
    fn what_a_killed_process_left_is_not_in_the_way() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("model");
        for left in ["partial", "earlier"] {
            let left = home.path().join(format!("model.{left}-{}", std::process::id()));
            fs::create_dir(&left).unwrap();
            fs::write(left.join("a"), "half").unwrap();
        }
        for text in ["first", "second"] {
            let folder = NewFolder::create(&place, &FILES).unwrap();
            folder.write("a", text.as_bytes()).unwrap();
            folder.finish().unwrap();
            assert_eq!(fs::read_to_string(place.join("a")).unwrap(), text);
        }
        assert_eq!(names(home.path()).len(), 3);
    }

    #[test]
    fn somebody_elses_folder_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("thesis.tex"), "").unwrap();
        let refused = NewFolder::create(home.path(), &FILES).err().unwrap();
        assert!(refused.to_string().contains("thesis.tex"), "{refused}");
    }
}
