//! A GGUF model as an ONNX folder that this program and onnxruntime-genai understand.
//!
//! - `source`: the GGUF file, its weights read a few rows at a time, with LoRA adapters merged
//! - `data`: the file of weights, written from its beginning to its end
//! - `folder`: the folder, which is there whole or not at all
//! - `builder`: nodes and weights of a graph; `decoder`: those of the llama and qwen2 families
//! - `tokenizer`, `settings`: the files beside the model

mod builder;
mod data;
mod decoder;
mod error;
mod folder;
mod settings;
mod shape;
mod source;
mod tokenizer;

use std::path::{Path, PathBuf};

use self::{
    data::Data,
    folder::{NewFolder, failed},
    source::Source,
};

pub use self::{error::ExportError, source::Lora};

/// The model's file in the folder.
pub const MODEL: &str = "model.onnx";

const DATA: &str = "model.onnx.data";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const GENERATION_CONFIG: &str = "generation_config.json";
const GENAI_CONFIG: &str = "genai_config.json";

/// All files of an export.
const FILES: [&str; 6] =
    [MODEL, DATA, TOKENIZER, TOKENIZER_CONFIG, GENERATION_CONFIG, GENAI_CONFIG];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Blocks of 32 bytes with a scale.
    Int8,
    /// Blocks of 32 half bytes with a scale; the vocabulary's matrix stays at 8 bits.
    Int4,
    /// 16-bit floats, computed with as 32-bit ones.
    Fp16,
    Fp32,
}

#[derive(Clone, Debug)]
pub struct Export {
    pub model: PathBuf,
    pub adapters: Vec<Lora>,
    pub weights: Weights,
    /// Write 4 bits even from weights that have no more.
    pub force: bool,
}

#[derive(Clone, Debug)]
pub struct Exported {
    pub model: PathBuf,
    /// Bytes of model and weights.
    pub bytes: u64,
}

/// Writes a model into a folder, which takes the place of an earlier export when it is whole.
pub fn export(options: &Export, folder: &Path) -> Result<Exported, ExportError> {
    let mut source = Source::open(&options.model, &options.adapters)?;
    if options.weights == Weights::Int4 && !options.force {
        source.refuse_four_bits()?;
    }
    let shape = shape::Shape::read(&source)?;
    // Before the long part: a tokenizer we cannot write should not cost minutes.
    let tokenizer = tokenizer::Tokenizer::read(&source)?;
    let new = NewFolder::create(folder, &FILES)?;
    let path = new.file(DATA);
    let data = Data::create(&path, DATA).map_err(failed(&path))?;
    let (graph, length) = decoder::write(&mut source, &shape, options.weights, data)?;
    for (name, json) in [
        (TOKENIZER, tokenizer.json()),
        (TOKENIZER_CONFIG, tokenizer.config()),
        (GENERATION_CONFIG, tokenizer.generation_config()),
        (GENAI_CONFIG, settings::genai(&shape, &tokenizer)),
    ] {
        new.write(name, format!("{json:#}\n").as_bytes())?;
    }
    new.write(MODEL, &graph)?;
    new.finish()?;
    Ok(Exported { model: folder.join(MODEL), bytes: length + graph.len() as u64 })
}
