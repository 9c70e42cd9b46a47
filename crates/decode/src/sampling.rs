//! Choosing a token from logits.
//!
//! Every draw is seeded by the sampling seed and the position it is made for, not by the draws
//! before it: the same seed gives the same text wherever the tokens between came from.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Token, logits};

/// How many of the latest tokens the repetition penalty looks at.
const PENALTY_WINDOW: usize = 64;

/// The most of the most likely tokens that a draw may be limited to: more than any vocabulary has.
pub const MOST_TOP_K: usize = 1_000_000;

/// A nucleus is nearly always inside this many tokens, so the rest is sorted only when it is not.
const NUCLEUS_SORTED: usize = 1024;

/// How a token is chosen. Temperature comes first, then `top_k`, `min_p`, `top_p`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Divides the logits; 0 always takes the most likely token.
    pub temperature: f32,
    /// Draws from the most likely tokens that together reach this probability; 1 is off.
    pub top_p: f32,
    /// Draws from this many of the most likely tokens; 0 is off.
    pub top_k: usize,
    /// Draws from tokens at least this likely relative to the most likely one; 0 is off.
    pub min_p: f32,
    /// Makes the latest tokens less likely, by dividing their positive logits; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted once from the logit of every token already written; 0 is off.
    #[serde(skip_serializing_if = "is_zero")]
    pub presence_penalty: f32,
    /// Subtracted from a token's logit once for every time it was written; 0 is off.
    #[serde(skip_serializing_if = "is_zero")]
    pub frequency_penalty: f32,
    /// The same seed gives the same text.
    pub seed: u64,
}

/// Penalties that are off are not sent, because some clouds refuse fields they do not know.
fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
        }
    }
}

/// Why no token can be chosen.
#[derive(Debug, Error, PartialEq)]
#[expect(missing_docs, reason = "the messages say what each error and its fields are")]
pub enum SamplingError {
    #[error("{name} must be {range}, not {given}")]
    OutOfRange { name: &'static str, range: &'static str, given: f32 },
    #[error("the model's logits are not numbers: its file or its adapter is damaged")]
    NotANumber,
}

impl Sampling {
    /// Whether the token with the highest raw logit is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.has_penalties()
    }

    fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.presence_penalty != 0.0
            || self.frequency_penalty != 0.0
    }

    /// Refuses parameters outside their range.
    pub fn validate(self) -> Result<Self, SamplingError> {
        let check = |ok: bool, name, range, given| {
            if ok { Ok(()) } else { Err(SamplingError::OutOfRange { name, range, given }) }
        };
        let t = self.temperature;
        check(t.is_finite() && t >= 0.0, "temperature", "0 or more", t)?;
        let p = self.top_p;
        check(p > 0.0 && p <= 1.0, "top-p", "above 0 and at most 1", p)?;
        let k = self.top_k;
        check(k <= MOST_TOP_K, "top-k", "from 0 to 1000000", k as f32)?;
        check((0.0..=1.0).contains(&self.min_p), "min-p", "from 0 to 1", self.min_p)?;
        let r = self.repetition_penalty;
        check(r.is_finite() && r > 0.0, "repetition-penalty", "above 0", r)?;
        for (penalty, name) in [
            (self.presence_penalty, "presence-penalty"),
            (self.frequency_penalty, "frequency-penalty"),
        ] {
            check((-2.0..=2.0).contains(&penalty), name, "from -2 to 2", penalty)?;
        }
        Ok(self)
    }

    /// Chooses the token for `position`, after `history`.
    pub fn choose(
        &self,
        logits: &[f32],
        history: &[Token],
        position: usize,
    ) -> Result<Token, SamplingError> {
        if !self.has_penalties() {
            return self.choose_from(logits, position);
        }
        let mut penalised = logits.to_vec();
        let mut present = HashMap::new();
        history.iter().for_each(|t| *present.entry(t.index()).or_insert(0.0) += 1.0);
        for (index, count) in present {
            if let Some(logit) = penalised.get_mut(index) {
                *logit -= self.presence_penalty + self.frequency_penalty * count;
            }
        }
        let recent = &history[history.len().saturating_sub(PENALTY_WINDOW)..];
        let mut seen = recent.to_vec();
        seen.sort_unstable();
        seen.dedup();
        for token in seen {
            if let Some(logit) = penalised.get_mut(token.index()) {
                if *logit > 0.0 {
                    *logit /= self.repetition_penalty;
                } else {
                    *logit *= self.repetition_penalty;
                }
            }
        }
        self.choose_from(&penalised, position)
    }

    fn choose_from(&self, logits: &[f32], position: usize) -> Result<Token, SamplingError> {
        let best = argmax(logits).ok_or(SamplingError::NotANumber)?;
        if self.temperature == 0.0 {
            return Ok(best);
        }
        let max = logits[best.index()];
        let mut candidates: Vec<(Token, f32)> = (0u32..)
            .map(Token)
            .zip(logits)
            .filter(|(_, logit)| !logit.is_nan())
            .map(|(token, logit)| (token, ((logit - max) / self.temperature).exp()))
            .filter(|&(_, weight)| weight > 0.0 && weight >= self.min_p)
            .collect();
        if self.top_k > 0 {
            keep_likeliest(&mut candidates, self.top_k);
        }
        if self.top_p < 1.0 {
            let total: f32 = candidates.iter().map(|c| c.1).sum();
            keep_nucleus(&mut candidates, self.top_p * total);
        }
        // Drawn in order of id, so that the draw does not depend on how the candidates were sorted.
        candidates.sort_unstable_by_key(|c| c.0);
        let total: f32 = candidates.iter().map(|c| c.1).sum();
        let mut left = uniform(self.seed, position) as f32 * total;
        for &(token, weight) in &candidates {
            left -= weight;
            if left < 0.0 {
                return Ok(token);
            }
        }
        Ok(candidates.last().map_or(best, |c| c.0))
    }
}

fn by_weight(a: &(Token, f32), b: &(Token, f32)) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

fn keep_likeliest(candidates: &mut Vec<(Token, f32)>, k: usize) {
    if k < candidates.len() {
        candidates.select_nth_unstable_by(k, by_weight);
        candidates.truncate(k);
    }
}

fn keep_nucleus(candidates: &mut Vec<(Token, f32)>, mass: f32) {
    if candidates.len() > NUCLEUS_SORTED {
        candidates.select_nth_unstable_by(NUCLEUS_SORTED, by_weight);
        if candidates[..NUCLEUS_SORTED].iter().map(|c| c.1).sum::<f32>() >= mass {
            candidates.truncate(NUCLEUS_SORTED);
        }
    }
    candidates.sort_unstable_by(by_weight);
    let mut reached = 0.0;
    let inside = candidates.iter().take_while(|c| {
        let wanted = reached < mass;
        reached += c.1;
        wanted
    });
    let keep = inside.count().max(1);
    candidates.truncate(keep);
}

/// The token with the highest logit, the lowest id among equals; `None` when none is a number.
pub fn argmax(logits: &[f32]) -> Option<Token> {
    let highest = logits::highest(logits);
    if highest == f32::NEG_INFINITY {
        return None;
    }
    let first = logits.iter().position(|&logit| logit == highest)?;
    u32::try_from(first).ok().map(Token)
}

/// A token's log-probability under raw logits.
pub fn logprob(logits: &[f32], token: Token) -> f32 {
    let Some(&logit) = logits.get(token.index()) else { return -1e9 };
    let max = logits::highest(logits);
    // An impossible token is merely very unlikely: JSON has no infinity.
    (logit - max - logits::exponential_sums(logits, max).0.ln()).max(-1e9)
}

/// The likeliest tokens under raw logits with their log-probabilities, most likely first.
pub fn likeliest(logits: &[f32], count: usize) -> Vec<(Token, f32)> {
    let mut best: Vec<(Token, f32)> = Vec::with_capacity(count + 1);
    for (token, &logit) in (0u32..).map(Token).zip(logits) {
        let full = best.len() == count;
        let worst = best.last().map_or(f32::NEG_INFINITY, |b| b.1);
        if logit.is_nan() || count == 0 || (full && logit <= worst) {
            continue;
        }
        let at = best.partition_point(|b| b.1 >= logit);
        best.insert(at, (token, logit));
        best.truncate(count);
    }
    let max = logits::highest(logits);
    let sum = logits::exponential_sums(logits, max).0.ln();
    best.into_iter().map(|(token, logit)| (token, (logit - max - sum).max(-1e9))).collect()
}

/// A uniform random number in 0..1 that depends on the seed and the position alone.
pub fn uniform(seed: u64, position: usize) -> f64 {
    (hash(seed, position) >> 11) as f64 / (1u64 << 53) as f64
}

/// The seed for one position, for a cloud that draws there with a generator of its own.
pub fn hash(seed: u64, position: usize) -> u64 {
    // SplitMix64 over both, mixed twice so that neighbouring seeds and positions do not line up.
    split_mix(split_mix(seed) ^ position as u64)
}

/// What the state of SplitMix64 grows by with every number.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The next number of the generator SplitMix64, whose state is this.
pub fn split_mix_next(state: &mut u64) -> u64 {
    let drawn = split_mix(*state);
    *state = state.wrapping_add(GOLDEN);
    drawn
}

fn split_mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.0, 3.0, 1.0, 2.0, -4.0];

    fn drawn(sampling: Sampling) -> Vec<usize> {
        let mut counts = vec![0; LOGITS.len()];
        for position in 0..4000 {
            counts[sampling.choose(&LOGITS, &[], position).unwrap().index()] += 1;
        }
        counts
    }

    #[test]
    fn the_generator_draws_the_published_numbers() {
        let mut state = 1_234_567;
        let drawn: Vec<_> = (0..3).map(|_| split_mix_next(&mut state)).collect();
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, published);
    }

    #[test]
    fn greedy_takes_the_first_of_the_highest() {
        let greedy = Sampling::default();
        assert_eq!(greedy.choose(&LOGITS, &[], 0), Ok(Token(1)));
        assert_eq!(greedy.choose(&[2.0, 2.0], &[], 0), Ok(Token(0)));
        assert_eq!(greedy.choose(&[f32::NAN, 1.0], &[], 0), Ok(Token(1)));
        assert_eq!(greedy.choose(&[f32::NAN; 3], &[], 0), Err(SamplingError::NotANumber));
        assert_eq!(greedy.choose(&[], &[], 0), Err(SamplingError::NotANumber));
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let counts = drawn(Sampling { temperature: 1.0, ..Default::default() });
        let total: f32 = LOGITS.iter().map(|l| l.exp()).sum();
        for (logit, count) in LOGITS.iter().zip(counts) {
            let expected = logit.exp() / total * 4000.0;
            assert!((count as f32 - expected).abs() < 0.2 * expected + 12.0, "{expected} {count}");
        }
    }

    #[test]
    fn filters_cut_the_tail() {
        let warm = Sampling { temperature: 1.0, ..Default::default() };
        let alive = |s| drawn(s).iter().map(|&c| usize::from(c > 0)).collect::<Vec<_>>();
        assert_eq!(alive(Sampling { top_k: 2, ..warm }), [0, 1, 0, 1, 0]);
        // e^-1 = 0.37 of the first stays, e^-2 = 0.14 goes.
        assert_eq!(alive(Sampling { min_p: 0.3, ..warm }), [0, 1, 0, 1, 0]);
        // The first alone has probability 0.64.
        assert_eq!(alive(Sampling { top_p: 0.6, ..warm }), [0, 1, 0, 0, 0]);
        assert_eq!(alive(Sampling { top_p: 0.7, ..warm }), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_wide_nucleus_is_still_exact() {
        let flat = vec![0.0; 5000];
        let sampling = Sampling { temperature: 1.0, top_p: 0.5, ..Default::default() };
        let highest = (0..2000).map(|p| sampling.choose(&flat, &[], p).unwrap()).max();
        assert!(highest.unwrap() < Token(2501), "{highest:?}");
        assert!(highest.unwrap() > Token(2400), "{highest:?}");
    }

    #[test]
    fn the_penalty_looks_back() {
        let sampling = Sampling { repetition_penalty: 2.0, ..Default::default() };
        assert_eq!(sampling.choose(&LOGITS, &[Token(1)], 0), Ok(Token(3)));
        assert_eq!(sampling.choose(&LOGITS, &[Token(1), Token(3)], 0), Ok(Token(1)));
        // Out of the window, and ids outside the vocabulary, change nothing.
        let mut long = vec![Token(1)];
        long.extend([Token(900); PENALTY_WINDOW]);
        assert_eq!(sampling.choose(&LOGITS, &long, 0), Ok(Token(1)));
    }

    #[test]
    fn same_seed_same_draw() {
        let sampling = Sampling { temperature: 1.5, seed: 7, ..Default::default() };
        let other = Sampling { seed: 8, ..sampling };
        let draws =
            |s: Sampling| (0..50).map(|p| s.choose(&LOGITS, &[], p).unwrap()).collect::<Vec<_>>();
        assert_eq!(draws(sampling), draws(sampling));
        assert_ne!(draws(sampling), draws(other));
    }

    #[test]
    fn what_was_written_becomes_less_likely() {
        let default = Sampling::default();
        let present = Sampling { presence_penalty: 1.5, ..default };
        assert_eq!(present.choose(&LOGITS, &[Token(1)], 1), Ok(Token(3)));
        assert_eq!(present.choose(&LOGITS, &[Token(1), Token(1), Token(3)], 3), Ok(Token(1)));
        let frequent = Sampling { frequency_penalty: 0.6, ..default };
        assert_eq!(frequent.choose(&LOGITS, &[Token(1)], 1), Ok(Token(1)));
        assert_eq!(frequent.choose(&LOGITS, &[Token(1), Token(1)], 2), Ok(Token(3)));
        assert!(!present.is_greedy() && !frequent.is_greedy());
    }

    #[test]
    fn the_likeliest_come_first() {
        let likeliest = likeliest(&LOGITS, 3);
        let ids: Vec<_> = likeliest.iter().map(|l| l.0.0).collect();
        assert_eq!(ids, [1, 3, 2]);
        for (token, found) in likeliest {
            assert!((found - logprob(&LOGITS, token)).abs() < 1e-6);
        }
        assert!(super::likeliest(&[f32::NAN, 1.0], 5).len() == 1);
    }

    #[test]
    fn parameters_outside_their_range_are_named() {
        let default = Sampling::default();
        for (bad, name) in [
            (Sampling { temperature: -1.0, ..default }, "temperature"),
            (Sampling { temperature: f32::NAN, ..default }, "temperature"),
            (Sampling { top_p: 0.0, ..default }, "top-p"),
            (Sampling { top_k: usize::MAX, ..default }, "top-k"),
            (Sampling { min_p: 1.5, ..default }, "min-p"),
            (Sampling { repetition_penalty: 0.0, ..default }, "repetition-penalty"),
            (Sampling { presence_penalty: 2.5, ..default }, "presence-penalty"),
            (Sampling { frequency_penalty: f32::NAN, ..default }, "frequency-penalty"),
        ] {
            assert!(bad.validate().unwrap_err().to_string().contains(name));
        }
        assert!(default.validate().is_ok());
    }
}
