//! A share of tokens, and how users write it.

use std::{fmt, str::FromStr};

use crate::Error;

/// A share of tokens from 0 to 1: what `--budget` takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f32);

impl Share {
    /// Returns `None` for numbers outside 0..=1.
    pub fn new(share: f32) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The share as a number from 0 to 1.
    pub fn value(self) -> f32 {
        self.0
    }
}

impl TryFrom<f32> for Share {
    type Error = Error;

    fn try_from(share: f32) -> Result<Self, Error> {
        let wrong = || format!("a budget is a share of tokens from 0 to 1, not {share}");
        Self::new(share).ok_or_else(|| Error::Usage(wrong()))
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a share of tokens from 0% to 100%, as in 7% or 0.07".to_owned();
        let text = text.trim();
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim_end().parse::<f32>().map(|p| p / 100.0),
            None => text.parse(),
        };
        share.ok().and_then(Self::new).ok_or_else(wrong)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // f32 noise is not for people: 0.07 * 100 is 7.0000005.
        let text = format!("{}%", (f64::from(self.0) * 1e7).round() / 1e5);
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_with_and_without_a_sign() {
        for (text, share) in [("7%", 0.07), ("0.07", 0.07), (" 12.5 % ", 0.125), ("0", 0.0)] {
            assert!((text.parse::<Share>().unwrap().0 - share).abs() < 1e-6, "{text}");
        }
        for bad in ["", "%", "7", "-1%", "101%", "nan", "much"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
        assert_eq!(Share(0.07).to_string(), "7%");
    }
}
