//! Leaves a cloud alone that keeps failing, and tries it again now and then.
//!
//! *Closed*: asks pass. After a few failures in a row, or one that took long, it is *open*: asks
//! fail at once. When the pause is over one ask passes as a probe (*half-open*): if it succeeds the
//! breaker closes, if not the pause doubles.

use std::time::{Duration, Instant};

use decode::CloudError;

/// Failures in a row that open it.
const MAX_FAILURES: u32 = 3;

/// The first pause, and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, pause: Duration },
    HalfOpen { pause: Duration },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    last: Option<CloudError>,
    /// When the last failure was counted.
    failed: Option<Instant>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed { failures: 0 }, last: None, failed: None }
    }
}

impl Breaker {
    /// Whether an ask may pass now; if not, for how long not.
    pub fn admit(&mut self, now: Instant) -> Result<(), CloudError> {
        let State::Open { until, pause } = self.state else { return Ok(()) };
        let left = until.saturating_duration_since(now);
        if left.is_zero() {
            self.state = State::HalfOpen { pause };
            return Ok(());
        }
        let last = Box::new(self.last.clone().unwrap_or(CloudError::NotOpened));
        Err(CloudError::CircuitOpen { left, last })
    }

    /// Whether the ask that was admitted is to find out whether the cloud is back.
    pub fn is_probing(&self) -> bool {
        matches!(self.state, State::HalfOpen { .. })
    }

    /// Whether nothing failed since the last success.
    pub fn is_well(&self) -> bool {
        matches!(self.state, State::Closed { failures: 0 })
    }

    /// Whether it failed, and may be tried again.
    pub fn is_due(&self, now: Instant) -> bool {
        match self.state {
            State::Closed { failures } => failures > 0,
            State::Open { until, .. } => until <= now,
            State::HalfOpen { .. } => true,
        }
    }

    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Counts the failure of an ask that was begun at `begun`. Asks that were on their way together
    /// failed of one cause, which counts once.
    pub fn failed(&mut self, begun: Instant, now: Instant, error: &CloudError) {
        if self.failed.is_some_and(|failed| begun < failed) {
            return;
        }
        self.failed = Some(now);
        self.last = Some(error.clone());
        let (failures, next) = match self.state {
            State::Closed { failures } => (failures + 1, PAUSE),
            State::Open { pause, .. } | State::HalfOpen { pause } => {
                (MAX_FAILURES, (pause * 2).min(MAX_PAUSE))
            }
        };
        self.state = match error {
            // The server's own word.
            CloudError::Refused { retry_after: Some(pause), .. } => {
                State::Open { until: now + *pause, pause: next }
            }
            // Waiting for nothing once more would cost as long again.
            CloudError::TimedOut { .. } => State::Open { until: now + next, pause: next },
            _ if failures >= MAX_FAILURES => State::Open { until: now + next, pause: next },
            _ => State::Closed { failures },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> CloudError {
        CloudError::Unreachable { url: "x".into(), reason: "reset".into() }
    }

    #[test]
    fn a_few_failures_open_it_and_a_probe_closes_it() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..MAX_FAILURES {
            assert!(breaker.admit(start).is_ok());
            breaker.failed(start, start, &lost());
        }
        let refused = breaker.admit(start + PAUSE / 2);
        assert!(matches!(&refused, Err(CloudError::CircuitOpen { left, last })
            if *left == PAUSE / 2 && **last == lost()));
        assert!(breaker.admit(start + PAUSE).is_ok());
        breaker.succeeded();
        assert!(breaker.admit(start + PAUSE).is_ok());
    }

    #[test]
    fn asks_that_fail_together_count_once() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        let later = start + PAUSE;
        for _ in 0..MAX_FAILURES * 2 {
            breaker.failed(start, later, &lost());
        }
        assert!(breaker.admit(later).is_ok());
        (1..MAX_FAILURES).for_each(|_| breaker.failed(later, later, &lost()));
        assert!(breaker.admit(later).is_err());
    }

    #[test]
    fn a_failed_probe_doubles_the_pause_up_to_a_limit() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..MAX_FAILURES {
            breaker.failed(now, now, &lost());
        }
        let mut pauses = vec![];
        for _ in 0..8 {
            let Err(CloudError::CircuitOpen { left, .. }) = breaker.admit(now) else { panic!() };
            pauses.push(left);
            now += left;
            assert!(breaker.admit(now).is_ok());
            breaker.failed(now, now, &lost());
        }
        assert_eq!(pauses[..3], [PAUSE, PAUSE * 2, PAUSE * 4]);
        assert_eq!(pauses[7], MAX_PAUSE);
    }

    #[test]
    fn a_late_answer_opens_it_at_once() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let late = CloudError::TimedOut { url: "x".into(), after: Duration::from_secs(9) };
        breaker.failed(now, now, &late);
        assert!(breaker.admit(now).is_err() && !breaker.is_probing());
        assert!(breaker.admit(now + PAUSE).is_ok() && breaker.is_probing());
    }

    #[test]
    fn the_servers_own_pause_is_kept() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let retry_after = Some(Duration::from_secs(7));
        let busy = CloudError::Refused { status: 429, message: "busy".into(), retry_after };
        breaker.failed(now, now, &busy);
        assert!(breaker.admit(now + Duration::from_millis(6999)).is_err());
        assert!(breaker.admit(now + Duration::from_secs(7)).is_ok());
    }

    #[test]
    fn one_success_forgets_earlier_failures() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 {
            breaker.failed(now, now, &lost());
            breaker.succeeded();
        }
        assert!(breaker.admit(now).is_ok());
    }
}
