//! Who judges the edge, and how strictly, for one request.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use decode::{Budget, Router, Threshold, ThresholdPolicy};
use router::RouterKind;

use crate::http::ApiError;

/// Budgets that are kept to at the same time; a request with yet another starts them all afresh.
const BUDGETS: usize = 64;

/// Routers any request may name.
pub const NAMES: [&str; 6] = ["top1", "margin", "entropy", "random", "never", "always"];

type Build = dyn Fn(u64) -> Box<dyn Router> + Send + Sync;

/// A router by name, made anew for every text.
#[derive(Clone)]
pub struct NamedRouter {
    name: String,
    trained: bool,
    /// From shares to thresholds, as calibrated.
    table: Vec<(f32, f32)>,
    build: Arc<Build>,
}

impl NamedRouter {
    /// One that was trained, with its calibration.
    pub fn trained(
        name: impl Into<String>,
        table: Vec<(f32, f32)>,
        build: impl Fn(u64) -> Box<dyn Router> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), trained: true, table, build: Arc::new(build) }
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it was trained.
    pub fn is_trained(&self) -> bool {
        self.trained
    }

    /// The router; the seed matters to `random` only.
    pub fn build(&self, seed: u64) -> Box<dyn Router> {
        (self.build)(seed)
    }
}

impl From<RouterKind> for NamedRouter {
    fn from(kind: RouterKind) -> Self {
        let build = Arc::new(move |seed| kind.build(seed));
        Self { name: kind.to_string(), trained: false, table: vec![], build }
    }
}

impl fmt::Debug for NamedRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedRouter").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The server's own judge and policy, and those requests name instead.
#[derive(Debug)]
pub struct RouterRegistry {
    judge: NamedRouter,
    policy: ThresholdPolicy,
    /// Where a request names another router and no policy.
    threshold: Threshold,
    /// A budget is kept over many texts, so requests that ask for the same one share it.
    budgets: Mutex<HashMap<(String, u32), ThresholdPolicy>>,
}

/// What a request says of them.
#[derive(Clone, Debug, Default)]
pub struct RoutingOverrides {
    /// A router's name.
    pub router: Option<String>,
    /// A policy, one or the other.
    pub threshold: Option<Threshold>,
    /// A share of tokens.
    pub budget: Option<f32>,
}

impl RouterRegistry {
    /// The server's own, and the threshold of a router that came without one.
    pub fn new(judge: NamedRouter, policy: ThresholdPolicy, threshold: Threshold) -> Self {
        Self { judge, policy, threshold, budgets: Mutex::default() }
    }

    /// The server's own router.
    pub fn own(&self) -> &NamedRouter {
        &self.judge
    }

    /// The server's own policy.
    pub fn policy(&self) -> &ThresholdPolicy {
        &self.policy
    }

    /// Routers a request may name.
    pub fn names(&self) -> Vec<String> {
        let own = Some(self.judge.name.clone()).filter(|n| !NAMES.contains(&n.as_str()));
        own.into_iter().chain(NAMES.map(String::from)).collect()
    }

    /// As wished.
    pub fn choose(
        &self,
        overrides: &RoutingOverrides,
    ) -> Result<(NamedRouter, ThresholdPolicy), ApiError> {
        let judge = match overrides.router.as_deref() {
            None => self.judge.clone(),
            Some(name) if name == self.judge.name => self.judge.clone(),
            Some(name) => {
                // Names only: a path would let a request read this machine's files.
                let kind: Result<RouterKind, _> = name.parse();
                let unknown = |e: router::UnknownRouter| {
                    ApiError::invalid(e.to_string()).param("tandem.router")
                };
                kind.map_err(unknown)?.into()
            }
        };
        let policy = match (overrides.threshold, overrides.budget) {
            (Some(threshold), _) => threshold.into(),
            (None, Some(share)) => self.budget(&judge, share),
            (None, None) if judge.name == self.judge.name => self.policy.clone(),
            (None, None) => self.threshold.into(),
        };
        Ok((judge, policy))
    }

    fn budget(&self, judge: &NamedRouter, share: f32) -> ThresholdPolicy {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (judge.name.clone(), share.to_bits());
        if budgets.len() >= BUDGETS && !budgets.contains_key(&key) {
            budgets.clear();
        }
        let new = || ThresholdPolicy::budget(Budget::new(share, judge.table.iter().copied()));
        budgets.entry(key).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes() {
        let judges = RouterRegistry::new(
            NamedRouter::trained("mine", vec![(0.05, 0.4), (0.1, 0.6)], |_| {
                RouterKind::Top1.build(0)
            }),
            ThresholdPolicy::budget(Budget::new(0.07, [])),
            Threshold::new(0.2).unwrap(),
        );
        let policy =
            |overrides: RoutingOverrides| judges.choose(&overrides).map(|(_, policy)| policy);
        let own = policy(RoutingOverrides::default()).unwrap();
        assert!(own.current_budget().is_some_and(|b| (b.share() - 0.07).abs() < 1e-6));
        let other =
            RoutingOverrides { router: Some("margin".into()), ..RoutingOverrides::default() };
        assert!((policy(other).unwrap().threshold().value() - 0.2).abs() < 1e-6);
        // Its own table, a little below the budget.
        let budget = RoutingOverrides { budget: Some(0.1), ..RoutingOverrides::default() };
        assert!((policy(budget.clone()).unwrap().threshold().value() - 0.58).abs() < 1e-5);
        for name in ["oracle", "/etc/passwd", "./router.safetensors", "random:7"] {
            let overrides =
                RoutingOverrides { router: Some(name.into()), ..RoutingOverrides::default() };
            assert!(policy(overrides).is_err(), "{name}");
        }
        assert_eq!(judges.names()[0], "mine");
    }
}
