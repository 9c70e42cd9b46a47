//! What the edge returns for one position: logits, hidden state and its proposed token.

use std::time::Duration;

use crate::{Token, logits};

/// The edge's view of the next position, after it has read every accepted token.
#[derive(Clone, Debug)]
pub struct Step {
    /// How many tokens of context the edge had read.
    pub position: usize,
    /// One raw logit for each token of the vocabulary.
    pub logits: Vec<f32>,
    /// The last hidden state, after the final norm.
    pub hidden: Vec<f32>,
    /// The model's first choice: the token with the highest raw logit.
    pub proposed: Token,
    /// Tokens that were read for this step, and the time they took.
    pub reading: Reading,
}

/// Tokens passed to a model, and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Tokens really passed to the model.
    pub tokens: usize,
    /// Time for all of them but the last.
    pub prefill: Duration,
    /// Time for the last one, which gives the logits.
    pub decode: Duration,
}

/// The figures of a step's distribution that routers without training look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// Probability of the most likely token.
    pub top1: f32,
    /// Probability of the second most likely token.
    pub top2: f32,
    /// Entropy in nats: 0 where the model is certain.
    pub entropy: f32,
}

impl Step {
    /// Summarises the softmax of the raw logits, before temperature and penalties.
    pub fn distribution(&self) -> Distribution {
        let first = logits::highest(&self.logits);
        let shared = self.logits.iter().filter(|&&logit| logit == first).count() > 1;
        let second = if shared { first } else { logits::highest_below(&self.logits, first) };
        let (z, weighted) = logits::exponential_sums(&self.logits, first);
        // With d = logit − max: the entropy is ln Σ e^d − Σ d·e^d / Σ e^d.
        Distribution {
            top1: 1.0 / z,
            top2: (second - first).exp() / z,
            entropy: (z.ln() - weighted / z).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_and_entropy_of_known_distributions() {
        for (logits, top1, top2, entropy) in [
            (&[1.0; 8][..], 0.125, 0.125, 8f32.ln()),
            (&[60.0, 0.0, -5.0], 1.0, 0.0, 0.0),
            // p = 0.75, 0.25.
            (&[3f32.ln(), 0.0], 0.75, 0.25, 0.562_335),
        ] {
            let (logits, hidden, reading) = (logits.to_vec(), vec![], Reading::default());
            let step = Step { position: 1, logits, hidden, proposed: Token(0), reading };
            let found = step.distribution();
            assert!((found.top1 - top1).abs() < 1e-6, "{found:?}");
            assert!((found.top2 - top2).abs() < 1e-6, "{found:?}");
            assert!((found.entropy - entropy).abs() < 1e-5, "{found:?}");
        }
    }
}
