//! The choice of the router and of its threshold: routers by name, from files, or your own.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use decode::{Budget, Pace, Router, Threshold, ThresholdPolicy};
use engine::LoadOptions;
use models::Preset;
use router::{Metadata, Mlp, RouterFile, RouterKind, UnknownRouter};
use sha2::{Digest, Sha256};

use crate::{
    Error, Share, Store, preset,
    tables::{CALIBRATED, Tables},
};

/// The default budget of routers that are calibrated.
const DEFAULT_BUDGET: f32 = 0.07;

/// The default threshold of other routers. With the default pair and `top1`, about 6 % of the tokens
/// then come from the cloud.
const DEFAULT_THRESHOLD: f32 = 0.2;

/// The most budgets that requests can have at the same time; one more takes the place of the one that
/// was not used for longest.
const MOST_BUDGETS: usize = 64;

/// Routers that need no training, which any request may name.
pub const UNTRAINED: [&str; 6] = ["top1", "margin", "entropy", "random", "never", "always"];

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
        let file = RouterFile::read(path)?;
        edge.check()?;
        let hidden = file.metadata().hidden;
        file.check_model(&edge.fingerprint()?, &edge.name(), hidden)?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        Self::trained(name.into_owned(), file)
    }

    /// The routers that any request may name, with the tables for this edge.
    pub(crate) fn untrained_for(store: &Store, edge: &LoadOptions) -> Result<Vec<Self>, Error> {
        let tables = Tables::find(store, edge)?;
        Ok(CALIBRATED.map(|kind| Self::by_name(kind, &tables)).to_vec())
    }

    fn by_name(kind: RouterKind, tables: &Tables) -> Self {
        Self { table: tables.of(kind), ..kind.into() }
    }

    /// The same router with this table instead of its own.
    pub fn with_table(self, table: Vec<(f32, f32)>) -> Self {
        Self { table, ..self }
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

/// The routing options of a request; those that are `None` are as the pair was built.
#[derive(Clone, Debug, Default)]
pub struct RoutingOverrides {
    /// The name of the pair's router or of a built-in one.
    pub router: Option<String>,
    /// A fixed threshold, which overrides a budget.
    pub threshold: Option<Threshold>,
    /// The largest share of tokens from the cloud, from 0 to 1.
    pub budget: Option<f32>,
}

/// A pair's own router and policy, and those that requests name instead.
#[derive(Debug)]
pub struct RouterRegistry {
    own: NamedRouter,
    policy: ThresholdPolicy,
    /// Those of the others that are calibrated for this edge.
    untrained: Vec<NamedRouter>,
    /// A budget holds over many texts, so requests with the same budget share one.
    budgets: Mutex<Budgets>,
    /// The largest share over all texts, whatever requests ask for.
    limit: Option<ThresholdPolicy>,
}

/// Budgets of requests, by router and share, each with the time of its last use.
#[derive(Debug, Default)]
struct Budgets {
    policies: HashMap<(String, u32), (ThresholdPolicy, u64)>,
    clock: u64,
}

impl Budgets {
    fn get(
        &mut self,
        key: (String, u32),
        make: impl FnOnce() -> ThresholdPolicy,
    ) -> ThresholdPolicy {
        self.clock += 1;
        if self.policies.len() >= MOST_BUDGETS && !self.policies.contains_key(&key) {
            let oldest = self.policies.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.policies.remove(&oldest);
            }
        }
        let (policy, used) = self.policies.entry(key).or_insert_with(|| (make(), 0));
        *used = self.clock;
        policy.clone()
    }
}

impl RouterRegistry {
    /// The router and policy of requests that name none.
    pub fn new(own: NamedRouter, policy: ThresholdPolicy) -> Self {
        Self { own, policy, untrained: vec![], budgets: Mutex::default(), limit: None }
    }

    /// The same, with a largest share of tokens from the cloud over all texts. Where it is reached,
    /// nobody asks, whatever router, threshold or budget a request has.
    pub fn limited(self, share: Share) -> Self {
        let limit = ThresholdPolicy::budget(Budget::new(share.value(), []).strict());
        Self { limit: Some(limit), ..self }
    }

    /// The largest share of tokens from the cloud over all texts, if there is one.
    pub fn limit(&self) -> Option<f32> {
        self.limit.as_ref().and_then(ThresholdPolicy::current_budget).map(|budget| budget.share())
    }

    /// Gives requests these routers where they name one of them.
    pub fn with_untrained(self, untrained: Vec<NamedRouter>) -> Self {
        Self { untrained, ..self }
    }

    /// The pair's own router.
    pub fn own(&self) -> &NamedRouter {
        &self.own
    }

    /// The pair's own policy.
    pub fn policy(&self) -> &ThresholdPolicy {
        &self.policy
    }

    /// The names of routers that a request may use.
    pub fn names(&self) -> Vec<String> {
        let own = Some(self.own.name.clone()).filter(|name| !UNTRAINED.contains(&name.as_str()));
        own.into_iter().chain(UNTRAINED.map(String::from)).collect()
    }

    /// The tables of shares and thresholds, by the names of the routers that have one.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &[(f32, f32)])> {
        let others = self.untrained.iter().filter(|router| router.name != self.own.name);
        let all = [&self.own].into_iter().chain(others);
        let known = all.filter(|router| !router.table.is_empty());
        known.map(|router| (router.name.as_str(), router.table.as_slice()))
    }

    /// The router and policy for a request.
    pub fn choose(
        &self,
        wanted: &RoutingOverrides,
    ) -> Result<(NamedRouter, ThresholdPolicy), UnknownRouter> {
        let router = match wanted.router.as_deref() {
            None => self.own.clone(),
            Some(name) if name == self.own.name => self.own.clone(),
            // Names only: a path would let a request read this machine's files.
            Some(name) => {
                let kind = name.parse::<RouterKind>()?;
                let calibrated = self.untrained.iter().find(|router| router.name == name).cloned();
                calibrated.unwrap_or_else(|| kind.into()).strict(self.own.strict)
            }
        };
        let policy = match (wanted.threshold, wanted.budget) {
            (Some(threshold), _) => threshold.into(),
            (None, Some(share)) => self.shared_budget(&router, share),
            (None, None) if router.name == self.own.name => self.policy.clone(),
            (None, None) => default_threshold().into(),
        };
        let policy = match &self.limit {
            Some(limit) => policy.limited(limit),
            None => policy,
        };
        Ok((router, policy))
    }

    fn shared_budget(&self, router: &NamedRouter, share: f32) -> ThresholdPolicy {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (router.name.clone(), share.to_bits());
        budgets.get(key, || router.budget(share))
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

    #[test]
    fn a_request_chooses_router_and_policy() {
        let own = NamedRouter::custom("mine", Arc::new(router::Top1));
        let own = NamedRouter { table: vec![(0.05, 0.4), (0.1, 0.6)], ..own };
        let policy = ThresholdPolicy::budget(Budget::new(0.07, []));
        let registry = RouterRegistry::new(own, policy);
        let policy = |wanted: RoutingOverrides| registry.choose(&wanted).map(|(_, policy)| policy);
        let usual = RoutingOverrides::default;
        let own = policy(usual()).unwrap();
        assert!(own.current_budget().is_some_and(|b| (b.share() - 0.07).abs() < 1e-6));
        let other = RoutingOverrides { router: Some("margin".into()), ..usual() };
        assert!((policy(other).unwrap().threshold().value() - 0.2).abs() < 1e-6);
        // Its own table, a little below the budget.
        let budget = RoutingOverrides { budget: Some(0.1), ..usual() };
        assert!((policy(budget).unwrap().threshold().value() - 0.58).abs() < 1e-5);
        // A built-in router has the table for this edge, or else a typical one.
        let top1 = |registry: &RouterRegistry| {
            let wanted = RoutingOverrides {
                router: Some("top1".into()),
                budget: Some(0.1),
                ..RoutingOverrides::default()
            };
            registry.choose(&wanted).unwrap().1.threshold().value()
        };
        assert!(top1(&registry) > 0.25);
        let measured = NamedRouter::from(RouterKind::Top1).with_table(vec![(0.1, 0.2)]);
        let calibrated = RouterRegistry::new(RouterKind::Margin.into(), Threshold::NEVER.into());
        assert!(top1(&calibrated.with_untrained(vec![measured])) < 0.21);
        for name in ["oracle", "/etc/passwd", "./router.safetensors", "random:7"] {
            let wanted = RoutingOverrides { router: Some(name.into()), ..usual() };
            assert!(policy(wanted).is_err(), "{name}");
        }
        assert_eq!(registry.names()[0], "mine");
    }

    #[test]
    fn many_budgets_do_not_reset_the_one_in_use() {
        let own = NamedRouter::custom("mine", Arc::new(router::Top1));
        let registry = RouterRegistry::new(own, default_threshold().into());
        let budget = |share: f32| {
            let wanted = RoutingOverrides { budget: Some(share), ..RoutingOverrides::default() };
            registry.choose(&wanted).unwrap().1
        };
        let state = |tokens| decode::BudgetState { aim: 0.1, tokens, routed: 1 };
        budget(0.5).resume(state(1000));
        for i in 1..500 {
            budget(i as f32 / 1000.0).resume(state(1));
            assert_eq!(budget(0.5).current_budget().unwrap().state().tokens, 1000);
        }
        assert!(registry.budgets.lock().unwrap().policies.len() <= MOST_BUDGETS);
    }

    #[test]
    fn the_operators_limit_holds_whatever_a_request_asks_for() {
        let own = NamedRouter::custom("mine", Arc::new(router::Top1));
        let registry = RouterRegistry::new(own, default_threshold().into());
        let registry = registry.limited(Share::new(0.1).unwrap());
        assert!(registry.limit().is_some_and(|share| (share - 0.1).abs() < 1e-6));
        let always = RoutingOverrides {
            router: Some("always".into()),
            threshold: Some(Threshold::ALWAYS),
            ..RoutingOverrides::default()
        };
        let policy = || registry.choose(&always).unwrap().1;
        let mut asked = 0;
        for _ in 0..1000 {
            // A new request each time: the limit is over all of them.
            let policy = policy();
            let ask = policy.threshold() == Threshold::ALWAYS;
            asked += usize::from(ask);
            policy.observe(1, if ask { decode::Source::Cloud } else { decode::Source::Edge });
        }
        assert!((50..=101).contains(&asked), "{asked} of 1000");
    }
}
