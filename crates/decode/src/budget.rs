//! A share of tokens instead of a threshold.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Source, Threshold};

/// How far the aim moves, in proportion, for each token kept while the budget is unspent. Small, so
/// that one hard text is not starved for another's sake: the aim follows over some hundred tokens.
const RATE: f32 = 0.005;

/// What is really aimed at: a little below the budget, which is what may be spent at most, because
/// the correction settles around its aim.
fn prudent(share: f32) -> f32 {
    share - (share * 0.05).min(0.005)
}

/// How far the aim may rise above its budget, where texts are easy: what need not be spent is not.
const MAX_LOOSENING: f32 = 4.0;

/// How far it may fall, where they are hard. Far: a budget is what may be spent at most.
const MAX_TIGHTENING: f32 = 1000.0;

/// What a score has to reach.
#[derive(Clone, Debug)]
pub enum ThresholdPolicy {
    /// Always the same.
    Fixed(Threshold),
    /// Whatever keeps the cloud's share near a budget. Clones share it, and so do all texts that
    /// are to meet the budget together.
    Budget(Arc<Mutex<Budget>>),
}

impl ThresholdPolicy {
    /// Keeps to a budget.
    pub fn budget(budget: Budget) -> Self {
        Self::Budget(Arc::new(Mutex::new(budget)))
    }

    /// The threshold at this moment.
    pub fn threshold(&self) -> Threshold {
        match self {
            Self::Fixed(threshold) => *threshold,
            Self::Budget(budget) => {
                budget.lock().unwrap_or_else(PoisonError::into_inner).threshold()
            }
        }
    }

    /// The budget as it stands, if it is one.
    pub fn current_budget(&self) -> Option<Budget> {
        match self {
            Self::Fixed(_) => None,
            Self::Budget(budget) => {
                Some(budget.lock().unwrap_or_else(PoisonError::into_inner).clone())
            }
        }
    }

    /// Goes on where another budget stood; a fixed threshold stands still.
    pub fn resume(&self, state: BudgetState) {
        if let Self::Budget(budget) = self {
            budget.lock().unwrap_or_else(PoisonError::into_inner).resume(state);
        }
    }

    /// Takes note of accepted tokens.
    pub(crate) fn observe(&self, tokens: usize, source: Source) {
        if let Self::Budget(budget) = self {
            budget.lock().unwrap_or_else(PoisonError::into_inner).observe(tokens, source);
        }
    }
}

impl From<Threshold> for ThresholdPolicy {
    fn from(threshold: Threshold) -> Self {
        Self::Fixed(threshold)
    }
}

/// Near this share of tokens from the cloud, over a long run.
///
/// A table from shares to thresholds, made beforehand, gives the threshold to begin with. What
/// really comes from the cloud then moves the share that is looked up: slowly, and within the
/// table.
#[derive(Clone, Debug)]
pub struct Budget {
    share: f32,
    table: Vec<(f32, f32)>,
    /// The share that is looked up, and how far it may move.
    aim: f32,
    limits: (f32, f32),
    tokens: usize,
    routed: usize,
}

/// Where a budget stands: enough to go on with another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetState {
    /// The share that is looked up.
    pub aim: f32,
    /// Tokens so far.
    pub tokens: usize,
    /// Of them, from the cloud.
    pub routed: usize,
}

impl Budget {
    /// A budget in 0..=1, and pairs of share and threshold. Without pairs the threshold is the
    /// share itself.
    pub fn new(share: f32, table: impl IntoIterator<Item = (f32, f32)>) -> Self {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        let known = table.into_iter().filter(|(s, t)| s.is_finite() && t.is_finite());
        let mut table: Vec<_> = known.collect();
        let limits = if table.is_empty() {
            (1e-7, 1.0)
        } else {
            (share / MAX_TIGHTENING, (share * MAX_LOOSENING).min(1.0))
        };
        table.extend([(0.0, 0.0), (1.0, 1.0)]);
        table.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Self { share, table, aim: prudent(share), limits, tokens: 0, routed: 0 }
    }

    /// Goes on where another one stood.
    pub fn resume(&mut self, state: BudgetState) {
        let BudgetState { aim, tokens, routed } = state;
        if aim.is_finite() {
            self.aim = aim.clamp(self.limits.0, self.limits.1);
        }
        (self.tokens, self.routed) = (tokens, routed);
    }

    /// Where it stands.
    pub fn state(&self) -> BudgetState {
        BudgetState { aim: self.aim, tokens: self.tokens, routed: self.routed }
    }

    /// The threshold at this moment. A budget of nothing never asks; one of everything always does.
    pub fn threshold(&self) -> Threshold {
        let limited = if self.share <= 0.0 { 0.0 } else { self.looked_up() };
        let whole = if self.share >= 1.0 { 1.0 } else { limited };
        Threshold::new(whole.clamp(0.0, 1.0)).unwrap_or(Threshold::NEVER)
    }

    /// What may come from the cloud.
    pub fn share(&self) -> f32 {
        self.share
    }

    /// What really came from the cloud; `None` before the first token.
    pub fn realised(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.routed as f64 / self.tokens as f64)
    }

    fn looked_up(&self) -> f32 {
        let after = self.table.partition_point(|(share, _)| *share < self.aim);
        let Some(&(high, above)) = self.table.get(after) else { return 1.0 };
        let Some(&(low, below)) = after.checked_sub(1).and_then(|i| self.table.get(i)) else {
            return above;
        };
        below + (above - below) * (self.aim - low) / (high - low).max(f32::EPSILON)
    }

    fn observe(&mut self, tokens: usize, source: Source) {
        let routed = if source == Source::Cloud { tokens } else { 0 };
        self.tokens += tokens;
        self.routed += routed;
        // A cloud that cannot be had is no reason to ask for more of it.
        if source != Source::Fallback && self.share > 0.0 {
            let unspent = tokens as f32 - routed as f32 / prudent(self.share);
            let (least, most) = self.limits;
            self.aim = (self.aim * (RATE * unspent).exp()).clamp(least, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Score, sampling};

    /// Tokens whose scores are drawn from a distribution the table does not know.
    fn realised(share: f32, table: &[(f32, f32)], power: f32, tokens: usize) -> f64 {
        let policy = ThresholdPolicy::budget(Budget::new(share, table.iter().copied()));
        for i in 0..tokens {
            let score = Score::new((sampling::unit(7, i) as f32).powf(power));
            let source = match policy.threshold().decide(score) {
                Decision::Ask => Source::Cloud,
                Decision::Keep => Source::Edge,
            };
            policy.observe(1, source);
        }
        policy.current_budget().and_then(|b| b.realised()).unwrap()
    }

    #[test]
    fn the_share_comes_out_whatever_the_scores() {
        for share in [0.02, 0.07, 0.3] {
            for power in [0.3, 1.0, 2.0] {
                let came = realised(share, &[], power, 20_000);
                assert!((came - f64::from(share)).abs() < 0.01, "{share} {power}: {came}");
                assert!(came <= f64::from(share) * 1.02, "{share} {power}: {came}");
            }
        }
    }

    #[test]
    fn the_table_decides_at_first() {
        let budget = Budget::new(0.07, [(0.05, 0.3), (0.1, 0.5)]);
        // 95 % of the budget: a third of the way from the first pair to the second.
        assert!((budget.threshold().value() - 0.366).abs() < 1e-5);
        assert_eq!(budget.realised(), None);
    }

    #[test]
    fn nothing_and_everything_are_meant_literally() {
        assert_eq!(Budget::new(0.0, [(0.0, 0.4)]).threshold(), Threshold::NEVER);
        assert_eq!(Budget::new(1.0, [(0.9, 0.4)]).threshold(), Threshold::ALWAYS);
        assert_eq!(Budget::new(f32::NAN, []).threshold(), Threshold::NEVER);
    }

    #[test]
    fn a_lost_cloud_does_not_raise_the_bar() {
        let mut budget = Budget::new(0.1, []);
        (0..1000).for_each(|_| budget.observe(1, Source::Fallback));
        assert!((budget.threshold().value() - 0.095).abs() < 1e-6);
    }

    #[test]
    fn another_one_goes_on_where_one_stood() {
        let (mut one, mut other) = (Budget::new(0.1, []), Budget::new(0.1, []));
        (0..50).for_each(|i| one.observe(1, if i % 3 == 0 { Source::Cloud } else { Source::Edge }));
        other.resume(one.state());
        assert_eq!(one.threshold(), other.threshold());
        assert_eq!(one.realised(), other.realised());
    }
}
