//! ONNX files: finding a model's hidden state and making it an output.
//!
//! - [`wire`]: protocol-buffer messages as bytes, so that what is not changed stays as it is
//! - [`graph`]: a file's nodes, tensors, inputs and outputs, borrowed from it
//! - [`hidden`]: which tensor is the hidden state; [`mod@expose`]: making it an output
//! - [`external`]: the files a model keeps its weights in
//! - [`layout`]: how a model's files are called
//! - [`precision`]: how a model's weights are stored
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
