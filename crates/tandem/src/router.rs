//! The choice of the router and of its threshold: routers by name, from files, or your own.
//!
//! [`registry`]: the choice that each request has.

pub mod registry;

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use decode::{Budget, Pace, Router, Threshold, ThresholdPolicy};
use engine::LoadOptions;
use models::Preset;
use router::{Metadata, Mlp, Objective, RouterFile, RouterKind, UnknownRouter};
use sha2::{Digest, Sha256};

use crate::{
    Error, Share, Store, preset,
    tables::{CALIBRATED, Tables},
};

pub use registry::{RouterRegistry, RoutingOverrides, UNTRAINED};

/// The default budget of routers that are calibrated.
const DEFAULT_BUDGET: f32 = 0.07;

/// The default threshold of other routers. With the default pair and `top1`, about 6 % of the tokens
/// then come from the cloud.
const DEFAULT_THRESHOLD: f32 = 0.2;

/// How the caller chooses a router.
#[derive(Clone)]
pub enum RouterSpec {
    /// A built-in router that needs no training.
    Kind(RouterKind),
    /// The file of a trained router.
    File(PathBuf),
    /// The caller's own implementation.
    Custom(Arc<dyn Router>),
}

impl fmt::Debug for RouterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => f.debug_tuple("Kind").field(kind).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl From<RouterKind> for RouterSpec {
    fn from(kind: RouterKind) -> Self {
        Self::Kind(kind)
    }
}

impl<R: Router + 'static> From<Arc<R>> for RouterSpec {
    fn from(router: Arc<R>) -> Self {
        Self::Custom(router)
    }
}

impl FromStr for RouterSpec {
    type Err = UnknownRouter;

    /// Reads a name; other texts with a slash or a dot in them are paths of files.
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

type Build = dyn Fn(u64) -> Box<dyn Router> + Send + Sync;

/// A router with its name and calibration, from which an instance is built for every text.
#[derive(Clone)]
pub struct NamedRouter {
    name: String,
    /// The hash of its file and what it is, if it was trained.
    trained: Option<(String, String)>,
    fallback: Option<String>,
    /// From shares to thresholds, as calibrated.
    table: Vec<(f32, f32)>,
    /// The budget it was made for.
    default_budget: f32,
    /// Whether budgets hold at every moment.
    strict: bool,
    build: Arc<Build>,
}

impl NamedRouter {
    /// The given router; without one, the general router if it was trained for this edge, else
    /// `top1`.
    pub fn choose(
        wanted: Option<&RouterSpec>,
        store: &Store,
        edge: &LoadOptions,
    ) -> Result<Self, Error> {
        match wanted {
            Some(RouterSpec::Kind(kind)) => {
                let tables = if CALIBRATED.contains(kind) {
                    Tables::find(store, edge)?
                } else {
                    Tables::default()
                };
                Ok(Self::by_name(*kind, &tables))
            }
            Some(RouterSpec::File(path)) => Self::read(path, edge),
            Some(RouterSpec::Custom(router)) => Ok(Self::custom("custom", router.clone())),
            None => Self::general(store, edge),
        }
    }

    /// Reads a trained router, and refuses it if it was trained for another model.
    pub fn read(path: &Path, edge: &LoadOptions) -> Result<Self, Error> {
        Self::trained(file_name(path), read_for(path, edge)?)
    }

    /// Reads a router that chooses between whole answers: its score behind a prompt is the trust in the
    /// small model's answer.
    pub fn read_for_whole_answers(path: &Path, edge: &LoadOptions) -> Result<Self, Error> {
        let file = read_for(path, edge)?;
        if file.metadata().objective != Objective::Query {
            return Err(Error::Usage(format!(
                "the router {} chooses tokens, and not between whole answers: train one for those with \
                 `tandem router train-query`",
                path.display()
            )));
        }
        Self::of_file(file_name(path), file)
    }

    /// The routers that any request may name, with the tables for this edge.
    pub(crate) fn untrained_for(store: &Store, edge: &LoadOptions) -> Result<Vec<Self>, Error> {
        let tables = Tables::find(store, edge)?;
        Ok(CALIBRATED.map(|kind| Self::by_name(kind, &tables)).to_vec())
    }

    fn by_name(kind: RouterKind, tables: &Tables) -> Self {
        Self { table: tables.of(kind), ..kind.into() }
    }

    /// Wraps the caller's own implementation.
    pub fn custom(name: impl Into<String>, router: Arc<dyn Router>) -> Self {
        let build = move |_| -> Box<dyn Router> { Box::new(router.clone()) };
        Self::untrained(name.into(), build)
    }

    /// The general router of the pair, if it is here and was made for this edge.
    fn general(store: &Store, edge: &LoadOptions) -> Result<Self, Error> {
        edge.check()?;
        let places = store.presets();
        let Some(name) = store.pair.router.as_deref() else {
            let reason = format!("there is no trained router for the pair {}", store.pair.name);
            return Ok(Self::standing_in(reason));
        };
        let Some(folder) = places.named(name) else {
            let reason = format!("there is no preset {name:?} with a router (looked in {places})");
            return Ok(Self::standing_in(reason));
        };
        // A damaged one is refused, because nobody would notice that another router is used instead.
        let preset = Preset::load(&folder)?;
        let kind = preset::edge_kind(&edge.path)?;
        let Some(part) = preset.manifest().router(kind) else {
            let reason = format!("the preset {name:?} has no router for an edge of kind {kind}");
            return Ok(Self::standing_in(reason));
        };
        let file = RouterFile::read(&preset.path(&part.file))?;
        if file.metadata().model == edge.fingerprint()? {
            let router = Self::trained(preset.manifest().name.clone(), file)?;
            let default_budget = preset.manifest().defaults.budget.unwrap_or(DEFAULT_BUDGET);
            return Ok(Self { default_budget, ..router });
        }
        let (trained, here) = (&file.metadata().model_name, edge.name());
        let reason = format!("the general router was trained for {trained}, not for {here}");
        Ok(Self::standing_in(reason))
    }

    fn trained(name: String, file: RouterFile) -> Result<Self, Error> {
        if file.metadata().objective == Objective::Query {
            return Err(Error::Usage(format!(
                "the router {name} chooses between whole answers, and not tokens: it is for \
                 `tandem eval --query-router`"
            )));
        }
        Self::of_file(name, file)
    }

    fn of_file(name: String, file: RouterFile) -> Result<Self, Error> {
        let bytes = file.bytes().map_err(|e| Error::Internal(e.to_string()))?;
        let digest = decode::hex(&Sha256::digest(bytes)[..8]);
        let Metadata { objective, model_name, .. } = file.metadata();
        let description = format!("{objective}, trained for {model_name}");
        let points = file.metadata().calibration.points();
        let table = points.iter().map(|p| (p.share, p.threshold)).collect();
        let file = Arc::new(file);
        let build = Arc::new(move |_| -> Box<dyn Router> { Box::new(Mlp::new(&file)) });
        let trained = Some((digest, description));
        let default_budget = DEFAULT_BUDGET;
        Ok(Self { name, trained, fallback: None, table, default_budget, strict: false, build })
    }

    /// `top1`, because the user chose none and there is no general router for this edge.
    fn standing_in(reason: String) -> Self {
        Self { fallback: Some(reason), ..RouterKind::Top1.into() }
    }

    fn untrained(
        name: String,
        build: impl Fn(u64) -> Box<dyn Router> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            trained: None,
            fallback: None,
            table: vec![],
            default_budget: DEFAULT_BUDGET,
            strict: false,
            build: Arc::new(build),
        }
    }

    /// The same router with budgets that hold at every moment, if `strict`.
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// The name shown to users.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it comes from the file of a trained router.
    pub fn is_trained(&self) -> bool {
        self.trained.is_some()
    }

    /// The hash of its file, if it was trained.
    pub fn digest(&self) -> Option<&str> {
        self.trained.as_ref().map(|(digest, _)| digest.as_str())
    }

    /// Its objective and the model it was trained for, if it was trained.
    pub fn description(&self) -> Option<&str> {
        self.trained.as_ref().map(|(_, description)| description.as_str())
    }

    /// Why it is used instead of a trained router that the user would expect.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// The calibration table of shares and thresholds; empty if it was not calibrated.
    pub fn table(&self) -> &[(f32, f32)] {
        &self.table
    }

    /// Builds an instance for one text; only `random` uses the seed.
    pub fn build(&self, seed: u64) -> Box<dyn Router> {
        (self.build)(seed)
    }

    /// The policy for a threshold or a budget; without either, the default budget if the router was
    /// trained and calibrated, else the default threshold.
    pub fn policy(&self, threshold: Option<Threshold>, budget: Option<Share>) -> ThresholdPolicy {
        match (threshold, budget) {
            (Some(threshold), _) => threshold.into(),
            (None, Some(share)) => self.budget(share.value()),
            (None, None) if !self.is_trained() || self.table.is_empty() => {
                default_threshold().into()
            }
            (None, None) => self.budget(self.default_budget),
        }
    }

    /// The policy that keeps a pace within a budget, if there is one.
    pub fn paced(&self, budget: Option<Share>, pace: Pace) -> ThresholdPolicy {
        ThresholdPolicy::budget(self.share(budget.map_or(1.0, Share::value)).paced(pace))
    }

    fn budget(&self, share: f32) -> ThresholdPolicy {
        ThresholdPolicy::budget(self.share(share))
    }

    fn share(&self, share: f32) -> Budget {
        let budget = Budget::new(share, self.table.iter().copied());
        if self.strict { budget.strict() } else { budget }
    }
}

/// A router's file, refused if it was trained for another model.
fn read_for(path: &Path, edge: &LoadOptions) -> Result<RouterFile, Error> {
    let file = RouterFile::read(path)?;
    edge.check()?;
    let hidden = file.metadata().hidden;
    file.check_model(&edge.fingerprint()?, &edge.name(), hidden)?;
    Ok(file)
}

fn file_name(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn default_threshold() -> Threshold {
    Threshold::new(DEFAULT_THRESHOLD).unwrap_or(Threshold::NEVER)
}

/// With a typical table; [`NamedRouter::choose`] knows the edge's own.
impl From<RouterKind> for NamedRouter {
    fn from(kind: RouterKind) -> Self {
        let router = Self::untrained(kind.to_string(), move |seed| kind.build(seed));
        Self { table: Tables::default().of(kind), ..router }
    }
}

impl fmt::Display for NamedRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl fmt::Debug for NamedRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedRouter").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files() {
        assert!(matches!("top1".parse().unwrap(), RouterSpec::Kind(RouterKind::Top1)));
        assert!(matches!("random:0.1".parse().unwrap(), RouterSpec::Kind(RouterKind::Random(_))));
        assert!(matches!("r.safetensors".parse().unwrap(), RouterSpec::File(_)));
        assert!(matches!("./router".parse().unwrap(), RouterSpec::File(_)));
        assert!("oracle".parse::<RouterSpec>().is_err());
        assert!("random:1.5".parse::<RouterSpec>().is_err());
    }
}
