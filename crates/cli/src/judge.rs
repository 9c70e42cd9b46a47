//! Who judges the edge, and how strictly.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use anyhow::Context;
use decode::{Budget, Router, Threshold, ThresholdPolicy};
use engine::LoadOptions;
use models::Preset;
use router::{Calibration, Mlp, RouterFile, RouterKind, UnknownRouter};
use sha2::{Digest, Sha256};

use crate::{preset, show::say};

/// The preset whose router judges where nothing else is said.
const GENERAL: &str = "general";

/// The budget where nothing else is said and the router can keep to one.
const DEFAULT_BUDGET: Share = Share(0.07);

/// The threshold where it cannot: with the default pair and `top1`, near one token in ten comes from
/// the cloud.
pub fn default_threshold() -> Threshold {
    Threshold::new(0.2).unwrap_or(Threshold::NEVER)
}

/// `--router`: a name, or a file.
#[derive(Clone, Debug)]
pub enum RouterArg {
    Kind(RouterKind),
    File(PathBuf),
}

impl FromStr for RouterArg {
    type Err = UnknownRouter;

    fn from_str(text: &str) -> Result<Self, UnknownRouter> {
        match text.parse() {
            Ok(kind) => Ok(Self::Kind(kind)),
            Err(_) if text.contains(['/', '.']) && !text.starts_with("random:") => {
                Ok(Self::File(text.into()))
            }
            Err(error) => Err(error),
        }
    }
}

/// `--budget`: a share of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f32);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a share of tokens from 0% to 100%, as in 7% or 0.07".to_owned();
        let text = text.trim();
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim_end().parse::<f32>().map(|p| p / 100.0),
            None => text.parse(),
        };
        let share = share.map_err(|_| wrong())?;
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // f32 noise is not for people: 0.07 * 100 is 7.0000005.
        write!(f, "{}%", (f64::from(self.0) * 1e7).round() / 1e5)
    }
}

/// A router that is ready to judge.
#[derive(Clone, Debug)]
pub enum Judge {
    /// One that needs no training.
    Untrained(RouterKind),
    /// One that was trained for this edge.
    Trained { name: String, file: Arc<RouterFile>, digest: String },
    /// `top1`, because nobody chose and no general router is for this edge.
    Fallback { reason: String },
}

impl Judge {
    /// As named; otherwise the general router where it was made for this edge, else `top1`.
    pub fn choose(given: Option<&RouterArg>, edge: &LoadOptions) -> anyhow::Result<Self> {
        match given {
            Some(RouterArg::Kind(kind)) => Ok(Self::Untrained(*kind)),
            Some(RouterArg::File(path)) => Self::read(path, edge),
            None => {
                let judge = Self::general(edge)?;
                if let Self::Fallback { reason } = &judge {
                    say(&format!(
                        "note: {reason}: top1 judges; docs/routers.md says how to train one"
                    ));
                }
                Ok(judge)
            }
        }
    }

    /// The preset `general`, if it is here and was made for this edge.
    fn general(edge: &LoadOptions) -> anyhow::Result<Self> {
        edge.check()?;
        let places = preset::search_path()?;
        let Some(folder) = places.named(GENERAL) else {
            let reason =
                format!("there is no preset {GENERAL:?} with a router (looked in {places})");
            return Ok(Self::Fallback { reason });
        };
        // One that is here and damaged is refused: nobody would notice that another judges.
        let preset = Preset::load(&folder)?;
        let kind = preset::edge_kind(&edge.path)?;
        let Some(part) = preset.manifest().router(kind) else {
            let reason = format!("the preset {GENERAL:?} has no router for an edge of kind {kind}");
            return Ok(Self::Fallback { reason });
        };
        let file = RouterFile::read(&preset.path(&part.file))?;
        let metadata = file.metadata();
        if metadata.model == edge.fingerprint()? {
            return Self::trained(GENERAL.into(), file);
        }
        let (trained, here) = (&metadata.model_name, edge.name());
        let reason = format!("the general router was trained for {trained}, not for {here}");
        Ok(Self::Fallback { reason })
    }

    /// A trained router, if it fits.
    pub fn read(path: &Path, edge: &LoadOptions) -> anyhow::Result<Self> {
        let file = RouterFile::read(path)?;
        edge.check()?;
        let hidden = file.metadata().hidden;
        file.check_model(&edge.fingerprint()?, &edge.name(), hidden)?;
        let stem = path.file_stem().context("a router file without a name")?;
        Self::trained(stem.to_string_lossy().into_owned(), file)
    }

    fn trained(name: String, file: RouterFile) -> anyhow::Result<Self> {
        let hash = Sha256::digest(file.bytes()?);
        let digest = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self::Trained { name, file: Arc::new(file), digest })
    }

    /// The router itself; the seed matters to `random` only.
    pub fn build(&self, seed: u64) -> Box<dyn Router> {
        match self {
            Self::Untrained(kind) => kind.build(seed),
            Self::Fallback { .. } => RouterKind::Top1.build(seed),
            Self::Trained { file, .. } => Box::new(Mlp::new(file)),
        }
    }

    /// The policy: as given, or a budget this router can keep to, or a threshold.
    pub fn policy(&self, threshold: Option<Threshold>, budget: Option<Share>) -> ThresholdPolicy {
        match (threshold, budget, self.table()) {
            (Some(threshold), ..) => threshold.into(),
            (None, Some(Share(share)), table) => ThresholdPolicy::budget(Budget::new(share, table)),
            (None, None, table) if !table.is_empty() => {
                ThresholdPolicy::budget(Budget::new(DEFAULT_BUDGET.0, table))
            }
            (None, None, _) => default_threshold().into(),
        }
    }

    /// Why this router judges although nobody chose it and a better one is usual.
    pub fn fallback(&self) -> Option<&str> {
        match self {
            Self::Fallback { reason } => Some(reason),
            Self::Untrained(_) | Self::Trained { .. } => None,
        }
    }

    /// The hash of the router's file, if it has one.
    pub fn digest(&self) -> Option<String> {
        match self {
            Self::Untrained(_) | Self::Fallback { .. } => None,
            Self::Trained { digest, .. } => Some(digest.clone()),
        }
    }

    /// From shares to thresholds, as calibrated.
    pub fn table(&self) -> Vec<(f32, f32)> {
        match self {
            Self::Untrained(_) | Self::Fallback { .. } => vec![],
            Self::Trained { file, .. } => pairs(&file.metadata().calibration),
        }
    }
}

/// A calibration as a budget takes it.
pub fn pairs(calibration: &Calibration) -> Vec<(f32, f32)> {
    calibration.points().iter().map(|p| (p.share, p.threshold)).collect()
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrained(kind) => kind.fmt(f),
            Self::Fallback { .. } => RouterKind::Top1.fmt(f),
            Self::Trained { name, .. } => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_and_files() {
        assert!(matches!("top1".parse().unwrap(), RouterArg::Kind(RouterKind::Top1)));
        assert!(matches!("random:0.1".parse().unwrap(), RouterArg::Kind(RouterKind::Random(_))));
        assert!(matches!("r.safetensors".parse().unwrap(), RouterArg::File(_)));
        assert!(matches!("./router".parse().unwrap(), RouterArg::File(_)));
        assert!("oracle".parse::<RouterArg>().is_err());
        assert!("random:1.5".parse::<RouterArg>().is_err());
    }

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
