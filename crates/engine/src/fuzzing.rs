//! Doors for fuzz targets to what reads files here, and only for them.

use std::path::Path;

use ::onnx::{File, Graph, Hidden};

use crate::{
    error::EngineError,
    gpu,
    onnx::{Folder, folder::Heads, layout::Layout, tokenizer::JsonTokenizer},
    vocabulary::Tokenizer,
};

/// Reads the `tokenizer.json` beside a model, and a text with it. Returns the ids that are none of its tokens.
pub fn tokenizer(model: &Path, text: &str) -> Result<Vec<u32>, EngineError> {
    let Some(folder) = Folder::find(model)? else { return Ok(vec![]) };
    let tokenizer = JsonTokenizer::read(&folder, 300)?;
    let mut foreign = vec![];
    for special in [false, true] {
        for token in tokenizer.tokenize(text, special).unwrap_or_default() {
            let _ = (tokenizer.piece(token, special), tokenizer.spelling(token));
            if token.index() >= tokenizer.vocabulary_len() {
                foreign.push(token.0);
            }
        }
    }
    Ok(foreign)
}

/// What a graph's inputs and outputs are for; the bytes of one token in its caches.
pub fn layout(file: &File, graph: &Graph<'_>, hidden: &Hidden) -> Result<u64, EngineError> {
    let _ = ::onnx::external::check(file, graph)?;
    let heads = Heads { count: Some(2), length: Some(4) };
    Layout::new(Path::new("fuzz.onnx"), graph, hidden, heads).map(|layout| layout.bytes_per_token())
}

/// How many of a GGUF file's layers a GPU with this much memory would be given, by its header.
pub fn layers(model: &Path, free: u64) -> Option<u64> {
    gpu::layers_that_fit(model, 4096, free)
}
