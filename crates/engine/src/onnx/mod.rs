//! ONNX models through ONNX Runtime.
//!
//! - [`folder`]: which files belong to a model
//! - [`runtime`]: the library, loaded with the first model; its execution providers
//! - `layout`: what a graph's inputs and outputs are for
//! - `cache`: the keys and values of one sequence; `session`: reading tokens with them
//! - `tokenizer`: `tokenizer.json` and the files beside it
//!
//! A graph without an output for its hidden state gets one in memory before it is loaded.

mod cache;
pub mod folder;
pub(crate) mod layout;
pub mod runtime;
mod session;
pub(crate) mod tokenizer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ::onnx::{Exposure, File, Hidden};

use crate::{
    context::Sizes,
    error::EngineError,
    model::{Engine, LoadOptions, ModelInfo},
    vocabulary::ModelVocabulary,
};

use self::{layout::Layout, session::OnnxContext, tokenizer::JsonTokenizer};

pub use self::{folder::Folder, runtime::Provider};

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The path of ONNX Runtime's shared library.
    pub library: Option<PathBuf>,
    /// Execution providers in order of preference; the CPU if there are none.
    pub providers: Vec<Provider>,
}

/// The size of a model's files together, nearly all of which is weights.
fn bytes(model: &Path, beside: &[PathBuf]) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    size(model) + beside.iter().map(|path| size(path)).sum::<u64>()
}

pub(crate) fn load(folder: &Folder, options: &LoadOptions) -> Result<Engine, EngineError> {
    let path = folder.model();
    if !options.adapters.is_empty() {
        return Err(EngineError::NoAdapters { path: path.into() });
    }
    let file = File::read(path)?;
    let graph = file.graph()?;
    let hidden = Hidden::find(&file, &graph)?;
    let weights = bytes(path, &::onnx::external::check(&file, &graph)?);
    let layout = Layout::new(path, &graph, &hidden, folder.heads())?;
    let changed = match hidden.output(&graph) {
        Some(_) => None,
        None => Some(Exposure::new(&file, &graph, &hidden)?.to_bytes()),
    };
    // The runtime keeps its own copy of the file, so ours is freed before it is made.
    drop(graph);
    drop(file);
    let cache = layout.bytes_per_token();
    let session = runtime::session(path, changed, options)?;
    let trained_context = folder.trained_context();
    let longest = trained_context.unwrap_or(usize::MAX);
    let capacity = options.context.min(options.cells).min(longest);
    let sizes = Sizes { cells: options.cells, ..options.sizes() };
    let context = OnnxContext::new(session, layout, sizes, capacity)?;
    // As many tokens as there are logits, whatever the head's matrix says.
    let tokenizer = JsonTokenizer::read(folder, context.vocabulary)?;
    let info = ModelInfo {
        context: capacity,
        trained_context: trained_context.unwrap_or(0),
        hidden_len: context.hidden_len,
        footprint: (weights, cache),
    };
    let vocabulary = ModelVocabulary::new(Arc::new(tokenizer));
    Ok(Engine { context: Box::new(context), vocabulary, info })
}
