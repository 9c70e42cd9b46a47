//! Who judges the edge, and how strictly, for one request.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use decode::{Bar, Budget, Router, Threshold};
use router::Kind;

use super::error::ApiError;

/// Budgets that are kept to at the same time; a request with yet another starts them all afresh.
const BUDGETS: usize = 64;

/// Routers any request may name.
pub const NAMES: [&str; 6] = ["top1", "margin", "entropy", "random", "never", "always"];

type Build = dyn Fn(u64) -> Box<dyn Router> + Send + Sync;

/// A router by name, made anew for every text.
#[derive(Clone)]
pub struct Judge {
    name: String,
    trained: bool,
    /// From shares to thresholds, as calibrated.
    table: Vec<(f32, f32)>,
    build: Arc<Build>,
}

impl Judge {
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

impl From<Kind> for Judge {
    fn from(kind: Kind) -> Self {
        let build = Arc::new(move |seed| kind.build(seed));
        Self { name: kind.to_string(), trained: false, table: vec![], build }
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The server's own judge and bar, and those requests name instead.
#[derive(Debug)]
pub struct Judges {
    judge: Judge,
    bar: Bar,
    /// Where a request names another router and no bar.
    threshold: Threshold,
    /// A budget is kept over many texts, so requests that ask for the same one share it.
    budgets: Mutex<HashMap<(String, u32), Bar>>,
}

/// What a request says of them.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// A router's name.
    pub router: Option<String>,
    /// A bar, one or the other.
    pub threshold: Option<Threshold>,
    /// A share of tokens.
    pub budget: Option<f32>,
}

impl Judges {
    /// The server's own, and the threshold of a router that came without one.
    pub fn new(judge: Judge, bar: Bar, threshold: Threshold) -> Self {
        Self { judge, bar, threshold, budgets: Mutex::default() }
    }

    /// The server's own router.
    pub fn own(&self) -> &Judge {
        &self.judge
    }

    /// The server's own bar.
    pub fn bar(&self) -> &Bar {
        &self.bar
    }

    /// Routers a request may name.
    pub fn names(&self) -> Vec<String> {
        let own = Some(self.judge.name.clone()).filter(|n| !NAMES.contains(&n.as_str()));
        own.into_iter().chain(NAMES.map(String::from)).collect()
    }

    /// As wished.
    pub fn choose(&self, wish: &Wish) -> Result<(Judge, Bar), ApiError> {
        let judge = match wish.router.as_deref() {
            None => self.judge.clone(),
            Some(name) if name == self.judge.name => self.judge.clone(),
            Some(name) => {
                // Names only: a path would let a request read this machine's files.
                let kind: Result<Kind, _> = name.parse();
                let unknown = |e: router::UnknownRouter| {
                    ApiError::invalid(e.to_string()).param("tandem.router")
                };
                kind.map_err(unknown)?.into()
            }
        };
        let bar = match (wish.threshold, wish.budget) {
            (Some(threshold), _) => threshold.into(),
            (None, Some(share)) => self.budget(&judge, share),
            (None, None) if judge.name == self.judge.name => self.bar.clone(),
            (None, None) => self.threshold.into(),
        };
        Ok((judge, bar))
    }

    fn budget(&self, judge: &Judge, share: f32) -> Bar {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (judge.name.clone(), share.to_bits());
        if budgets.len() >= BUDGETS && !budgets.contains_key(&key) {
            budgets.clear();
        }
        let new = || Bar::budget(Budget::new(share, judge.table.iter().copied()));
        budgets.entry(key).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes() {
        let judges = Judges::new(
            Judge::trained("mine", vec![(0.05, 0.4), (0.1, 0.6)], |_| Kind::Top1.build(0)),
            Bar::budget(Budget::new(0.07, [])),
            Threshold::new(0.2).unwrap(),
        );
        let bar = |wish: Wish| judges.choose(&wish).map(|(_, bar)| bar);
        let own = bar(Wish::default()).unwrap();
        assert!(own.standing().is_some_and(|b| (b.share() - 0.07).abs() < 1e-6));
        let other = Wish { router: Some("margin".into()), ..Wish::default() };
        assert!((bar(other).unwrap().threshold().value() - 0.2).abs() < 1e-6);
        // Its own table, a little below the budget.
        let budget = Wish { budget: Some(0.1), ..Wish::default() };
        assert!((bar(budget.clone()).unwrap().threshold().value() - 0.58).abs() < 1e-5);
        for name in ["oracle", "/etc/passwd", "./router.safetensors", "random:7"] {
            let wish = Wish { router: Some(name.into()), ..Wish::default() };
            assert!(bar(wish).is_err(), "{name}");
        }
        assert_eq!(judges.names()[0], "mine");
    }
}
