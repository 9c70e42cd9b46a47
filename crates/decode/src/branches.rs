//! Going on behind several choices at once while an answer is on its way.
//!
//! Where the edge doubts, the cloud's answer is often its second or third choice. So while it waits, it
//! may write behind those too. Each is a *branch*: a cache that shares what was read before, and that is
//! read in one batch with the text's own way. Where the answer is the first token of a branch, the text
//! goes on there, and everything else is forgotten. Nothing is asked behind a branch: it ends where the
//! text would ask, and waits there.
//!
//! A batch of two takes longer than a step. How many ways are worth it is decided by how likely each is
//! and by how long batches took here: what is likely to be of use in a second is to be as much as
//! possible. Where the text's own way has to wait, the time is the branches'.

use std::{collections::VecDeque, time::Duration};

use crate::{
    Cloud, Edge, Router, Session, SessionError, Step, Token, sampling,
    speculation::{ExpectedText, StepAhead},
    trace::Source,
    transcript::NewTokens,
};

/// The most tokens that are read behind a branch: a cache needs room for so many more for each.
pub const LONGEST_BRANCH: usize = 32;

/// What one more way adds to the time of a batch, in steps, until it has been seen.
const GUESS: f32 = 0.5;

/// How much a batch that was timed counts against all before it.
const RATE: f32 = 0.25;

/// The other ways that the text may go from where it stands.
pub(crate) struct Branches<E> {
    /// How many there may be at once; 0 where the edge cannot.
    pub limit: usize,
    /// How likely the answer is what the text's own way goes on with, by the edge's account.
    own: f32,
    /// The choices that are no branches yet, likeliest first.
    choices: VecDeque<(Token, f32)>,
    begun: Vec<Branch<E>>,
    pub costs: Costs,
}

/// A choice that is not the text's own, with a cache in which the edge goes on behind it.
struct Branch<E> {
    edge: E,
    first: Token,
    likely: f32,
    expected: ExpectedText,
    path: VecDeque<StepAhead>,
    /// What is read next.
    next: Option<Token>,
}

impl<E> Default for Branches<E> {
    fn default() -> Self {
        let (choices, begun, costs) = (VecDeque::new(), vec![], Costs::default());
        Self { limit: 0, own: 1.0, choices, begun, costs }
    }
}

impl<E> Branches<E> {
    /// The caches to read, and the token that each reads.
    pub fn next_steps(&mut self) -> impl Iterator<Item = (&mut E, Token)> {
        self.begun.iter_mut().filter_map(|branch| Some((&mut branch.edge, branch.next?)))
    }

    /// Forgets all of them; returns what was read in vain.
    fn clear(&mut self) -> impl Iterator<Item = StepAhead> + use<E> {
        self.choices.clear();
        std::mem::take(&mut self.begun).into_iter().flat_map(|branch| branch.path)
    }
}

/// How long a batch of so many ways takes.
#[derive(Default)]
pub(crate) struct Costs {
    /// In seconds, for one way, two, and so on.
    seen: Vec<f32>,
}

impl Costs {
    pub fn observe(&mut self, ways: usize, took: Duration) {
        // Without the time of a single step there is nothing to compare with.
        if ways == 0 || took.is_zero() || (ways > 1 && self.seen.is_empty()) {
            return;
        }
        let took = took.as_secs_f32();
        if self.seen.is_empty() {
            self.seen.push(took);
        }
        while self.seen.len() < ways {
            self.seen.push(self.of(self.seen.len() + 1));
        }
        self.seen[ways - 1] += RATE * (took - self.seen[ways - 1]);
    }

    fn of(&self, ways: usize) -> f32 {
        let Some(one) = self.seen.first() else { return 1.0 + GUESS * (ways - 1) as f32 };
        let known = ways.min(self.seen.len());
        self.seen[known - 1] + GUESS * one * (ways - known) as f32
    }

    /// With how many of these ways, each so likely, most is likely to be of use in a second.
    pub fn worth(&self, likely: &[f32]) -> usize {
        let (mut best, mut most, mut sum) = (0, 0.0, 0.0);
        for (ways, probability) in (1..).zip(likely) {
            sum += probability;
            let use_in_a_second = sum / self.of(ways);
            if best == 0 || use_in_a_second > most {
                (best, most) = (ways, use_in_a_second);
            }
        }
        best
    }
}

impl<E: Edge, R: Router, C: Cloud> Session<E, R, C> {
    /// Finds out which other ways there are from where the text stands.
    pub(crate) fn look_around(&mut self, step: &Step) -> Result<(), SessionError> {
        let most = self.branches.limit;
        // An ask that is made again has its branches already.
        let known = !self.branches.begun.is_empty();
        if most == 0 || known || self.transcript.room() < 2 || self.read >= self.edge.context() {
            return Ok(());
        }
        self.branches.costs.observe(1, step.reading.decode);
        let own = self.choose(step, self.transcript.written())?;
        self.branches.own = sampling::logprob(&step.logits, own).exp();
        let others = sampling::likeliest(&step.logits, most + 1).into_iter();
        let others = others.filter(|(token, _)| *token != own && !self.vocabulary.is_end(*token));
        self.branches.choices =
            others.take(most).map(|(token, logprob)| (token, logprob.exp())).collect();
        Ok(())
    }

    /// Decides what is read next behind branches, beside the text's own way if that goes on. Returns
    /// whether there is anything.
    pub(crate) async fn branch_out(&mut self, own: bool) -> bool {
        if self.branches.limit == 0 {
            return false;
        }
        let next: Vec<_> = self.branches.begun.iter().map(|b| self.next_behind(b)).collect();
        let begun = self.branches.begun.iter().zip(&next).filter(|(_, next)| next.is_some());
        let likely: Vec<f32> = own
            .then_some(self.branches.own)
            .into_iter()
            .chain(begun.map(|(branch, _)| branch.likely))
            .chain(self.branches.choices.iter().map(|(_, likely)| *likely))
            .collect();
        let mut left = self.branches.costs.worth(&likely).saturating_sub(usize::from(own));
        for (branch, next) in self.branches.begun.iter_mut().zip(next) {
            branch.next = next.filter(|_| left > 0);
            left -= usize::from(branch.next.is_some());
        }
        while left > 0 {
            self.begin_branch().await;
            left -= 1;
        }
        self.branches.begun.iter().any(|branch| branch.next.is_some())
    }

    async fn begin_branch(&mut self) {
        let Some((token, likely)) = self.branches.choices.pop_front() else { return };
        match self.edge.fork(self.read).await {
            Some(edge) => {
                let expected =
                    ExpectedText { written: self.transcript.written().clone(), observed: vec![] };
                let (path, next) = (VecDeque::new(), Some(token));
                self.branches.begun.push(Branch {
                    edge,
                    first: token,
                    likely,
                    expected,
                    path,
                    next,
                });
            }
            None => {
                self.branches.limit = 0;
                self.branches.choices.clear();
            }
        }
    }

    /// What a branch goes on with; `None` where it ends.
    fn next_behind(&self, branch: &Branch<E>) -> Option<Token> {
        let Some(ahead) = branch.path.back() else { return Some(branch.first) };
        let count = branch.path.len();
        let full = count >= LONGEST_BRANCH || self.read + count >= self.edge.context();
        if full || self.asks_at(ahead, &branch.expected) {
            return None;
        }
        let token = self.choose(&ahead.step, &branch.expected.written).ok()?;
        (!self.ends_with(token, &branch.expected)).then_some(token)
    }

    /// Goes on with what was read behind the branches. One that failed is given up: nothing depends on
    /// it.
    pub(crate) fn grow(&mut self, steps: impl Iterator<Item = Option<Step>>, ways: usize) {
        let (mut steps, read) = (steps, self.read);
        let begun = std::mem::take(&mut self.branches.begun);
        for mut branch in begun {
            let Some(token) = branch.next.take() else {
                self.branches.begun.push(branch);
                continue;
            };
            let Some(step) = steps.next().flatten() else {
                for ahead in branch.path {
                    self.transcript.add_void(ahead.times, false);
                }
                continue;
            };
            let source = match branch.path.back() {
                Some(ahead) => self.source(ahead, &branch.expected),
                None => Source::Cloud,
            };
            self.extend(&mut branch.expected, token, source);
            self.transcript.edge_read(step.reading.tokens, 1, read + branch.path.len());
            branch.path.push_back(self.step_ahead(token, step, ways));
            self.branches.begun.push(branch);
        }
    }

    /// Goes over to the branch that begins with what the cloud has written; `false` where none does.
    pub(crate) fn switch_to_branch(&mut self, written: &NewTokens) -> bool {
        let first = written.tokens.first().and_then(|piece| piece.id);
        let Some(first) = first.filter(|_| written.source == Source::Cloud) else { return false };
        let begins =
            |branch: &Branch<E>| branch.path.front().is_some_and(|ahead| ahead.token == first);
        let Some(at) = self.branches.begun.iter().position(begins) else { return false };
        let Branch { edge, path, .. } = self.branches.begun.swap_remove(at);
        self.edge = edge;
        for ahead in self.ahead.replace(path) {
            self.transcript.add_void(ahead.times, ahead.was_asked());
        }
        true
    }

    /// Forgets all branches: the text goes on, and not behind them.
    pub(crate) fn drop_branches(&mut self) {
        for ahead in self.branches.clear() {
            self.transcript.add_void(ahead.times, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(milliseconds: &[u64]) -> Costs {
        let mut costs = Costs::default();
        for _ in 0..40 {
            for (ways, took) in (1..).zip(milliseconds) {
                costs.observe(ways, Duration::from_millis(*took));
            }
        }
        costs
    }

    #[test]
    fn as_many_ways_as_are_worth_their_time() {
        // Two ways at once take half as long again, as measured with the default pair's edge on two
        // cores; three take twice as long.
        let here = costs(&[8, 12, 16]);
        for (likely, ways) in [
            (&[0.5, 0.2, 0.1][..], 1),
            (&[0.4, 0.3, 0.1], 2),
            (&[0.3, 0.28, 0.26], 3),
            (&[0.9], 1),
            (&[], 0),
        ] {
            assert_eq!(here.worth(likely), ways, "{likely:?}");
        }
        // Where a batch costs nothing more, everything is worth it; where it costs all, nothing is.
        assert_eq!(costs(&[8, 8, 8]).worth(&[0.9, 0.05, 0.01]), 3);
        assert_eq!(costs(&[8, 16, 24]).worth(&[0.4, 0.39, 0.38]), 1);
    }

    #[test]
    fn what_was_not_seen_is_guessed() {
        assert_eq!(Costs::default().worth(&[0.4, 0.3]), 2);
        assert_eq!(Costs::default().worth(&[0.4, 0.1]), 1);
        let mut costs = Costs::default();
        // A batch tells nothing without a step to compare it with.
        costs.observe(2, Duration::from_secs(9));
        assert_eq!(costs.worth(&[0.4, 0.3]), 2);
        costs.observe(1, Duration::from_millis(8));
        assert_eq!(costs.worth(&[0.4, 0.3]), 2);
        // One slow batch is no reason never to try again.
        costs.observe(2, Duration::from_millis(16));
        assert_eq!(costs.worth(&[0.4, 0.3]), 2);
        (0..20).for_each(|_| costs.observe(2, Duration::from_millis(16)));
        assert_eq!(costs.worth(&[0.4, 0.3]), 1);
    }
}
