//! Downloads one file from the hub: resumes where an earlier download stopped, and gives the file its
//! name only after its hash has been checked.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::{
    hub::{
        HubError,
        client::{Body, Client, FileInfo, root_cause},
        name::Repo,
    },
    pull::{Event, free},
};

const BUFFER: usize = 1 << 18;

/// Failures in a row after which a file is given up.
const MAX_TRIES: u32 = 3;

/// A download with fewer bytes than this counts as no progress: a server that sends a few bytes and
/// stalls, every time, must not be retried for ever.
const MIN_PROGRESS: u64 = 1 << 20;

/// The pause after the first failure in a row; after the second it is twice as long.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The hash by which the hub identifies a file's content, and the content's name in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    /// Of files in large file storage.
    Sha256(String),
    /// Of other files: git's hash of a header and the content.
    Git(String),
}

impl Hash {
    /// Reads an HTTP header, where it is written in quotes and may begin with `W/`.
    pub fn from_etag(etag: &str) -> Option<Self> {
        let hash = etag.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
        let is_hex = hash.bytes().all(|b| b.is_ascii_hexdigit());
        match hash.len() {
            64 if is_hex => Some(Self::Sha256(hash)),
            40 if is_hex => Some(Self::Git(hash)),
            _ => None,
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Sha256(hash) | Self::Git(hash) => hash,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Git(_) => "git hash",
        }
    }

    /// Whether a file has this hash.
    fn matches(&self, path: &Path) -> io::Result<bool> {
        let mut file = File::open(path)?;
        let found = match self {
            Self::Sha256(_) => digest(Sha256::new(), &mut file)?,
            Self::Git(_) => {
                let header = format!("blob {}\0", file.metadata()?.len());
                digest(Sha1::new().chain_update(header), &mut file)?
            }
        };
        Ok(found == self.as_str())
    }
}

fn digest<D: Digest>(mut digest: D, file: &mut File) -> io::Result<String> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(decode::hex(&digest.finalize())),
            count => digest.update(&buffer[..count]),
        }
    }
}

pub(crate) type Progress<'a> = &'a dyn Fn(Event<'_>);

/// A file to download, and its place in the cache.
pub(crate) struct Blob<'a> {
    pub repo: &'a Repo,
    pub commit: &'a str,
    /// Its path in the repository.
    pub file: &'a str,
    pub info: &'a FileInfo,
    /// The path of its content in the cache.
    pub path: PathBuf,
    /// The file that the hub's tools lock while they download it.
    pub lock: PathBuf,
}

impl Blob<'_> {
    /// Whether it has been downloaded. Only whole files get this path.
    pub fn is_here(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|m| m.is_file() && m.len() == self.info.bytes)
    }

    /// The bytes that an interrupted download left.
    pub fn partial_bytes(&self) -> u64 {
        fs::metadata(incomplete(&self.path)).map_or(0, |m| m.len())
    }

    /// Downloads it, and reports progress and retries.
    pub fn fetch(&self, client: &Client, progress: Progress<'_>) -> Result<(), HubError> {
        let _lock = self.lock()?;
        if self.is_here() {
            return Ok(());
        }
        let partial = incomplete(&self.path);
        // The beginning may be from another program, with gaps in it. So if a resumed file turns out
        // damaged, it is downloaded once more from the start.
        let mut was_resumed = self.partial_bytes() > 0;
        loop {
            self.fetch_bytes(client, &partial, progress).map_err(|error| self.explain(error))?;
            progress(Event::Verify { name: self.file });
            if self.info.hash.matches(&partial).map_err(|e| io_error(&partial, e))? {
                break;
            }
            fs::remove_file(&partial).map_err(|e| io_error(&partial, e))?;
            if !was_resumed {
                let kind = self.info.hash.kind();
                return Err(HubError::Damaged { file: self.file.into(), kind });
            }
            was_resumed = false;
            progress(Event::Damaged(self.file.into()));
        }
        fs::rename(&partial, &self.path).map_err(|e| io_error(&self.path, e))
    }

    /// Downloads until every byte is here. Lost connections are retried as long as there is progress.
    fn fetch_bytes(
        &self,
        client: &Client,
        partial: &Path,
        progress: Progress<'_>,
    ) -> Result<(), HubError> {
        let mut options = OpenOptions::new();
        let mut file =
            options.append(true).create(true).open(partial).map_err(|e| io_error(partial, e))?;
        let mut failures = 0;
        loop {
            let before = length(&file, partial)?;
            if before == self.info.bytes {
                return file.sync_all().map_err(|e| io_error(partial, e));
            }
            let error = match self.fetch_once(client, &mut file, partial, progress) {
                Ok(()) => continue,
                Err(error) if is_retryable(&error) => error,
                Err(error) => return Err(error),
            };
            let came = length(&file, partial)?.saturating_sub(before);
            failures = if came < MIN_PROGRESS { failures + 1 } else { 1 };
            if failures == MAX_TRIES {
                let (file, last) = (self.file.to_owned(), Box::new(error));
                return Err(HubError::GivenUp { file, tries: MAX_TRIES, last });
            }
            progress(Event::Retry(error.to_string()));
            thread::sleep(RETRY_PAUSE * failures);
        }
    }

    /// Appends one response of the hub to the file.
    fn fetch_once(
        &self,
        client: &Client,
        file: &mut File,
        partial: &Path,
        progress: Progress<'_>,
    ) -> Result<(), HubError> {
        let io = |e| io_error(partial, e);
        if length(file, partial)? > self.info.bytes {
            file.set_len(0).map_err(io)?;
        }
        let here = length(file, partial)?;
        let Body { mut response, from, host } =
            client.bytes(self.repo, self.commit, self.file, here)?;
        file.set_len(from).map_err(io)?;
        let mut at = from;
        let mut buffer = vec![0; BUFFER];
        while at < self.info.bytes {
            let asked = Instant::now();
            let count = response.read(&mut buffer).map_err(|e| {
                if asked.elapsed() >= client.stall_timeout() {
                    return HubError::Stalled { host: host.clone(), after: client.stall_timeout() };
                }
                HubError::Broken { host: host.clone(), reason: root_cause(&e) }
            })?;
            if count == 0 {
                let reason = format!("after {at} of {} bytes", self.info.bytes);
                return Err(HubError::Broken { host, reason });
            }
            // Bytes beyond the announced size are ignored; the hash shows whether that was right.
            let room = usize::try_from(self.info.bytes - at).unwrap_or(usize::MAX);
            let count = count.min(room);
            file.write_all(&buffer[..count]).map_err(io)?;
            at += count as u64;
            progress(Event::Bytes(at));
        }
        Ok(())
    }

    /// Takes the lock that the hub's own tools hold while they download the same file.
    fn lock(&self) -> Result<File, HubError> {
        for folder in [self.path.parent(), self.lock.parent()].into_iter().flatten() {
            fs::create_dir_all(folder).map_err(|e| io_error(folder, e))?;
        }
        let file = File::create(&self.lock).map_err(|e| io_error(&self.lock, e))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(HubError::Busy { path: self.lock.clone() }),
            Err(TryLockError::Error(e)) => Err(io_error(&self.lock, e)),
        }
    }

    fn explain(&self, error: HubError) -> HubError {
        match error {
            HubError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                let folder = self.path.parent().unwrap_or(&self.path).to_owned();
                let needed = self.info.bytes.saturating_sub(self.partial_bytes());
                HubError::DiskFull { needed, free: free(&folder), folder }
            }
            other => other,
        }
    }
}

fn is_retryable(error: &HubError) -> bool {
    match error {
        HubError::Unreachable { .. } | HubError::Broken { .. } | HubError::Stalled { .. } => true,
        HubError::Refused { status, .. } => *status >= 500,
        _ => false,
    }
}

/// The path during the download, in the same folder so that the final rename is one step.
pub(crate) fn incomplete(blob: &Path) -> PathBuf {
    let mut name = blob.as_os_str().to_owned();
    name.push(".incomplete");
    name.into()
}

fn length(file: &File, path: &Path) -> Result<u64, HubError> {
    file.metadata().map(|m| m.len()).map_err(|e| io_error(path, e))
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> HubError {
    HubError::Io { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_hashes_or_refused() {
        let (long, short) = ("a".repeat(64), "B".repeat(40));
        assert_eq!(Hash::from_etag(&format!("\"{long}\"")), Some(Hash::Sha256(long)));
        let git = Hash::Git("b".repeat(40));
        assert_eq!(Hash::from_etag(&format!("W/\"{short}\"")), Some(git));
        for nonsense in ["", "\"\"", "../../x", &"g".repeat(40), &"a".repeat(32)] {
            assert_eq!(Hash::from_etag(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn hashes_are_those_of_git_and_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "hello\n").unwrap();
        // `git hash-object` and `sha256sum` of the same file.
        for hash in [
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        ] {
            assert!(Hash::from_etag(hash).unwrap().matches(&path).unwrap(), "{hash}");
        }
        assert!(!Hash::from_etag(&"0".repeat(64)).unwrap().matches(&path).unwrap());
    }
}
