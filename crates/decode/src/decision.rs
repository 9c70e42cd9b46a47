//! Score, threshold, and the decision they make.

use std::{fmt, str::FromStr};

use serde::Serialize;
use thiserror::Error;

/// Trust in the edge's proposal, in 0..=1; low means ask.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Score(f32);

impl Score {
    /// Clamps to 0..=1. NaN becomes 0, so that a broken router asks instead of trusting everything.
    pub fn new(value: f32) -> Self {
        Self(if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) })
    }

    /// The trust as a plain number.
    pub fn value(self) -> f32 {
        self.0
    }
}

/// τ: a score below it asks the cloud. 0 never asks and 1 always asks, whatever the scores.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Threshold(f32);

/// A threshold outside 0..=1.
#[derive(Debug, Error, PartialEq)]
#[error("the threshold must be a number from 0 (never ask) to 1 (always ask), not {given}")]
pub struct ThresholdError {
    given: String,
}

/// What to do with the edge's proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Accept the proposal.
    Keep,
    /// Take the next token from the cloud instead.
    Ask,
}

impl Threshold {
    /// Keeps every proposal, even one with a score of 0.
    pub const NEVER: Self = Self(0.0);
    /// Asks at every position, even where the score is 1.
    pub const ALWAYS: Self = Self(1.0);

    /// Refuses numbers outside 0..=1, and NaN.
    pub fn new(value: f32) -> Result<Self, ThresholdError> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(ThresholdError { given: value.to_string() })
        }
    }

    /// The threshold as a plain number.
    pub fn value(self) -> f32 {
        self.0
    }

    /// Asks where the score is below the threshold. The two ends hold whatever the score.
    pub fn decide(self, score: Score) -> Decision {
        if self == Self::ALWAYS || (self != Self::NEVER && score.value() < self.0) {
            Decision::Ask
        } else {
            Decision::Keep
        }
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let value =
            text.trim().parse().map_err(|_| ThresholdError { given: format!("{text:?}") })?;
        Self::new(value)
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_from_0_to_1_are_thresholds() {
        for bad in ["-0.1", "1.01", "nan", "inf", "", "half", "7%"] {
            assert!(bad.parse::<Threshold>().is_err(), "{bad}");
        }
        for good in ["0", "1", "0.5", " 0.25 "] {
            assert!(good.parse::<Threshold>().is_ok(), "{good}");
        }
    }

    #[test]
    fn the_ends_hold_whatever_the_score() {
        for score in [0.0, 0.5, 1.0, f32::NAN] {
            assert_eq!(Threshold::NEVER.decide(Score::new(score)), Decision::Keep);
            assert_eq!(Threshold::ALWAYS.decide(Score::new(score)), Decision::Ask);
        }
    }

    #[test]
    fn a_score_below_the_threshold_asks() {
        let tau = Threshold::new(0.5).unwrap();
        assert_eq!(tau.decide(Score::new(0.49)), Decision::Ask);
        assert_eq!(tau.decide(Score::new(0.5)), Decision::Keep);
    }
}
