//! All tests of the engines except `onnx_library.rs`, which needs a process without ONNX Runtime.
#![allow(clippy::unwrap_used, clippy::panic)]

mod child;
mod damage;
mod footprint;
mod gguf;
mod long_runs;
mod onnx;
mod plain_loop;
mod rounding;
mod serial;
