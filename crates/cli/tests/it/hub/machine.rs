//! A machine with nothing on it but the hub's address.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::server::{COMMIT, Hub, blob_name};
use crate::common::{Done, tandem};

pub struct Machine {
    folder: TempDir,
    pub hub: Hub,
}

impl Machine {
    pub fn new(hub: Hub) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), hub }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The hub's cache.
    pub fn cache(&self) -> PathBuf {
        self.path("hf/hub")
    }

    pub fn blob(&self, repo: &str, name: &str) -> PathBuf {
        self.cache().join(format!("models--{}/blobs/{name}", repo.replace('/', "--")))
    }

    pub fn snapshot(&self, repo: &str, file: &str) -> PathBuf {
        let folder = format!("models--{}/snapshots/{COMMIT}/{file}", repo.replace('/', "--"));
        self.cache().join(folder)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.guard(tandem(arguments))
    }

    /// Gives a command this machine's environment and no other.
    pub fn guard(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HF_")) {
            command.env_remove(name);
        }
        for name in ["HUGGINGFACE_HUB_CACHE", "HUGGING_FACE_HUB_TOKEN"] {
            command.env_remove(name);
        }
        command
            .env("TANDEM_HOME", self.path("home"))
            .env("HF_HOME", self.path("hf"))
            .env("HF_ENDPOINT", &self.hub.endpoint)
            // A busy machine's server may be slow; only tests of stalls want less.
            .env("HF_HUB_DOWNLOAD_TIMEOUT", "60");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        self.command(arguments).output().unwrap().into()
    }

    pub fn pull(&self, name: &str) -> Done {
        self.run(&["pull", name])
    }

    /// Pulls, which must work.
    pub fn pulled(&self, name: &str) {
        let done = self.pull(name);
        assert_eq!(done.code, Some(0), "{}", done.err);
    }

    /// Pulls, which must fail with these words and leave no file under its final name.
    pub fn refused(&self, name: &str, words: &[&str]) -> String {
        let done = self.pull(name);
        assert_eq!(done.code, Some(1), "{}", done.err);
        for word in words {
            assert!(done.err.contains(word), "no {word:?} in {}", done.err);
        }
        self.assert_nothing_whole();
        done.err
    }

    pub fn assert_nothing_whole(&self) {
        let whole: Vec<_> = files(&self.cache())
            .into_iter()
            .filter(|f| !f.ends_with(".incomplete") && !f.ends_with(".lock"))
            .collect();
        assert!(whole.is_empty(), "{whole:?}");
    }

    /// Puts a file where the hub's own tools would have put it.
    pub fn fill_cache(&self, repo: &str, file: &str, bytes: &[u8]) {
        let name = blob_name(file, bytes);
        let (blob, link) = (self.blob(repo, &name), self.snapshot(repo, file));
        for path in [&blob, &link] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        fs::write(&blob, bytes).unwrap();
        let up = "../".repeat(2 + file.matches('/').count());
        symlink(format!("{up}blobs/{name}"), link).unwrap();
        let refs = blob.parent().unwrap().parent().unwrap().join("refs");
        fs::create_dir_all(&refs).unwrap();
        fs::write(refs.join("main"), COMMIT).unwrap();
    }
}

/// Paths of all files and links under a folder, from it.
pub fn files(folder: &Path) -> Vec<String> {
    let (mut found, mut folders) = (vec![], vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
