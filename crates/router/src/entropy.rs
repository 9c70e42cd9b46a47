//! How concentrated the whole distribution is.

use decode::{Router, Score, Step};

/// The inverse of the perplexity, e^−H: 1 when only one token is possible, 1/n when n are equally
/// likely.
#[derive(Clone, Copy, Debug)]
pub struct Entropy;

impl Router for Entropy {
    fn score(&self, step: &Step) -> Score {
        Score::new((-step.distribution().entropy).exp())
    }
}
