//! ONNX files: finding a model's hidden state and making it an output.
//!
//! - [`wire`]: protocol-buffer messages as bytes, so that unchanged parts stay as they are
//! - [`graph`]: a file's nodes, tensors, inputs and outputs, borrowed from its bytes
//! - [`hidden`]: finds the tensor that is the hidden state; [`mod@expose`]: makes it an output
//! - [`external`]: the separate files that hold a model's weights
//! - [`layout`]: the usual names of a model's files
//! - [`precision`]: the number format of a model's weights
//!
//! Nothing here runs a model.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod error;
pub mod expose;
pub mod external;
pub mod graph;
pub mod hidden;
pub mod layout;
pub mod precision;
pub mod wire;

pub use error::{OnnxError, WireError};
pub use expose::{Exposure, expose};
pub use graph::{ElementType, File, Graph};
pub use hidden::{Candidate, Hidden};
