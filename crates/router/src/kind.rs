//! Routers by name.

use std::{fmt, str::FromStr};

use decode::Router;
use thiserror::Error;

use crate::{Constant, Entropy, Margin, Random, Top1};

/// Which router, as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RouterKind {
    /// The proposed token's probability.
    Top1,
    /// Its lead over the second.
    Margin,
    /// How concentrated the distribution is.
    Entropy,
    /// At random; with a share, at that share of positions.
    Random(Option<f32>),
    Never,
    Always,
}

/// No router has this name.
#[derive(Debug, Error)]
#[error(
    "no router is called {given:?}: there are top1, margin, entropy, random, random:SHARE \
     (0..1, as in random:0.1), never and always"
)]
pub struct UnknownRouter {
    given: String,
}

impl RouterKind {
    /// Makes it; the seed matters to `random` only.
    pub fn build(self, seed: u64) -> Box<dyn Router> {
        match self {
            Self::Top1 => Box::new(Top1),
            Self::Margin => Box::new(Margin),
            Self::Entropy => Box::new(Entropy),
            Self::Random(share) => Box::new(Random { seed, share }),
            Self::Never => Box::new(Constant::Never),
            Self::Always => Box::new(Constant::Always),
        }
    }
}

impl FromStr for RouterKind {
    type Err = UnknownRouter;

    fn from_str(text: &str) -> Result<Self, UnknownRouter> {
        let unknown = || UnknownRouter { given: text.into() };
        Ok(match text {
            "top1" => Self::Top1,
            "margin" => Self::Margin,
            "entropy" => Self::Entropy,
            "random" => Self::Random(None),
            "never" => Self::Never,
            "always" => Self::Always,
            _ => {
                let share = text.strip_prefix("random:").ok_or_else(unknown)?;
                let share: f32 = share.parse().map_err(|_| unknown())?;
                let valid = (0.0..=1.0).contains(&share);
                Self::Random(Some(valid.then_some(share).ok_or_else(unknown)?))
            }
        })
    }
}

impl fmt::Display for RouterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top1 => f.write_str("top1"),
            Self::Margin => f.write_str("margin"),
            Self::Entropy => f.write_str("entropy"),
            Self::Random(None) => f.write_str("random"),
            Self::Random(Some(share)) => write!(f, "random:{share}"),
            Self::Never => f.write_str("never"),
            Self::Always => f.write_str("always"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for name in ["top1", "margin", "entropy", "random", "random:0.1", "never", "always"] {
            assert_eq!(name.parse::<RouterKind>().unwrap().to_string(), name);
        }
        for bad in ["", "Top1", "random:", "random:2", "random:nan", "mlp"] {
            let error = bad.parse::<RouterKind>().unwrap_err().to_string();
            assert!(error.contains("top1"), "{error}");
        }
    }
}
