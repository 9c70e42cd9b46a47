//! The router and the policy of a request: the pair's own, or those that it names instead.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use decode::{Budget, Threshold, ThresholdPolicy};
use router::{RouterKind, UnknownRouter};

use super::{NamedRouter, default_threshold};
use crate::{Mode, Share};

/// Routers that need no training, which any request may name.
pub const UNTRAINED: [&str; 6] = ["top1", "margin", "entropy", "random", "never", "always"];

/// The most budgets that requests can have at the same time; one more takes the place of the one that
/// was not used for longest.
const MOST_BUDGETS: usize = 64;

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

    /// Whether the largest share of tokens from the cloud lets a text have this mode.
    pub fn allows(&self, mode: Mode) -> bool {
        mode.heeds_share() || self.limit().is_none_or(|limit| limit >= 1.0)
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
    use std::sync::Arc;

    use super::*;

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
        let measured = NamedRouter { table: vec![(0.1, 0.2)], ..RouterKind::Top1.into() };
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
        let state = |tokens| decode::BudgetState { aim: 0.1, tokens, routed: 1, pace: None };
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
