//! A loaded model, seen from outside the compute thread.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use crate::{
    compute::{Command, Compute, ModelHandle},
    context::{Context, Sizes},
    error::EngineError,
    gpu, llama, onnx,
    sequence::Sequence,
    vocabulary::{ModelVocabulary, Tokenizer},
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
    /// A GGUF file, an ONNX file, or a folder with an ONNX model in it.
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
    /// Layers of a GGUF model that go onto GPUs; all that fit, if it does not say.
    pub gpu_layers: Option<usize>,
    /// What ONNX models need besides.
    pub onnx: onnx::Options,
}

impl LoadOptions {
    /// One sequence of this context, prefilled in chunks of 64.
    pub fn new(path: impl Into<PathBuf>, context: usize, threads: usize) -> Self {
        let path = path.into();
        Self {
            path,
            adapters: vec![],
            context,
            cells: context,
            sequences: 1,
            chunk: 64,
            threads,
            gpu_layers: None,
            onnx: onnx::Options::default(),
        }
    }

    /// Names the model and its adapters by their contents: what was learned from one model's states
    /// holds for no other. Reads the files from end to end.
    pub fn fingerprint(&self) -> Result<String, EngineError> {
        if let Some(folder) = onnx::Folder::find(&self.path)? {
            return folder.fingerprint();
        }
        let mut name = digest(&self.path)?;
        for Adapter { path, scale } in &self.adapters {
            name += &format!("+{}*{scale}", digest(path)?);
        }
        Ok(name)
    }

    /// What people call it: the file's name, and its adapters'.
    pub fn name(&self) -> String {
        if let Ok(Some(folder)) = onnx::Folder::find(&self.path) {
            return folder.name();
        }
        let paths = [&self.path].into_iter().chain(self.adapters.iter().map(|a| &a.path));
        let stem = |path: &PathBuf| {
            path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        };
        paths.map(stem).collect::<Vec<_>>().join("+")
    }

    /// Says whether the files look like models, without loading them.
    pub fn check(&self) -> Result<(), EngineError> {
        if let Some(folder) = onnx::Folder::find(&self.path)? {
            return folder.check(self);
        }
        let adapters = self.adapters.iter().map(|a| &a.path);
        [&self.path].into_iter().chain(adapters).try_for_each(|path| check_magic(path))
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let Self { sequences, chunk, threads, .. } = *self;
        // Where there is room for all at their longest, nobody needs another's.
        let apart = self.cells >= self.context * sequences;
        // llama.cpp hands out cells in blocks of 256.
        let block = |cells: usize| cells.next_multiple_of(256);
        let cells = if apart { block(self.context) * sequences } else { block(self.cells) };
        Sizes { cells, sequences, apart, batch: chunk, threads }
    }

    /// Loads the model and allocates its caches.
    pub(crate) fn load(&self) -> Result<Engine, EngineError> {
        match onnx::Folder::find(&self.path)? {
            Some(folder) => onnx::load(&folder, self),
            None => self.load_gguf(),
        }
    }

    fn load_gguf(&self) -> Result<Engine, EngineError> {
        check_magic(&self.path)?;
        let path = || self.path.clone();
        let gpu_layers = gpu::layers(&self.path, self.sizes().cells, self.gpu_layers)?;
        let mut model = llama::Model::load(&self.path, gpu_layers)
            .map_err(|reason| EngineError::Unloadable { path: path(), reason })?;
        for adapter in &self.adapters {
            check_magic(&adapter.path)?;
            model.add_adapter(&adapter.path, adapter.scale).map_err(|reason| {
                EngineError::Adapter { path: adapter.path.clone(), model: path(), reason }
            })?;
        }
        let (model, sizes) = (Arc::new(model), self.sizes());
        let context = llama::Context::new(model.clone(), sizes)
            .map_err(|reason| EngineError::Context { tokens: sizes.cells, reason })?;
        let facts = Facts {
            context: self.context.min(self.cells),
            trained_context: model.trained_context(),
            hidden_len: model.hidden_len(),
            footprint: model.footprint(),
        };
        Ok(Engine { context: Box::new(context), tokenizer: model, facts })
    }
}

/// A model and what computes it, whichever library does.
pub(crate) struct Engine {
    pub context: Box<dyn Context>,
    pub tokenizer: Arc<dyn Tokenizer>,
    pub facts: Facts,
}

/// What is known of a loaded model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Tokens one sequence may hold.
    pub context: usize,
    pub trained_context: usize,
    pub hidden_len: usize,
    /// Bytes of the weights, and of the cache for each token of context.
    pub footprint: (u64, u64),
}

/// The first 16 digits of a file's SHA-256.
pub(crate) fn digest(path: &Path) -> Result<String, EngineError> {
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
    Ok(decode::hex(&hash.finalize()[..8]))
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
    pub tokenizer: Arc<dyn Tokenizer>,
    pub facts: Facts,
    pub residence: ModelHandle,
}

/// A model on the compute thread; unloaded when the last handle and the last sequence are gone.
#[derive(Clone)]
pub struct Model {
    shared: Arc<Shared>,
}

struct Shared {
    residence: ModelHandle,
    vocabulary: Arc<ModelVocabulary>,
    facts: Facts,
}

impl Model {
    /// Loads a model onto the compute thread.
    pub async fn load(compute: &Compute, options: LoadOptions) -> Result<Self, EngineError> {
        let Loaded { tokenizer, facts, residence } =
            compute.ask(|reply| Command::Load { options, owner: compute.clone(), reply }).await?;
        let vocabulary = Arc::new(ModelVocabulary::new(tokenizer));
        Ok(Self { shared: Arc::new(Shared { residence, vocabulary, facts }) })
    }

    /// An empty sequence.
    pub async fn open(&self) -> Result<Sequence, EngineError> {
        let ModelHandle { compute, model } = &self.shared.residence;
        let (model, owner) = (*model, compute.clone());
        let place = compute.ask(|reply| Command::Open { model, owner, reply }).await?;
        Ok(Sequence::new(self.clone(), place))
    }

    /// Its tokenizer and template.
    pub fn vocabulary(&self) -> &Arc<ModelVocabulary> {
        &self.shared.vocabulary
    }

    /// Tokens one sequence may hold.
    pub fn context(&self) -> usize {
        self.shared.facts.context
    }

    /// The length of a hidden state.
    pub fn hidden_len(&self) -> usize {
        self.shared.facts.hidden_len
    }

    /// The bytes of its weights, and of its cache for each token of context.
    pub fn footprint(&self) -> (u64, u64) {
        self.shared.facts.footprint
    }

    /// The context the model was trained with.
    pub fn trained_context(&self) -> usize {
        self.shared.facts.trained_context
    }
}
