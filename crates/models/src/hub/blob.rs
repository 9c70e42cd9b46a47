//! One file of the hub: fetched where it left off, checked, and given its name only then.

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
        client::{Body, Client, Promise, cause},
        name::Repo,
    },
    pull::{Event, free},
};

const BUFFER: usize = 1 << 18;

/// Failures in a row after which a file is given up.
const TRIES: u32 = 3;

/// The bytes that must come between two failures for the count to begin again: a server that sends
/// a few and stalls, every time, gets nowhere.
const ENOUGH: u64 = 1 << 20;

/// The pause after the first of them; the next is twice as long.
const PAUSE: Duration = Duration::from_millis(500);

/// How the hub names a file's content; also its name in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    /// Of a large file.
    Sha256(String),
    /// Of a small one, as git counts: a header, then the content.
    Git(String),
}

impl Hash {
    /// `W/"…"` and quotes are how it is written in a header.
    pub fn of_etag(etag: &str) -> Option<Self> {
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

    /// Whether a file has it.
    fn fits(&self, path: &Path) -> io::Result<bool> {
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

/// Whoever wants to know how far it is.
pub(crate) type Tell<'a> = &'a dyn Fn(Event<'_>);

/// A file that is wanted, and where it goes.
pub(crate) struct Blob<'a> {
    pub repo: &'a Repo,
    pub commit: &'a str,
    /// Its path in the repository.
    pub file: &'a str,
    pub promise: &'a Promise,
    /// Where its content will be.
    pub path: PathBuf,
    /// What the hub's tools lock while they fetch it.
    pub lock: PathBuf,
}

impl Blob<'_> {
    /// Only whole files get their name.
    pub fn is_here(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|m| m.is_file() && m.len() == self.promise.bytes)
    }

    /// The bytes an interrupted fetch left.
    pub fn partial_bytes(&self) -> u64 {
        fs::metadata(incomplete(&self.path)).map_or(0, |m| m.len())
    }

    /// Fetches it, telling how many of its bytes are here and what went wrong on the way.
    pub fn fetch(&self, client: &Client, tell: Tell<'_>) -> Result<(), HubError> {
        let _lock = self.lock()?;
        if self.is_here() {
            return Ok(());
        }
        let partial = incomplete(&self.path);
        // What is here may be of another program, with holes: a resumed file gets a second chance.
        let mut was_resumed = self.partial_bytes() > 0;
        loop {
            self.fetch_bytes(client, &partial, tell).map_err(|error| self.explain(error))?;
            tell(Event::Verify { name: self.file });
            if self.promise.hash.fits(&partial).map_err(|e| io_error(&partial, e))? {
                break;
            }
            fs::remove_file(&partial).map_err(|e| io_error(&partial, e))?;
            if !was_resumed {
                let kind = self.promise.hash.kind();
                return Err(HubError::Damaged { file: self.file.into(), kind });
            }
            was_resumed = false;
            tell(Event::Damaged(self.file.into()));
        }
        fs::rename(&partial, &self.path).map_err(|e| io_error(&self.path, e))
    }

    /// Goes on until every byte is here, through lost connections as long as something comes.
    fn fetch_bytes(&self, client: &Client, partial: &Path, tell: Tell<'_>) -> Result<(), HubError> {
        let mut options = OpenOptions::new();
        let mut file =
            options.append(true).create(true).open(partial).map_err(|e| io_error(partial, e))?;
        let mut failures = 0;
        loop {
            let before = length(&file, partial)?;
            if before == self.promise.bytes {
                return file.sync_all().map_err(|e| io_error(partial, e));
            }
            let error = match self.fetch_once(client, &mut file, partial, tell) {
                Ok(()) => continue,
                Err(error) if can_pass(&error) => error,
                Err(error) => return Err(error),
            };
            let came = length(&file, partial)?.saturating_sub(before);
            failures = if came < ENOUGH { failures + 1 } else { 1 };
            if failures == TRIES {
                let (file, last) = (self.file.to_owned(), Box::new(error));
                return Err(HubError::GivenUp { file, tries: TRIES, last });
            }
            tell(Event::Trouble(error.to_string()));
            thread::sleep(PAUSE * failures);
        }
    }

    /// One answer of the hub, appended to what is here.
    fn fetch_once(
        &self,
        client: &Client,
        file: &mut File,
        partial: &Path,
        tell: Tell<'_>,
    ) -> Result<(), HubError> {
        let io = |e| io_error(partial, e);
        if length(file, partial)? > self.promise.bytes {
            file.set_len(0).map_err(io)?;
        }
        let here = length(file, partial)?;
        let Body { mut response, from, host } =
            client.bytes(self.repo, self.commit, self.file, here)?;
        file.set_len(from).map_err(io)?;
        let mut at = from;
        let mut buffer = vec![0; BUFFER];
        while at < self.promise.bytes {
            let asked = Instant::now();
            let count = response.read(&mut buffer).map_err(|e| {
                if asked.elapsed() >= client.stall() {
                    return HubError::Stalled { host: host.clone(), after: client.stall() };
                }
                HubError::Broken { host: host.clone(), reason: cause(&e) }
            })?;
            if count == 0 {
                let reason = format!("after {at} of {} bytes", self.promise.bytes);
                return Err(HubError::Broken { host, reason });
            }
            // More than there should be is not looked at: the hash will tell.
            let room = usize::try_from(self.promise.bytes - at).unwrap_or(usize::MAX);
            let count = count.min(room);
            file.write_all(&buffer[..count]).map_err(io)?;
            at += count as u64;
            tell(Event::Bytes(at));
        }
        Ok(())
    }

    /// The hub's own tools hold the same lock while they fetch the same file.
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
                let needed = self.promise.bytes.saturating_sub(self.partial_bytes());
                HubError::DiskFull { needed, free: free(&folder), folder }
            }
            other => other,
        }
    }
}

/// Whether another try may help.
fn can_pass(error: &HubError) -> bool {
    match error {
        HubError::Unreachable { .. } | HubError::Broken { .. } | HubError::Stalled { .. } => true,
        HubError::Refused { status, .. } => *status >= 500,
        _ => false,
    }
}

/// What is being fetched, in the same folder: giving it its name must be one step.
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
        assert_eq!(Hash::of_etag(&format!("\"{long}\"")), Some(Hash::Sha256(long)));
        let git = Hash::Git("b".repeat(40));
        assert_eq!(Hash::of_etag(&format!("W/\"{short}\"")), Some(git));
        for nonsense in ["", "\"\"", "../../x", &"g".repeat(40), &"a".repeat(32)] {
            assert_eq!(Hash::of_etag(nonsense), None, "{nonsense}");
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
            assert!(Hash::of_etag(hash).unwrap().fits(&path).unwrap(), "{hash}");
        }
        assert!(!Hash::of_etag(&"0".repeat(64)).unwrap().fits(&path).unwrap());
    }
}
