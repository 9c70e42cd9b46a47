//! The hub's cache on this machine, in the layout of the hub's own tools: contents are under `blobs`
//! by their hash, and each commit has a folder of links under `snapshots`.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
};

use onnx::layout::{COMPANION_FILES, TOKENIZER};

use crate::{
    home::LocalModel,
    hub::{
        HubError, Name,
        access::{Variable, cache_folder},
        blob::{Hash, io_error},
        choose::{Choice, ChoiceError, base, choose, folder, join, models},
        name::Repo,
    },
};

const BRANCH: &str = "main";

#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Finds the cache where the hub's own tools have it.
    pub fn find(variable: Variable<'_>) -> Result<Self, HubError> {
        let root = cache_folder(variable).ok_or(HubError::NoCache)?;
        // The path is recorded, and later runs may have another working folder.
        let root = std::path::absolute(&root).map_err(|e| io_error(&root, e))?;
        Ok(Self { root })
    }

    /// The paths of a repository, whether or not it is there.
    pub fn repo(&self, repo: &Repo) -> CachedRepo {
        let folder = self.root.join(repo.folder());
        CachedRepo { locks: self.root.join(".locks").join(repo.folder()), folder }
    }

    /// The path of a model's file, or of its folder of ONNX files; an error if it has not been
    /// pulled. Nothing is downloaded.
    pub fn require(&self, name: &Name) -> Result<PathBuf, HubError> {
        let cached = self.repo(&name.repo);
        let missing = || HubError::NotPulled { name: name.clone(), folder: cached.folder.clone() };
        let snapshot = cached.snapshot()?.ok_or_else(missing)?;
        let files = files(&snapshot)?;
        match choose(&files, name.selector.as_deref()) {
            Ok(Choice::Gguf(parts)) => Ok(snapshot.join(&parts[0])),
            Ok(Choice::Onnx(graph)) => {
                let mut weights = files.iter().filter(|f| f.starts_with(&graph) && **f != graph);
                if weights.any(|file| snapshot.join(file).is_symlink()) {
                    return Err(HubError::Unlinked { name: name.clone() });
                }
                Ok(snapshot.join(graph))
            }
            Ok(Choice::Genai(folder)) => Ok(snapshot.join(folder)),
            Err(problem @ ChoiceError::Several { .. }) => {
                Err(HubError::Choice { repo: name.repo.clone(), problem })
            }
            Err(_) => Err(missing()),
        }
    }

    /// Every model in the cache that Tandem can run, also those other programs have downloaded.
    pub fn list(&self) -> Result<Vec<LocalModel>, HubError> {
        let mut listed = vec![];
        for folder in entries(&self.root)? {
            let name = folder.file_name().map(|n| n.to_string_lossy().into_owned());
            let Some(repo) = name.and_then(|name| Repo::of_folder(&name)) else { continue };
            if let Some(snapshot) = self.repo(&repo).snapshot()? {
                list_snapshot(&repo, &snapshot, &mut listed)?;
            }
        }
        Ok(listed)
    }
}

fn list_snapshot(
    repo: &Repo,
    snapshot: &Path,
    listed: &mut Vec<LocalModel>,
) -> Result<(), HubError> {
    let files = files(snapshot)?;
    for model in models(&files) {
        let (main, parts) = match model {
            Choice::Gguf(parts) => (parts[0].clone(), parts),
            // A graph without a tokenizer is not a language model on its own.
            Choice::Onnx(graph) if has_tokenizer(&files, &graph) => {
                let data = files.iter().filter(|f| f.starts_with(&graph)).cloned().collect();
                (graph, data)
            }
            Choice::Onnx(_) | Choice::Genai(_) => continue,
        };
        let mut bytes = 0;
        for part in &parts {
            let path = snapshot.join(part);
            bytes += fs::metadata(&path).map_err(|e| io_error(&path, e))?.len();
        }
        let path = snapshot.join(&main);
        let blob = fs::read_link(&path).ok();
        let blob = blob.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy());
        let sha256 = match blob.as_deref().and_then(Hash::from_etag) {
            Some(Hash::Sha256(hash)) if parts.len() == 1 => Some(hash),
            _ => None,
        };
        let name = Name { repo: repo.clone(), selector: Some(main) }.to_string();
        listed.push(LocalModel { name, path, bytes, sha256 });
    }
    Ok(())
}

/// The configuration files of an ONNX graph: each from its folder, or else from the one above.
pub(crate) fn beside(files: &[String], graph: &str) -> Vec<String> {
    let here = folder(graph);
    let places = |name: &str| {
        let above = (!here.is_empty()).then(|| join(folder(here), name));
        [Some(join(here, name)), above].into_iter().flatten()
    };
    let nearest = |name: &&str| places(name).find(|place| files.contains(place));
    COMPANION_FILES.iter().filter_map(nearest).collect()
}

fn has_tokenizer(files: &[String], graph: &str) -> bool {
    beside(files, graph).iter().any(|file| base(file) == TOKENIZER)
}

/// How a content is linked into the folder of a commit.
#[derive(Clone, Copy)]
pub(crate) enum Link<'a> {
    /// The usual way of the hub's tools.
    Soft(&'a str),
    /// For the weights of an ONNX graph, because ONNX Runtime refuses symbolic links that lead out
    /// of the graph's folder.
    Hard(&'a str),
}

/// Whether two paths are links to one file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    file(one).is_some_and(|one| Some(one) == file(other))
}

/// One repository in the cache.
#[derive(Clone, Debug)]
pub struct CachedRepo {
    pub(crate) folder: PathBuf,
    pub(crate) locks: PathBuf,
}

impl CachedRepo {
    pub(crate) fn blob(&self, hash: &str) -> PathBuf {
        self.folder.join("blobs").join(hash)
    }

    pub(crate) fn lock(&self, hash: &str) -> PathBuf {
        self.locks.join(format!("{hash}.lock"))
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.folder.join("snapshots")
    }

    fn reference(&self) -> PathBuf {
        self.folder.join("refs").join(BRANCH)
    }

    /// The folder of the commit that the main branch had at the last pull.
    fn snapshot(&self) -> Result<Option<PathBuf>, HubError> {
        let path = self.reference();
        let commit = match fs::read_to_string(&path) {
            Ok(commit) => commit,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io_error(&path, e)),
        };
        let commit = commit.trim();
        let is_plain = !commit.is_empty() && commit.bytes().all(|b| b.is_ascii_alphanumeric());
        Ok(is_plain.then(|| self.snapshots().join(commit)).filter(|folder| folder.is_dir()))
    }

    /// Links a content into the folder of a commit, in one step.
    pub(crate) fn link(&self, commit: &str, file: &str, link: Link<'_>) -> Result<(), HubError> {
        let path = self.snapshots().join(commit).join(file);
        let up = "../".repeat(2 + file.matches('/').count());
        let soft = |hash: &str| PathBuf::from(format!("{up}blobs/{hash}"));
        let is_done = match link {
            Link::Soft(hash) => fs::read_link(&path).is_ok_and(|there| there == soft(hash)),
            Link::Hard(hash) => !path.is_symlink() && is_same(&path, &self.blob(hash)),
        };
        if is_done {
            return Ok(());
        }
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let place = || -> io::Result<()> {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            match fs::remove_file(&new) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            match link {
                Link::Soft(hash) => symlink(soft(hash), &new)?,
                Link::Hard(hash) => fs::hard_link(self.blob(hash), &new)?,
            }
            fs::rename(&new, &path)
        };
        place().map_err(|e| io_error(&path, e))
    }

    /// Records which commit the main branch has.
    pub(crate) fn set_reference(&self, commit: &str) -> Result<(), HubError> {
        let path = self.reference();
        let new = path.with_extension("new");
        let write = || -> io::Result<()> {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&new, commit)?;
            fs::rename(&new, &path)
        };
        write().map_err(|e| io_error(&path, e))
    }
}

/// The paths of all files under a folder, relative to it. Dangling links are left out.
fn files(root: &Path) -> Result<Vec<String>, HubError> {
    let (mut files, mut folders) = (vec![], vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if path.is_file()
                && let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str)
            {
                files.push(name.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The entries of a folder, sorted; none if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, HubError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let mut paths = vec![];
        for entry in fs::read_dir(folder)? {
            paths.push(entry?.path());
        }
        paths.sort();
        Ok(paths)
    };
    match read() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        other => other.map_err(|e| io_error(folder, e)),
    }
}
