//! Files that are there whole or not at all.

use std::{
    ffi::OsString,
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Writes beside the file and renames: whoever reads meanwhile, or after a crash, finds the old
/// file or the new one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = beside(path, "partial");
    // Of two writers at once each has its own; the last one to finish wins, with a whole file.
    let written = write_synced(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // The first error is the one to tell; a leftover is harmless.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name beside a path that nobody else writes to. It is random, because processes are not told apart by
/// their numbers: in a container this program mostly has the same one, and finds what it left when it
/// was killed.
pub fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or(path.as_os_str()));
    name.push(format!(".{:016x}.{what}", RandomState::new().hash_one(what)));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_leaves_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("absent/x"), b"").is_err());
    }

    #[test]
    fn what_a_killed_process_left_is_not_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        // As many of these names were used before as one process may have had.
        for count in 0..1000 {
            let left = format!("x.{}-{count}.partial", std::process::id());
            fs::write(folder.path().join(left), "half").unwrap();
        }
        write(&path, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_ne!(beside(&path, "partial"), beside(&path, "partial"));
        assert_eq!(beside(&path, "partial").parent(), Some(folder.path()));
    }

    #[test]
    fn two_writers_at_once_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("x");
        let text = |writer: usize| vec![writer as u8; 100_000];
        std::thread::scope(|scope| {
            for writer in 0..4 {
                scope.spawn(move || (0..20).for_each(|_| write(path, &text(writer)).unwrap()));
            }
            for _ in 0..200 {
                // Not yet there, or whole.
                let Ok(read) = fs::read(path) else { continue };
                assert!(read.len() == 100_000 && read.iter().all(|byte| *byte == read[0]));
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
