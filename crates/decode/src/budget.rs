//! Policies that give the threshold of each decision: a fixed one, or one that follows a budget.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{Pace, PaceState, Source, Threshold};

/// How far the aim moves, in proportion, for each token kept while the budget is unspent. Small, so
/// that one hard text is not starved for another's sake: the aim follows over some hundred tokens.
const RATE: f32 = 0.005;

/// The share that the correction steers towards. It settles around its target, and a budget is an
/// upper limit, so the target is a little below it.
fn target_share(share: f32) -> f32 {
    share - (share * 0.05).min(0.005)
}

/// How many times its budget the aim may rise to where texts are easy. A budget need not be spent.
const MAX_LOOSENING: f32 = 4.0;

/// By what factor the aim may fall where texts are hard. Large, because a budget is an upper limit.
const MAX_TIGHTENING: f32 = 1000.0;

/// The least share that a pace goes down to: below it, it would never learn that answers have become
/// quicker.
const LEAST_TARGET: f32 = 1e-4;

/// Where the threshold of the next decision comes from.
#[derive(Clone, Debug)]
pub enum ThresholdPolicy {
    /// The same threshold at every position.
    Fixed(Threshold),
    /// A threshold that moves so that the cloud's share stays near a budget. Clones share one
    /// state, and so do all texts that are to meet the budget together.
    Budget(Arc<Mutex<Budget>>),
    /// Another policy, as long as a budget that many policies share is not passed.
    Limited {
        /// Gives the threshold while the limit has room; when it has none, nothing is asked.
        policy: Box<ThresholdPolicy>,
        /// The strict budget, shared with every other policy that it limits.
        limit: Arc<Mutex<Budget>>,
    },
}

impl ThresholdPolicy {
    /// A policy with a budget of its own, shared by its clones.
    pub fn budget(budget: Budget) -> Self {
        Self::Budget(Arc::new(Mutex::new(budget)))
    }

    /// This policy, as long as the budget of `limit` is not passed. A fixed threshold limits
    /// nothing.
    pub fn limited(self, limit: &Self) -> Self {
        match limit {
            Self::Fixed(_) => self,
            Self::Budget(limit) | Self::Limited { limit, .. } => {
                Self::Limited { policy: Box::new(self), limit: limit.clone() }
            }
        }
    }

    /// The threshold at this moment.
    pub fn threshold(&self) -> Threshold {
        match self {
            Self::Fixed(threshold) => *threshold,
            Self::Budget(budget) => lock(budget).threshold(),
            Self::Limited { limit, .. } if lock(limit).is_spent() => Threshold::NEVER,
            Self::Limited { policy, .. } => policy.threshold(),
        }
    }

    /// The threshold there will be once these tokens have been accepted too, in this order.
    pub(crate) fn threshold_after(&self, accepted: &[(usize, Source)]) -> Threshold {
        match self {
            Self::Fixed(threshold) => *threshold,
            Self::Budget(budget) => after(budget, accepted).threshold(),
            Self::Limited { limit, .. } if after(limit, accepted).is_spent() => Threshold::NEVER,
            Self::Limited { policy, .. } => policy.threshold_after(accepted),
        }
    }

    /// A copy of the budget as it is now; `None` for a fixed threshold.
    pub fn current_budget(&self) -> Option<Budget> {
        match self {
            Self::Fixed(_) => None,
            Self::Budget(budget) => Some(lock(budget).clone()),
            Self::Limited { policy, .. } => policy.current_budget(),
        }
    }

    /// Continues from a saved state. A fixed threshold has none and stays as it is.
    pub fn resume(&self, state: BudgetState) {
        match self {
            Self::Fixed(_) => {}
            Self::Budget(budget) => lock(budget).resume(state),
            Self::Limited { policy, .. } => policy.resume(state),
        }
    }

    /// Adjusts a pace to the time between these tokens and those before them.
    pub fn observe_time(&self, tokens: usize, source: Source, took: Duration) {
        match self {
            Self::Fixed(_) => {}
            Self::Budget(budget) => lock(budget).observe_time(tokens, source, took),
            Self::Limited { policy, .. } => policy.observe_time(tokens, source, took),
        }
    }

    /// Adjusts the budget to tokens that were accepted. A session does so by itself; others that follow
    /// a text may.
    pub fn observe(&self, tokens: usize, source: Source) {
        match self {
            Self::Fixed(_) => {}
            Self::Budget(budget) => lock(budget).observe(tokens, source),
            Self::Limited { policy, limit } => {
                lock(limit).observe(tokens, source);
                policy.observe(tokens, source);
            }
        }
    }
}

fn lock(budget: &Mutex<Budget>) -> MutexGuard<'_, Budget> {
    budget.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The budget as it will be behind these tokens.
fn after(budget: &Mutex<Budget>, accepted: &[(usize, Source)]) -> Budget {
    let mut budget = lock(budget).clone();
    accepted.iter().for_each(|&(tokens, source)| budget.observe(tokens, source));
    budget
}

impl From<Threshold> for ThresholdPolicy {
    fn from(threshold: Threshold) -> Self {
        Self::Fixed(threshold)
    }
}

/// Keeps the share of tokens from the cloud near a limit, over a long run.
///
/// A calibration table of shares and thresholds, made beforehand, gives the threshold to begin
/// with. The share that really comes from the cloud then moves the share that is looked up in the
/// table, slowly and within limits.
#[derive(Clone, Debug)]
pub struct Budget {
    share: f32,
    /// The share to keep to now: the budget's own, or less where a pace asks for less.
    target: f32,
    pace: Option<Pace>,
    table: Vec<(f32, f32)>,
    /// The share that is looked up, and how far it may move.
    aim: f32,
    limits: (f32, f32),
    /// Whether nothing is asked while the share is passed.
    strict: bool,
    tokens: usize,
    routed: usize,
}

/// The state of a budget: enough for another one to continue from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetState {
    /// The share that is looked up in the table.
    pub aim: f32,
    /// Tokens accepted so far.
    pub tokens: usize,
    /// How many of them came from the cloud.
    pub routed: usize,
    /// What a pace has seen, where one is kept.
    pub pace: Option<PaceState>,
}

impl Budget {
    /// Takes the largest share, in 0..=1, and a calibration table of pairs of share and threshold.
    /// Without pairs the threshold is the share itself.
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
        let aim = target_share(share);
        Self {
            share,
            target: share,
            pace: None,
            table,
            aim,
            limits,
            strict: false,
            tokens: 0,
            routed: 0,
        }
    }

    /// The same budget as a limit within which a pace is kept.
    pub fn paced(mut self, pace: Pace) -> Self {
        self.follow(pace.first_share(self.share));
        Self { pace: Some(pace), ..self }
    }

    /// The pace that is kept, if one is.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    /// Moves the aim in proportion, so that what was learnt about the table stays.
    fn follow(&mut self, share: f32) {
        if self.share <= 0.0 {
            return;
        }
        let share = share.clamp(LEAST_TARGET.min(self.share), self.share);
        let (least, most) = self.limits;
        let aim = self.aim * target_share(share) / target_share(self.target);
        (self.target, self.aim) = (share, aim.clamp(least, most));
    }

    fn observe_time(&mut self, tokens: usize, source: Source, took: Duration) {
        let share = self.share;
        if let Some(share) = self.pace.as_mut().and_then(|p| p.observe(tokens, source, took, share))
        {
            self.follow(share);
        }
    }

    /// The same budget as a limit at every moment: while more than its share has come from the
    /// cloud, nothing is asked, so it is never passed by more than one ask.
    pub fn strict(self) -> Self {
        Self { strict: true, ..self }
    }

    /// Continues from a saved state, within the limits of this budget.
    pub fn resume(&mut self, state: BudgetState) {
        let BudgetState { aim, tokens, routed, pace } = state;
        if aim.is_finite() {
            self.aim = aim.clamp(self.limits.0, self.limits.1);
        }
        (self.tokens, self.routed) = (tokens, routed);
        if let (Some(own), Some(seen)) = (&mut self.pace, pace) {
            own.resume(seen);
            let share = seen.share.filter(|share| share.is_finite() && self.share > 0.0);
            let share = share.map(|share| share.clamp(LEAST_TARGET.min(self.share), self.share));
            self.target = share.unwrap_or(self.target);
        }
    }

    /// What [`resume`](Self::resume) needs to continue from here.
    pub fn state(&self) -> BudgetState {
        let pace = self.pace.as_ref().map(Pace::state);
        BudgetState { aim: self.aim, tokens: self.tokens, routed: self.routed, pace }
    }

    /// The threshold at this moment. A budget of 0 never asks, and a budget of 1 always does.
    pub fn threshold(&self) -> Threshold {
        if self.strict && self.is_spent() {
            return Threshold::NEVER;
        }
        let limited = if self.target <= 0.0 { 0.0 } else { self.threshold_for_aim() };
        let whole = if self.target >= 1.0 { 1.0 } else { limited };
        Threshold::new(whole.clamp(0.0, 1.0)).unwrap_or(Threshold::NEVER)
    }

    /// Whether more than its share has come from the cloud. A budget of 0 is spent from the start.
    fn is_spent(&self) -> bool {
        self.share <= 0.0 || self.routed as f64 > f64::from(self.share) * self.tokens as f64
    }

    /// The largest share of tokens that may come from the cloud.
    pub fn share(&self) -> f32 {
        self.share
    }

    /// The share of tokens that really came from the cloud; `None` before the first token.
    pub fn realised(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.routed as f64 / self.tokens as f64)
    }

    /// Interpolates linearly between the pairs of the table.
    fn threshold_for_aim(&self) -> f32 {
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
        // A cloud that fails leaves the budget unspent, which is no reason to ask it more often.
        if source != Source::Fallback && self.target > 0.0 {
            let unspent = tokens as f32 - routed as f32 / target_share(self.target);
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
            let score = Score::new((sampling::uniform(7, i) as f32).powf(power));
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
    fn a_strict_budget_is_never_passed_by_more_than_one_ask() {
        for share in [0.0f32, 0.02, 0.07, 0.5, 1.0] {
            let table = [(0.01, 0.5), (0.07, 0.9), (0.5, 0.99)];
            let mut budget = Budget::new(share, table).strict();
            let mut asked = 0;
            // Hard text: nearly every score is low.
            for i in 0..3000 {
                let score = Score::new(sampling::uniform(3, i) as f32 * 0.6);
                let ask = budget.threshold().decide(score) == Decision::Ask;
                asked += usize::from(ask);
                // An ask may bring several tokens.
                let (tokens, source) = if ask { (2, Source::Cloud) } else { (1, Source::Edge) };
                budget.observe(tokens, source);
                let allowed = share * budget.tokens as f32 + 2.0;
                assert!(budget.routed as f32 <= allowed + 0.01, "{share}: {asked} asks after {i}");
            }
            assert_eq!(asked > 0, share > 0.0);
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
    fn a_budget_of_0_never_asks_and_one_of_1_always_does() {
        assert_eq!(Budget::new(0.0, [(0.0, 0.4)]).threshold(), Threshold::NEVER);
        assert_eq!(Budget::new(1.0, [(0.9, 0.4)]).threshold(), Threshold::ALWAYS);
        assert_eq!(Budget::new(f32::NAN, []).threshold(), Threshold::NEVER);
    }

    #[test]
    fn a_failing_cloud_does_not_raise_the_threshold() {
        let mut budget = Budget::new(0.1, []);
        (0..1000).for_each(|_| budget.observe(1, Source::Fallback));
        assert!((budget.threshold().value() - 0.095).abs() < 1e-6);
    }

    #[test]
    fn a_budget_continues_from_a_saved_state() {
        let (mut one, mut other) = (Budget::new(0.1, []), Budget::new(0.1, []));
        (0..50).for_each(|i| one.observe(1, if i % 3 == 0 { Source::Cloud } else { Source::Edge }));
        other.resume(one.state());
        assert_eq!(one.threshold(), other.threshold());
        assert_eq!(one.realised(), other.realised());
    }
}
