//! A loaded model, seen from outside the compute thread.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use crate::{
    compute::{Command, Compute, Residence},
    error::EngineError,
    llama::{self, Sizes},
    sequence::Sequence,
    vocabulary::GgufVocabulary,
};

/// A LoRA adapter and how strongly it acts.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// A GGUF file.
    pub path: PathBuf,
    /// 1 is as trained, 0 is nothing.
    pub scale: f32,
}

/// What to load, and how large.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// A GGUF file.
    pub path: PathBuf,
    /// Adapters, fixed for as long as the model is loaded.
    pub adapters: Vec<Adapter>,
    /// Tokens one sequence may hold.
    pub context: usize,
    /// Tokens all sequences together may hold: this much memory is taken.
    pub cells: usize,
    /// Sequences at once.
    pub sequences: usize,
    /// Tokens prefilled in one call: a cancelled prefill stops within it.
    pub chunk: usize,
    /// Threads that compute.
    pub threads: usize,
}

impl LoadOptions {
    /// One sequence of this context, prefilled in chunks of 64.
    pub fn new(path: impl Into<PathBuf>, context: usize, threads: usize) -> Self {
        let path = path.into();
        Self { path, adapters: vec![], context, cells: context, sequences: 1, chunk: 64, threads }
    }

    /// Names the model and its adapters by their contents: what was learned from one model's states
    /// holds for no other. Reads the files from end to end.
    pub fn fingerprint(&self) -> Result<String, EngineError> {
        let mut name = digest(&self.path)?;
        for Adapter { path, scale } in &self.adapters {
            name += &format!("+{}*{scale}", digest(path)?);
        }
        Ok(name)
    }

    /// What people call it: the file's name, and its adapters'.
    pub fn name(&self) -> String {
        let paths = [&self.path].into_iter().chain(self.adapters.iter().map(|a| &a.path));
        let stem = |path: &PathBuf| {
            path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        };
        paths.map(stem).collect::<Vec<_>>().join("+")
    }

    /// Says whether the files look like models, without loading them.
    pub fn check(&self) -> Result<(), EngineError> {
        let adapters = self.adapters.iter().map(|a| &a.path);
        [&self.path].into_iter().chain(adapters).try_for_each(|path| check_magic(path))
    }

    pub(crate) fn sizes(&self) -> Sizes {
        // llama.cpp hands out cells in blocks of 256.
        let cells = self.cells.next_multiple_of(256);
        let Self { sequences, chunk, threads, .. } = *self;
        Sizes { cells, sequences, batch: chunk, threads }
    }

    pub(crate) fn load(&self) -> Result<Arc<llama::Model>, EngineError> {
        check_magic(&self.path)?;
        let path = || self.path.clone();
        let mut model = llama::Model::load(&self.path)
            .map_err(|reason| EngineError::Unloadable { path: path(), reason })?;
        for adapter in &self.adapters {
            check_magic(&adapter.path)?;
            model.add_adapter(&adapter.path, adapter.scale).map_err(|reason| {
                EngineError::Adapter { path: adapter.path.clone(), model: path(), reason }
            })?;
        }
        Ok(Arc::new(model))
    }
}

/// The first 16 digits of a file's SHA-256.
fn digest(path: &Path) -> Result<String, EngineError> {
    let failed =
        |e: std::io::Error| EngineError::NotFound { path: path.to_owned(), reason: e.to_string() };
    let mut hash = Sha256::new();
    let mut file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            n => hash.update(&buffer[..n]),
        }
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Says plainly what llama.cpp would say in passing.
fn check_magic(path: &Path) -> Result<(), EngineError> {
    let not_found =
        |e: std::io::Error| EngineError::NotFound { path: path.to_owned(), reason: e.to_string() };
    let mut start = Vec::new();
    File::open(path).map_err(not_found)?.take(4).read_to_end(&mut start).map_err(not_found)?;
    if start == b"GGUF" {
        return Ok(());
    }
    let start = String::from_utf8_lossy(&start).into_owned();
    Err(EngineError::NotGguf { path: path.to_owned(), start })
}

/// What the compute thread gives back for a loaded model.
pub(crate) struct Loaded {
    pub model: Arc<llama::Model>,
    pub residence: Residence,
}

/// A model on the compute thread; unloaded when the last handle and the last sequence are gone.
#[derive(Clone)]
pub struct Model {
    shared: Arc<Shared>,
}

struct Shared {
    residence: Residence,
    vocabulary: Arc<GgufVocabulary>,
    context: usize,
    trained_context: usize,
    hidden_len: usize,
    footprint: (u64, u64),
}

impl Model {
    /// Loads a model onto the compute thread.
    pub async fn load(compute: &Compute, options: LoadOptions) -> Result<Self, EngineError> {
        let context = options.context.min(options.cells);
        let loaded =
            compute.ask(|reply| Command::Load { options, owner: compute.clone(), reply }).await?;
        let (trained_context, hidden_len) =
            (loaded.model.trained_context(), loaded.model.hidden_len());
        let footprint = loaded.model.footprint();
        let vocabulary = Arc::new(GgufVocabulary::new(loaded.model));
        let residence = loaded.residence;
        let shared =
            Shared { residence, vocabulary, context, trained_context, hidden_len, footprint };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// An empty sequence.
    pub async fn open(&self) -> Result<Sequence, EngineError> {
        let Residence { compute, model } = &self.shared.residence;
        let (model, owner) = (*model, compute.clone());
        let place = compute.ask(|reply| Command::Open { model, owner, reply }).await?;
        Ok(Sequence::new(self.clone(), place))
    }

    /// Its tokenizer and template.
    pub fn vocabulary(&self) -> &Arc<GgufVocabulary> {
        &self.shared.vocabulary
    }

    /// Tokens one sequence may hold.
    pub fn context(&self) -> usize {
        self.shared.context
    }

    /// The length of a hidden state.
    pub fn hidden_len(&self) -> usize {
        self.shared.hidden_len
    }

    /// The bytes of its weights, and of its cache for each token of context.
    pub fn footprint(&self) -> (u64, u64) {
        self.shared.footprint
    }

    /// The context the model was trained with.
    pub fn trained_context(&self) -> usize {
        self.shared.trained_context
    }
}
