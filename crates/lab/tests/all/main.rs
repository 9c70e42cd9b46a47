//! What is read out of answers, and models that were exported.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod alone;
mod answers;
mod any_text;
// The tests of the engine write the same small files.
#[path = "../../../engine/tests/all/gguf/mod.rs"]
mod gguf;
