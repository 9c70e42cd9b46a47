//! A mean time between tokens that a policy aims at, whatever the network does.
//!
//! A token of the edge's takes its step, one of the cloud's the part of a round trip that was waited
//! for. Both are watched, and so is what was won or lost against the aim so far. The share of tokens
//! from the cloud that makes good for that, within some hundred tokens, follows by division; a
//! [`Budget`](crate::Budget) then keeps to it. Time that is hidden makes answers cheaper, and so more of
//! them are asked for.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::Source;

/// How much a token counts against those before it, by whether the cloud was asked for it. Asks are
/// rarer, and networks change from one second to the next.
const EDGE_RATE: f64 = 0.05;
const ASK_RATE: f64 = 0.2;

/// Over how many tokens it makes good for what was won or lost, and how much of that it remembers, in
/// the time of as many tokens: nobody wants to wait an hour because a minute was lost.
const HORIZON: f64 = 200.0;

/// How far from its aim a mean time is still the one that was aimed at.
const TOLERANCE: f64 = 0.15;

/// The share that an aim begins with, until both sides have been timed.
const FIRST_SHARE: f32 = 0.1;

/// Aims at a mean time between tokens.
#[derive(Clone, Debug)]
pub struct Pace {
    /// In seconds, as everything here.
    aim: f64,
    least_share: f32,
    state: PaceState,
}

/// What a pace has seen: enough for another one to continue from it. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaceState {
    /// What a token of the edge's takes, once one was timed.
    edge: Option<f64>,
    /// What a token takes for which the cloud was asked, once one was timed.
    ask: Option<f64>,
    /// What was won against the aim, and not yet spent.
    won: f64,
    tokens: usize,
    time: f64,
    /// At how many tokens the share would have had to be smaller than it may, and larger.
    too_dear: usize,
    too_cheap: usize,
    /// The share of tokens from the cloud that it led to last; `None` until both sides were timed.
    pub(crate) share: Option<f32>,
}

impl Pace {
    /// Aims at this time from one token to the next, with at least this share of tokens from the cloud,
    /// in 0..=1, however long its answers take.
    pub fn new(aim: Duration, least_share: f32) -> Self {
        let least_share = if least_share.is_nan() { 0.0 } else { least_share.clamp(0.0, 1.0) };
        Self { aim: aim.as_secs_f64(), least_share, state: PaceState::default() }
    }

    /// Continues from what another pace of the same aim has seen.
    pub fn resume(&mut self, state: PaceState) {
        self.state = state;
    }

    /// What [`resume`](Self::resume) needs to continue from here.
    pub fn state(&self) -> PaceState {
        self.state
    }

    /// The time that is aimed at.
    pub fn aim(&self) -> Duration {
        Duration::from_secs_f64(self.aim)
    }

    /// The time that tokens took; `None` before the first.
    pub fn mean(&self) -> Option<Duration> {
        let PaceState { tokens, time, .. } = self.state;
        // A state may come from a file.
        let mean = (tokens > 0).then(|| time / tokens as f64)?;
        Duration::try_from_secs_f64(mean).ok()
    }

    /// The share to begin with, where so much of the text may come from the cloud.
    pub(crate) fn first_share(&self, most: f32) -> f32 {
        FIRST_SHARE.max(self.least_share).min(most)
    }

    /// Takes note of tokens and the time since those before them. Returns the share of tokens from the
    /// cloud that leads to the aim; `None` until both sides are known.
    pub(crate) fn observe(
        &mut self,
        tokens: usize,
        source: Source,
        took: Duration,
        most: f32,
    ) -> Option<f32> {
        if tokens == 0 {
            return None;
        }
        let (count, took) = (tokens as f64, took.as_secs_f64());
        let state = &mut self.state;
        state.tokens += tokens;
        state.time += took;
        let (seen, rate) = match source {
            Source::Edge => (&mut state.edge, EDGE_RATE),
            // An ask that fails takes its time too.
            Source::Cloud | Source::Fallback => (&mut state.ask, ASK_RATE),
        };
        let before = seen.unwrap_or(took / count);
        *seen = Some(before + rate * (took / count - before));
        let most_won = HORIZON * self.aim;
        state.won = (state.won + self.aim * count - took).clamp(-most_won, most_won);
        let (edge, ask) = (state.edge?, state.ask?);
        let wanted = match ask - edge {
            dearer if dearer > 0.0 => (self.aim + state.won / HORIZON - edge) / dearer,
            _ => f64::INFINITY,
        };
        let least = self.least_share.min(most);
        state.too_dear += if wanted < f64::from(least) { tokens } else { 0 };
        state.too_cheap += if wanted > f64::from(most) { tokens } else { 0 };
        state.share = Some((wanted as f32).clamp(least, most));
        state.share
    }

    /// Why the mean time is not the one that is aimed at; `None` where it is.
    pub fn miss(&self) -> Option<Miss> {
        let mean = self.mean()?.as_secs_f64();
        if (mean / self.aim - 1.0).abs() <= TOLERANCE {
            return None;
        }
        let PaceState { edge, ask, tokens, too_dear, too_cheap, .. } = self.state;
        let time = |seen: Option<f64>| {
            Duration::try_from_secs_f64(seen.unwrap_or_default()).unwrap_or_default()
        };
        let often = |times: usize| times > tokens / 4;
        Some(if mean < self.aim {
            Miss::Faster { most_asked: often(too_cheap) }
        } else if edge.is_some_and(|edge| edge > self.aim) {
            Miss::SlowEdge { takes: time(edge) }
        } else if often(too_dear) && self.least_share > 0.0 {
            Miss::LeastShare { share: self.least_share, takes: time(ask) }
        } else {
            Miss::SlowAnswers { takes: time(ask) }
        })
    }
}

/// Why a mean time between tokens is not held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Miss {
    /// Tokens come sooner: there was no more to ask for, or no more was allowed.
    Faster {
        /// Whether the budget was what kept it from asking more.
        most_asked: bool,
    },
    /// The small model alone takes longer.
    SlowEdge {
        /// The mean time that it takes for a token.
        takes: Duration,
    },
    /// The least share of tokens that is to come from the cloud takes longer.
    LeastShare {
        /// The least share, as it was set.
        share: f32,
        /// The mean time that the cloud takes for an answer.
        takes: Duration,
    },
    /// Answers took, or failed after, so long that it could not be made good for.
    SlowAnswers {
        /// The mean time that the cloud takes for an answer.
        takes: Duration,
    },
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_secs_f64() * 1000.0;
        match self {
            Self::Faster { most_asked: true } => f.write_str("the budget allows no more asks"),
            Self::Faster { most_asked: false } => f.write_str("too little of the text is over"),
            Self::SlowEdge { takes } => {
                write!(f, "the small model alone takes {:.0} ms", ms(takes))
            }
            Self::LeastShare { share, takes } => write!(
                f,
                "{:.0} % are to come from the cloud, at {:.0} ms each",
                share * 100.0,
                ms(takes)
            ),
            Self::SlowAnswers { takes } => {
                write!(f, "asks took up to {:.0} ms, too long to make good for", ms(takes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Decision, Score, ThresholdPolicy, sampling};

    /// A made-up network: at a time, with luck in 0..1, how long an ask is waited for, and whether
    /// it is answered. In milliseconds.
    type Network = fn(f64, f64) -> (f64, bool);

    const STEADY: Network = |_, _| (170.0, true);
    const IN_TURN: Network = |at, _| (if at % 8000.0 < 4000.0 { 20.0 } else { 400.0 }, true);
    /// Every twelve seconds, three in which every second ask is lost and made again after a second.
    const BURSTS: Network = |at, luck| {
        let bad = at % 12_000.0 > 9000.0;
        (if luck < if bad { 0.5 } else { 0.01 } { 1170.0 } else { 170.0 }, true)
    };
    const DEAD_MINUTE: Network =
        |at, _| if (30e3..90e3).contains(&at) { (2000.0, false) } else { (170.0, true) };

    /// A step takes 10 ms; scores are drawn from a distribution that the table does not know.
    fn run(network: Network, policy: &ThresholdPolicy, power: f32, tokens: usize) -> Pace {
        let mut at = 0.0;
        for i in 0..tokens {
            let score = Score::new((sampling::uniform(7, i) as f32).powf(power));
            let (took, source) = match policy.threshold().decide(score) {
                Decision::Ask => match network(at, sampling::uniform(8, i)) {
                    (waited, true) => (10.0 + waited, Source::Cloud),
                    (waited, false) => (10.0 + waited, Source::Fallback),
                },
                Decision::Keep => (8.0 + 4.0 * sampling::uniform(9, i), Source::Edge),
            };
            at += took;
            policy.observe_time(1, source, Duration::from_secs_f64(took / 1000.0));
            policy.observe(1, source);
        }
        policy.current_budget().and_then(|budget| budget.pace().cloned()).unwrap()
    }

    fn paced(milliseconds: u64, least: f32, most: f32) -> ThresholdPolicy {
        let pace = Pace::new(Duration::from_millis(milliseconds), least);
        ThresholdPolicy::budget(Budget::new(most, []).paced(pace))
    }

    #[test]
    fn the_aim_is_held_on_networks_that_change() {
        for (name, network) in
            [("steady", STEADY), ("in turn", IN_TURN), ("bursts", BURSTS), ("dead", DEAD_MINUTE)]
        {
            for power in [0.5, 1.0, 2.0] {
                for aim in [25, 30] {
                    let pace = run(network, &paced(aim, 0.0, 1.0), power, 6000);
                    let told = format!("{name} {power} {aim}: {:?}", pace.mean());
                    assert_eq!(pace.miss(), None, "{told}");
                    let mean = pace.mean().unwrap().as_secs_f64() * 1000.0;
                    assert!((mean / aim as f64 - 1.0).abs() < 0.15, "{told}");
                }
            }
        }
    }

    /// A fixed threshold of the same share takes what the network takes.
    #[test]
    fn a_fixed_share_does_not_hold_it() {
        let mut time = 0.0;
        for i in 0..6000 {
            // What holds 30 ms with 170 ms, asked of 400 ms.
            let ask = sampling::uniform(7, i) < 20.0 / 170.0;
            time += if ask { 410.0 } else { 10.0 };
        }
        assert!(time / 6000.0 > 30.0 * 1.5);
        assert_eq!(run(|_, _| (400.0, true), &paced(30, 0.0, 1.0), 1.0, 6000).miss(), None);
    }

    #[test]
    fn it_says_why_it_cannot() {
        // The edge alone takes 10 ms.
        let slow = run(STEADY, &paced(5, 0.0, 1.0), 1.0, 4000).miss();
        assert!(matches!(slow, Some(Miss::SlowEdge { .. })), "{slow:?}");
        // A tenth of 170 ms is 17 ms on top.
        let floor = run(STEADY, &paced(20, 0.1, 1.0), 1.0, 4000);
        assert!(matches!(floor.miss(), Some(Miss::LeastShare { .. })), "{:?}", floor.miss());
        let mean = floor.mean().unwrap().as_secs_f64() * 1000.0;
        assert!((25.0..29.0).contains(&mean), "the floor is held: {mean}");
        // The budget allows a twentieth, which is 8.5 ms on top.
        let capped = paced(60, 0.0, 0.05);
        let miss = run(STEADY, &capped, 1.0, 4000).miss();
        assert_eq!(miss, Some(Miss::Faster { most_asked: true }));
        let share = capped.current_budget().and_then(|b| b.realised()).unwrap();
        assert!(share < 0.051, "{share}");
        // A cloud that is gone for good.
        let gone = run(|_, _| (5000.0, false), &paced(15, 0.0, 1.0), 1.0, 1000).miss();
        assert!(matches!(gone, Some(Miss::SlowAnswers { .. })), "{gone:?}");
    }

    #[test]
    fn a_pace_continues_from_a_saved_state() {
        let (one, other) = (paced(30, 0.0, 1.0), paced(30, 0.0, 1.0));
        run(IN_TURN, &one, 1.0, 2000);
        let state = one.current_budget().unwrap().state();
        assert!(state.pace.is_some_and(|pace| pace.tokens == 2000 && pace.share.is_some()));
        other.resume(state);
        for _ in 0..3 {
            assert_eq!(one.threshold(), other.threshold());
            for policy in [&one, &other] {
                policy.observe_time(1, Source::Cloud, Duration::from_millis(400));
                policy.observe(1, Source::Cloud);
            }
        }
        let budgets = [&one, &other].map(|policy| policy.current_budget().unwrap());
        assert_eq!(budgets[0].state(), budgets[1].state());
        assert_ne!(budgets[0].threshold(), paced(30, 0.0, 1.0).threshold());
    }

    #[test]
    fn a_dead_minute_is_not_asked_for_and_is_over_when_it_is_over() {
        let policy = paced(20, 0.0, 1.0);
        let pace = run(DEAD_MINUTE, &policy, 1.0, 12_000);
        assert_eq!(pace.miss(), None, "{:?}", pace.mean());
        // It asks again afterwards.
        assert!(policy.current_budget().unwrap().threshold().value() > 0.01);
    }
}
