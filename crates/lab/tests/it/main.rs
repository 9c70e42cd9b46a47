//! What is read out of answers, and models that were exported.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod any_text;
mod damaged_models;
mod serial;
// The tests of the engine write the same small files.
#[path = "../../../engine/tests/it/gguf/mod.rs"]
mod gguf;
