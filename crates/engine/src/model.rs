//! What to load, and the handle to a model that is loaded on the compute thread.

use std::{
    fs::File,
    io::{self, Read},
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
    vocabulary::ModelVocabulary,
    weights::LoadedWeights,
};

#[derive(Clone, Debug)]
pub struct Adapter {
    pub path: PathBuf,
    /// 1 applies the adapter as it was trained, 0 not at all.
    pub scale: f32,
}

/// What to load, and how much memory to give it.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// A GGUF file, an ONNX file, or a folder with an ONNX model in it.
    pub path: PathBuf,
    /// Adapters, fixed for as long as the model is loaded.
    pub adapters: Vec<Adapter>,
    /// The longest sequence, in tokens.
    pub context: usize,
    /// Tokens of all sequences together. Memory for that many is allocated.
    pub cells: usize,
    pub sequences: usize,
    /// Tokens prefilled in one call: a cancelled prefill stops after at most this many.
    pub chunk: usize,
    pub threads: usize,
    /// Layers of a GGUF model that go onto GPUs; `None` moves as many as fit.
    pub gpu_layers: Option<usize>,
    pub onnx: onnx::Options,
}

impl LoadOptions {
    /// Options for a single sequence, prefilled in chunks of 64 tokens.
    pub fn new(path: impl Into<PathBuf>, context: usize, threads: usize) -> Self {
        Self {
            path: path.into(),
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

    /// Names the model and its adapters by their contents, because a router trained on one model's
    /// hidden states is wrong for any other. Reads the files from end to end.
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

    /// A name for people: the file's, and its adapters'.
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

    /// Checks that the files look like models, without loading them.
    pub fn check(&self) -> Result<(), EngineError> {
        if let Some(folder) = onnx::Folder::find(&self.path)? {
            return folder.check(self);
        }
        let adapters = self.adapters.iter().map(|a| &a.path);
        [&self.path].into_iter().chain(adapters).try_for_each(|path| check_magic(path))
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let Self { sequences, chunk, threads, .. } = *self;
        // With room for every sequence at its longest, none needs another's cells.
        let separate = self.cells >= self.context * sequences;
        // llama.cpp hands out cells in blocks of 256.
        let block = |cells: usize| cells.next_multiple_of(256);
        let cells = if separate { block(self.context) * sequences } else { block(self.cells) };
        Sizes { cells, sequences, separate, batch: chunk, threads }
    }

    /// Loads the model, unless its weights are loaded already, and allocates its caches.
    pub(crate) fn load(&self, loaded: &mut LoadedWeights) -> Result<Engine, EngineError> {
        match onnx::Folder::find(&self.path)? {
            Some(folder) => onnx::load(&folder, self),
            None => self.load_gguf(loaded),
        }
    }

    fn weights(&self, loaded: &mut LoadedWeights) -> Result<Arc<llama::Weights>, EngineError> {
        if let Some(weights) = loaded.find(&self.path, self.gpu_layers) {
            tracing::info!(path = %self.path.display(), "weights are loaded already and are shared");
            return Ok(weights);
        }
        let gpu_layers = gpu::layers(&self.path, self.sizes().cells, self.gpu_layers)?;
        let weights = llama::Weights::load(&self.path, gpu_layers)
            .map_err(|reason| EngineError::Unloadable { path: self.path.clone(), reason })?;
        let weights = Arc::new(weights);
        loaded.add(&self.path, gpu_layers, &weights);
        Ok(weights)
    }

    fn load_gguf(&self, loaded: &mut LoadedWeights) -> Result<Engine, EngineError> {
        check_magic(&self.path)?;
        let path = || self.path.clone();
        let mut model = llama::Model::new(self.weights(loaded)?);
        for adapter in &self.adapters {
            check_magic(&adapter.path)?;
            model.add_adapter(&adapter.path, adapter.scale).map_err(|reason| {
                EngineError::Adapter { path: adapter.path.clone(), model: path(), reason }
            })?;
        }
        let (model, sizes) = (Arc::new(model), self.sizes());
        let context = llama::Context::new(model.clone(), sizes)
            .map_err(|reason| EngineError::Context { tokens: sizes.cells, reason })?;
        let info = ModelInfo {
            context: self.context.min(self.cells),
            trained_context: model.trained_context(),
            hidden_len: model.hidden_len(),
            footprint: model.footprint(),
        };
        Ok(Engine { context: Box::new(context), vocabulary: ModelVocabulary::new(model), info })
    }
}

/// A model with its caches, of either engine.
pub(crate) struct Engine {
    pub context: Box<dyn Context>,
    pub vocabulary: ModelVocabulary,
    pub info: ModelInfo,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelInfo {
    /// The longest sequence, in tokens.
    pub context: usize,
    pub trained_context: usize,
    pub hidden_len: usize,
    /// Bytes of the weights, and of the cache for each token of context.
    pub footprint: (u64, u64),
}

/// The first 16 digits of a file's SHA-256.
pub(crate) fn digest(path: &Path) -> Result<String, EngineError> {
    let failed = |e: io::Error| not_found(path, &e);
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

fn not_found(path: &Path, error: &io::Error) -> EngineError {
    EngineError::NotFound { path: path.to_owned(), reason: error.to_string() }
}

/// Refuses files that are not GGUF, with a clearer message than llama.cpp's.
fn check_magic(path: &Path) -> Result<(), EngineError> {
    let failed = |e: io::Error| not_found(path, &e);
    let mut start = Vec::new();
    File::open(path).map_err(failed)?.take(4).read_to_end(&mut start).map_err(failed)?;
    if start == b"GGUF" {
        return Ok(());
    }
    let start = String::from_utf8_lossy(&start).into_owned();
    Err(EngineError::NotGguf { path: path.to_owned(), start })
}

/// A model on the compute thread; unloaded when the last handle and the last sequence are gone.
#[derive(Clone)]
pub struct Model {
    inner: Arc<LoadedModel>,
}

/// The compute thread's answer to a request to load a model.
pub(crate) struct LoadedModel {
    pub handle: ModelHandle,
    pub vocabulary: Arc<ModelVocabulary>,
    pub info: ModelInfo,
}

impl Model {
    pub async fn load(compute: &Compute, options: LoadOptions) -> Result<Self, EngineError> {
        let owner = compute.clone();
        let loaded = compute.ask(|reply| Command::Load { options, owner, reply }).await?;
        Ok(Self { inner: Arc::new(loaded) })
    }

    /// Opens an empty sequence, or fails if all are in use.
    pub async fn open(&self) -> Result<Sequence, EngineError> {
        let ModelHandle { compute, model } = &self.inner.handle;
        let (model, owner) = (*model, compute.clone());
        let slot = compute.ask(|reply| Command::Open { model, owner, reply }).await?;
        Ok(Sequence::new(self.clone(), slot))
    }

    pub fn vocabulary(&self) -> &Arc<ModelVocabulary> {
        &self.inner.vocabulary
    }

    /// The longest sequence, in tokens.
    pub fn context(&self) -> usize {
        self.inner.info.context
    }

    pub fn hidden_len(&self) -> usize {
        self.inner.info.hidden_len
    }

    /// The bytes of its weights, and of its cache for each token of context.
    pub fn footprint(&self) -> (u64, u64) {
        self.inner.info.footprint
    }

    /// The context the model was trained with.
    pub fn trained_context(&self) -> usize {
        self.inner.info.trained_context
    }
}
