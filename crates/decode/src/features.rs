//! What trained routers read of the edge's distribution beside the hidden state.

use crate::{logits::exponential_sums, token::Token};

/// How many of the highest probabilities are kept.
pub const TOP: usize = 8;

/// The highest probabilities, the entropy and the margin.
pub const FEATURES: usize = TOP + 2;

const LANES: usize = 16;

/// A distribution as a trained router sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// The highest probabilities of the raw softmax in falling order, then the entropy in nats, then
    /// the lead of the first over the second.
    pub features: [f32; FEATURES],
    /// The most likely token and the one behind it; of equals the first. `None` where none can come.
    pub best: [Option<Token>; 2],
}

impl Seen {
    /// A logit of −∞ is a token that cannot come. With no logits, only such tokens, +∞ or a logit
    /// that is not a number there is no distribution: all features are 0, and no token is the best.
    pub fn of(logits: &[f32]) -> Self {
        let mut features = [0.0; FEATURES];
        let Some(top) = highest(logits) else { return Self::default() };
        let max = top[0].logit;
        if !max.is_finite() {
            return Self::default();
        }
        let (z, weighted) = exponential_sums(logits, max);
        for (feature, Candidate { logit, .. }) in features.iter_mut().zip(top) {
            *feature = (logit - max).exp() / z;
        }
        // With d = logit − max: the entropy is ln Σ e^d − Σ d·e^d / Σ e^d.
        features[TOP] = (z.ln() - weighted / z).max(0.0);
        features[TOP + 1] = features[0] - features[1];
        Self { features, best: [top[0].token(), top[1].token()] }
    }
}

/// The features alone.
pub fn features(logits: &[f32]) -> [f32; FEATURES] {
    Seen::of(logits).features
}

#[derive(Clone, Copy)]
struct Candidate {
    logit: f32,
    place: usize,
}

impl Candidate {
    const NONE: Self = Self { logit: f32::NEG_INFINITY, place: 0 };

    fn token(self) -> Option<Token> {
        let possible = self.logit > f32::NEG_INFINITY;
        u32::try_from(self.place).ok().filter(|_| possible).map(Token)
    }
}

/// The highest logits in falling order; `None` when one is not a number.
fn highest(logits: &[f32]) -> Option<[Candidate; TOP]> {
    let mut top = [Candidate::NONE; TOP];
    let insert = |top: &mut [Candidate; TOP], logit: f32, place: usize| {
        if logit > top[TOP - 1].logit {
            let rank = top.iter().take_while(|higher| higher.logit >= logit).count();
            top.copy_within(rank..TOP - 1, rank + 1);
            top[rank] = Candidate { logit, place };
        }
    };
    let (chunks, rest) = logits.as_chunks::<LANES>();
    for (i, chunk) in chunks.iter().enumerate() {
        // After the first few chunks almost none holds a candidate; NaN must not pass unseen.
        let bound = top[TOP - 1].logit;
        let ordinary = chunk.iter().fold(true, |all, &logit| all & (logit <= bound));
        if !ordinary {
            if chunk.iter().any(|logit| logit.is_nan()) {
                return None;
            }
            for (lane, &logit) in chunk.iter().enumerate() {
                insert(&mut top, logit, i * LANES + lane);
            }
        }
    }
    if rest.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    for (i, &logit) in rest.iter().enumerate() {
        insert(&mut top, logit, chunks.len() * LANES + i);
    }
    Some(top)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn slow(logits: &[f32]) -> [f32; FEATURES] {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let z: f64 = logits.iter().map(|l| f64::from(l - max).exp()).sum();
        let mut p: Vec<f64> = logits.iter().map(|l| f64::from(l - max).exp() / z).collect();
        p.sort_by(|a, b| b.total_cmp(a));
        let mut out = [0.0; FEATURES];
        out.iter_mut().zip(&p).take(TOP).for_each(|(out, &p)| *out = p as f32);
        let entropy: f64 = p.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
        out[TOP] = entropy as f32;
        out[TOP + 1] = out[0] - out[1];
        out
    }

    #[test]
    fn equals_the_sorted_softmax_whatever_the_length() {
        for length in (1..60).chain([1000, 49_152]) {
            let logits: Vec<f32> =
                (0..length).map(|i| ((i * 37) as f32 * 0.7).sin() * 9.0).collect();
            for (fast, slow) in features(&logits).iter().zip(slow(&logits)) {
                assert!((fast - slow).abs() < 1e-4, "{length}: {fast} {slow}");
            }
        }
    }

    #[test]
    fn the_best_tokens_are_those_of_the_highest_logits() {
        for length in (1..60).chain([1000, 49_152]) {
            let logits: Vec<f32> =
                (0..length).map(|i| ((i * 37) as f32 * 0.7).sin() * 9.0).collect();
            let mut order: Vec<usize> = (0..length).collect();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
            let expected = [0, 1].map(|rank| order.get(rank).map(|&place| Token(place as u32)));
            assert_eq!(Seen::of(&logits).best, expected, "{length}");
        }
        // Of equals the first, and never one that cannot come.
        let none = f32::NEG_INFINITY;
        assert_eq!(Seen::of(&[1.0, 2.0, 2.0, 2.0]).best, [Some(Token(1)), Some(Token(2))]);
        assert_eq!(Seen::of(&[none, 1.0, none]).best, [Some(Token(1)), None]);
        for nothing in [vec![], vec![none; 20], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0]] {
            assert_eq!(Seen::of(&nothing), Seen::default());
        }
    }

    #[test]
    fn equal_logits_share_and_impossible_tokens_count_for_nothing() {
        let f = features(&[2.0, 2.0, f32::NEG_INFINITY, 2.0, 2.0]);
        assert!(f[..4].iter().all(|p| (p - 0.25).abs() < 1e-5), "{f:?}");
        assert_eq!(f[4..TOP], [0.0; 4]);
        assert!((f[TOP] - 4f32.ln()).abs() < 1e-4);
        assert_eq!(f[TOP + 1], 0.0);
    }

    #[test]
    fn what_is_no_distribution_is_all_zeros() {
        let zeros = [0.0; FEATURES];
        assert_eq!(features(&[]), zeros);
        assert_eq!(features(&[f32::NEG_INFINITY; 40]), zeros);
        for bad in [f32::NAN, f32::INFINITY] {
            for (length, place) in [(1, 0), (40, 3), (40, 39), (400, 399), (64, 63)] {
                let mut logits: Vec<f32> = (0..length).map(|i| -(i as f32)).collect();
                logits[place] = bad;
                assert_eq!(features(&logits), zeros, "{bad} at {place} of {length}");
            }
        }
        let wide = features(&[f32::MAX, f32::MIN, 0.0]);
        assert!(wide.iter().all(|f| f.is_finite()), "{wide:?}");
    }

    #[test]
    fn a_whole_vocabulary_takes_little_time() {
        let logits: Vec<f32> = (0..49_152).map(|i| ((i * 37) as f32 * 0.7).sin() * 9.0).collect();
        let started = Instant::now();
        for _ in 0..20 {
            std::hint::black_box(features(std::hint::black_box(&logits)));
        }
        let each = started.elapsed() / 20;
        println!("features of 49 152 logits: {each:?}");
        assert!(each.as_millis() < 5, "{each:?}");
    }
}
