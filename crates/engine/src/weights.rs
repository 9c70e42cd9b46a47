//! Weights that are loaded: a file that several models are made of is in memory once.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::SystemTime,
};

use crate::llama::Weights;

/// A file as it was when it was read. One that was written anew since is another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl FileState {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let path = fs::canonicalize(path)?;
        Ok(Self { path, bytes: metadata.len(), modified: metadata.modified().ok() })
    }
}

struct Entry {
    file: FileState,
    /// Layers on GPUs.
    gpu_layers: usize,
    weights: Weak<Weights>,
}

/// The weights that one thread has loaded and somebody still uses.
#[derive(Default)]
pub(crate) struct LoadedWeights(Vec<Entry>);

impl LoadedWeights {
    /// A file's weights, if they are there with as many layers on GPUs as are asked for.
    pub fn find(&mut self, path: &Path, gpu_layers: Option<usize>) -> Option<Arc<Weights>> {
        self.0.retain(|entry| entry.weights.strong_count() > 0);
        let file = FileState::of(path).ok()?;
        let fits = |entry: &&Entry| {
            entry.file == file && gpu_layers.is_none_or(|asked| asked == entry.gpu_layers)
        };
        self.0.iter().find(fits)?.weights.upgrade()
    }

    /// Remembers what was loaded.
    pub fn add(&mut self, path: &Path, gpu_layers: usize, weights: &Arc<Weights>) {
        match FileState::of(path) {
            Ok(file) => {
                let weights = Arc::downgrade(weights);
                self.0.push(Entry { file, gpu_layers, weights });
            }
            // They are loaded all the same, and nobody else will find them.
            Err(error) => tracing::debug!(%error, "weights cannot be shared"),
        }
    }
}

#[cfg(test)]
#[path = "../tests/it/gguf/mod.rs"]
mod gguf;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Adapter, LoadOptions};

    #[test]
    fn a_file_is_loaded_once_whatever_adapters_are_added() {
        let folder = tempfile::tempdir().unwrap();
        let (path, lora) = (folder.path().join("tiny.gguf"), folder.path().join("lora.gguf"));
        let write = |path: &Path| gguf::write(path, &gguf::metadata("default"), &gguf::weights());
        write(&path);
        gguf::lora(&lora, "llama", 32);
        let mut loaded = LoadedWeights::default();
        let plain = LoadOptions::new(&path, 64, 1);
        let first = plain.load(&mut loaded).unwrap();
        let adapters = vec![Adapter { path: lora, scale: 1.0 }];
        let second = LoadOptions { adapters, ..plain.clone() }.load(&mut loaded).unwrap();
        assert_eq!(loaded.0.len(), 1);
        // By another way to the same file, too.
        let around = folder.path().join("..").join(folder.path().file_name().unwrap());
        assert!(loaded.find(&around.join("tiny.gguf"), None).is_some());
        // Another number of layers on GPUs is another place in memory.
        assert!(loaded.find(&path, Some(7)).is_none());
        let other = folder.path().join("other.gguf");
        write(&other);
        let third = LoadOptions::new(&other, 64, 1).load(&mut loaded).unwrap();
        assert_eq!(loaded.0.len(), 2);
        drop((first, third));
        assert!(loaded.find(&path, None).is_some(), "the second still has them");
        assert!(loaded.find(&other, None).is_none());
        drop(second);
        assert!(loaded.find(&path, None).is_none());
    }
}
