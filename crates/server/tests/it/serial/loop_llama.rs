//! The loop with llama.cpp on both sides.

use crate::common::edge;

#[path = "loop.rs"]
mod properties;
