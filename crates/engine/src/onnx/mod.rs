//! ONNX models through ONNX Runtime.
//!
//! - [`folder`]: which files belong to a model
//! - [`runtime`]: the library, loaded when the first model is; its execution providers
//! - `layout`: what a graph's inputs and outputs are for
//! - `cache`: the keys and values of one sequence; `session`: reading tokens with them
//! - `tokenizer`: `tokenizer.json` and the files beside it
//!
//! A graph that does not give out its hidden state is changed in memory before it is loaded.

mod cache;
pub mod folder;
mod layout;
pub mod runtime;
mod session;
mod tokenizer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ::onnx::{Exposure, File, Hidden};

use crate::{
    context::Sizes,
    error::EngineError,
    model::{Engine, Facts, LoadOptions},
};

use self::{layout::Layout, session::OnnxContext, tokenizer::JsonTokenizer};

pub use self::{folder::Folder, runtime::Provider};

/// What ONNX models need besides what every model needs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The library of ONNX Runtime.
    pub library: Option<PathBuf>,
    /// Execution providers, the first that can is used; the CPU when there are none.
    pub providers: Vec<Provider>,
}

/// How much a model's files hold together; nearly all of it weights.
fn bytes(model: &Path, beside: &[PathBuf]) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    size(model) + beside.iter().map(|path| size(path)).sum::<u64>()
}

/// Loads a model and finds out how it is fed.
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
    // The file's bytes are not needed any more; the runtime holds its own.
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
    let tokenizer = JsonTokenizer::read(folder, context.vocabulary())?;
    let facts = Facts {
        context: capacity,
        trained_context: trained_context.unwrap_or(0),
        hidden_len: context.hidden_len(),
        footprint: (weights, cache),
    };
    Ok(Engine { context: Box::new(context), tokenizer: Arc::new(tokenizer), facts })
}
