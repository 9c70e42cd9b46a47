//! Models on this machine: GGUF files through llama.cpp, ONNX files through ONNX Runtime.
//!
//! - [`compute`]: one thread owns every model; `scheduler` batches the jobs (`job`) of its sequences
//! - [`model`]: what to load, and a loaded model; [`vocabulary`] and [`template`]: its tokenizer
//!   and its chat template; `pieces`: long texts, cut before they are tokenized
//! - [`sequence`]: one context of a model: read, score, truncate. It implements `decode::Edge`.
//! - [`grammar`]: texts that are held to a form
//! - [`mod@bench`]: an engine without thread and channels, the baseline of benchmarks
//! - `context`: the trait that each engine implements; `weights`: files that several models share
//! - `llama`: llama.cpp, and the only `unsafe`; `gpu`: how many layers of a model go onto GPUs
//! - [`onnx`]: ONNX Runtime
//! - [`error`]: what can go wrong; `fuzzing`: doors for fuzz targets, and only for them
//!
//! Nothing here knows routing or HTTP.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod bench;
pub mod compute;
mod context;
pub mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gpu;
pub mod grammar;
mod job;
mod llama;
pub mod model;
pub mod onnx;
mod pieces;
mod scheduler;
pub mod sequence;
pub mod template;
pub mod vocabulary;
mod weights;

pub use compute::Compute;
pub use error::EngineError;
pub use grammar::{Grammar, GrammarCompiler, GrammarError};
pub use job::{Output, Scored, Scores};
pub use llama::{Device, Hardware, hardware, tune, version as llama_version};
pub use model::{Adapter, LoadOptions, Model};
pub use sequence::Sequence;
pub use vocabulary::ModelVocabulary;
