//! Every property of the loop again, with the same small model in ONNX Runtime as the edge and
//! llama.cpp as the cloud.

use crate::common::onnx_edge as edge;

#[path = "loop.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests, with another edge")]
mod properties;
