//! Models on this machine: GGUF files through llama.cpp, ONNX files through ONNX Runtime.
//!
//! - [`compute`]: one thread that owns every model and batches their sequences, in rounds
//!   (`scheduler`) of jobs (`job`)
//! - [`model`]: what to load, and a loaded model; [`vocabulary`] and [`template`]: its tokenizer
//!   and its way to write a conversation
//! - [`sequence`]: one context: read, score, truncate; it is the loop's edge
//! - [`mod@bench`]: the engine as bare as it gets, to measure the rest against
//! - `context`: the seam between them and what computes; `llama`: llama.cpp, and the only `unsafe`;
//!   `gpu`: how much of a model goes onto GPUs
//! - [`onnx`]: ONNX Runtime
//!
//! Nothing here knows routing or HTTP.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod bench;
pub mod compute;
mod context;
pub mod error;
mod gpu;
mod job;
mod llama;
pub mod model;
pub mod onnx;
mod scheduler;
pub mod sequence;
pub mod template;
pub mod vocabulary;

pub use compute::Compute;
pub use error::EngineError;
pub use job::{Output, Scored, Scores};
pub use llama::{Device, Hardware, hardware, tune, version as llama_version};
pub use model::{Adapter, LoadOptions, Model};
pub use sequence::Sequence;
pub use vocabulary::ModelVocabulary;
