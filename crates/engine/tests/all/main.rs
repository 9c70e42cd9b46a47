//! Every test of the engines but that of libraries which cannot be used: a process has one library.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod alone;
mod bare;
mod gguf;
mod onnx;
mod sure;
