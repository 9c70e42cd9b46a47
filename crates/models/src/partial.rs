//! A download under way: one file into which each part is written at its offset, and a journal of
//! the finished parts. Nothing is joined afterwards and nothing is stored twice.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use crate::{catalog::Entry, digest};

pub(crate) struct Partial<'a> {
    entry: &'a Entry,
    path: PathBuf,
    journal: PathBuf,
    file: File,
    finished: Mutex<BTreeSet<usize>>,
}

impl<'a> Partial<'a> {
    /// Opens what an interrupted pull left, or creates an empty file.
    pub fn open(folder: &Path, entry: &'a Entry) -> io::Result<Self> {
        let path = folder.join(&entry.file);
        let journal = folder.join(format!("{}.parts", entry.file));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
        let recorded = match fs::read_to_string(&journal) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(e),
        };
        let known: BTreeSet<&str> = recorded.lines().collect();
        let (length, mut end) = (file.metadata()?.len(), 0);
        let mut finished = BTreeSet::new();
        for (i, part) in entry.parts.iter().enumerate() {
            end += part.bytes;
            if known.contains(part.sha256.as_str()) && end <= length {
                finished.insert(i);
            }
        }
        Ok(Self { entry, path, journal, file, finished: Mutex::new(finished) })
    }

    fn finished(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        self.finished.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Indices of the parts still to be fetched.
    pub fn missing(&self) -> Vec<usize> {
        let finished = self.finished();
        (0..self.entry.parts.len()).filter(|i| !finished.contains(i)).collect()
    }

    pub fn bytes(&self) -> u64 {
        self.finished().iter().map(|&i| self.entry.parts[i].bytes).sum()
    }

    fn offset(&self, part: usize) -> u64 {
        self.entry.parts[..part].iter().map(|p| p.bytes).sum()
    }

    /// Writes a part at its offset; `false` if its hash is not the catalog's.
    pub fn write(&self, part: usize, reader: impl Read) -> io::Result<bool> {
        let expected = &self.entry.parts[part];
        let mut at = self.offset(part);
        let end = at + expected.bytes;
        // Reading one byte too many is enough to notice a part that is too long; that byte is not
        // written, because it would be in the next part.
        let (bytes, hash) = digest::copy(reader.take(expected.bytes + 1), |chunk| {
            let room = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
            self.file.write_all_at(&chunk[..chunk.len().min(room)], at)?;
            at += chunk.len() as u64;
            Ok(())
        })?;
        if bytes != expected.bytes || hash != expected.sha256 {
            return Ok(false);
        }
        self.file.sync_data()?;
        let mut finished = self.finished();
        let mut journal = OpenOptions::new().append(true).create(true).open(&self.journal)?;
        writeln!(journal, "{hash}")?;
        finished.insert(part);
        Ok(true)
    }

    /// Whether the whole file has the catalog's hash.
    pub fn verify(&self) -> io::Result<bool> {
        self.file.set_len(self.entry.bytes)?;
        (&self.file).seek(SeekFrom::Start(0))?;
        Ok(digest::of(&self.file)? == self.entry.sha256)
    }

    /// Checks every part and removes damaged ones from the journal; returns their indices.
    pub fn forget_damaged(&self) -> io::Result<Vec<usize>> {
        let mut damaged = vec![];
        for (i, part) in self.entry.parts.iter().enumerate() {
            (&self.file).seek(SeekFrom::Start(self.offset(i)))?;
            if digest::of((&self.file).take(part.bytes))? != part.sha256 {
                damaged.push(i);
            }
        }
        let mut finished = self.finished();
        finished.retain(|i| !damaged.contains(i));
        let lines: Vec<_> = finished.iter().map(|&i| self.entry.parts[i].sha256.as_str()).collect();
        fs::write(&self.journal, lines.join("\n") + "\n")?;
        Ok(damaged)
    }

    /// Moves the file to its final name, in one step.
    pub fn finish(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        fs::remove_file(&self.journal)
    }
}
