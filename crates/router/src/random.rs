//! The baseline every router has to beat.

use decode::{Router, Score, Step, sampling};

/// Scores by a hash of seed and position alone: the same seed asks at the same positions.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    pub seed: u64,
    /// The share of positions to ask at, whatever the threshold between 0 and 1; without it the
    /// threshold itself is the share.
    pub share: Option<f32>,
}

impl Router for Random {
    fn score(&self, step: &Step) -> Score {
        let drawn = sampling::uniform(!self.seed, step.position) as f32;
        Score::new(match self.share {
            Some(share) => f32::from(drawn >= share),
            None => drawn,
        })
    }
}

#[cfg(test)]
mod tests {
    use decode::{Decision, Threshold};

    use super::*;
    use crate::tests::step;

    fn asked(router: Random, tau: f32) -> Vec<usize> {
        let tau = Threshold::new(tau).unwrap();
        let asks = |&p: &usize| tau.decide(router.score(&step(&[0.0], p))) == Decision::Ask;
        (0..10_000).filter(asks).collect()
    }

    #[test]
    fn the_share_is_met_and_the_seed_decides_where() {
        let router = Random { seed: 1, share: Some(0.1) };
        let asks = asked(router, 0.5);
        assert!((900..1100).contains(&asks.len()), "{}", asks.len());
        assert_eq!(asks, asked(router, 0.9));
        assert_eq!(asks, asked(router, 0.5));
        assert_ne!(asks, asked(Random { seed: 2, ..router }, 0.5));
    }

    #[test]
    fn without_a_share_the_threshold_is_the_share() {
        let router = Random { seed: 1, share: None };
        for tau in [0.05f32, 0.3, 0.8] {
            let share = asked(router, tau).len() as f32 / 10_000.0;
            assert!((share - tau).abs() < 0.02, "{tau} {share}");
        }
    }
}
