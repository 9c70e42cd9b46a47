//! One text of the real models, in any mode.

use cloud::Remote;
use decode::Router;
use engine::Sequence;

/// A text that is being made.
pub type Generation<'a> = decode::Generation<&'a mut Sequence, Box<dyn Router>, &'a mut Remote>;
