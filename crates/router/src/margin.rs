//! The lead of the proposed token over the runner-up.

use decode::{Router, Score, Step};

/// Trusts a token as far as its probability is ahead of the second.
#[derive(Clone, Copy, Debug)]
pub struct Margin;

impl Router for Margin {
    fn score(&self, step: &Step) -> Score {
        let distribution = step.distribution();
        Score::new(distribution.top1 - distribution.top2)
    }
}
