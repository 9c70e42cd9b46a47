//! The probability of the proposed token.

use decode::{Router, Score, Step};

/// Trusts a token as much as the model itself does.
#[derive(Clone, Copy, Debug)]
pub struct Top1;

impl Router for Top1 {
    fn score(&self, step: &Step) -> Score {
        Score::new(step.distribution().top1)
    }
}
