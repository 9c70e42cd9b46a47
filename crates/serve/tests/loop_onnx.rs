//! Every property of the loop again, with the same small model in ONNX Runtime as the edge and
//! llama.cpp as the cloud: `common::edge` looks at this file's name.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

#[path = "loop.rs"]
mod properties;
