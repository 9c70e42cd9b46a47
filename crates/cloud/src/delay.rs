//! A network as a setting: delay, jitter and loss that repeat, and that may change with time.

use std::{
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use decode::sampling;
use tokio::time::sleep;

/// What a lost packet costs at least: no system sends it again sooner.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// The most times one packet is lost in a row.
const MAX_RETRANSMISSIONS: u32 = 5;

/// `RTT[:JITTER][:LOSS]`, as in `170ms`, `170ms:20ms` or `170ms:20ms:1%`; or several with the time that
/// each lasts, as in `20ms/5s,400ms/5s`, which take turns for ever.
///
/// Jitter spreads each round trip evenly by that much to both sides. A lost packet does not lose an
/// answer, as TCP sends it again: it costs the time until then, twice as long each time it is lost
/// again. The same request gets the same delay in every run, if it is made at the same time where that
/// counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    /// One that lasts, or some with a time each.
    phases: Arc<[Phase]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Phase {
    rtt: Duration,
    jitter: Duration,
    loss: f64,
    /// Until the next takes over.
    lasts: Option<Duration>,
}

impl Delay {
    /// The mean way there and back, without loss.
    pub fn rtt(&self) -> Duration {
        let (mut sum, mut all) = (0.0, 0.0);
        for phase in self.phases.iter() {
            let lasts = phase.lasts.map_or(1.0, |lasts| lasts.as_secs_f64());
            sum += phase.rtt.as_secs_f64() * lasts;
            all += lasts;
        }
        Duration::try_from_secs_f64(sum / all).unwrap_or_default()
    }

    /// The networks that a list means: delays with a time are one network that changes, delays without
    /// are a network each.
    pub fn networks(list: &[Self]) -> Result<Vec<Self>, String> {
        let phases = || list.iter().flat_map(|delay| delay.phases.iter());
        match phases().filter(|phase| phase.lasts.is_some()).count() {
            0 => Ok(list.to_vec()),
            timed if timed == phases().count() => {
                Ok(vec![Self { phases: phases().copied().collect() }])
            }
            _ => Err(UNTIMED.into()),
        }
    }

    /// The delay of request number `request`, so long after the first.
    pub fn of(&self, request: usize, at: Duration) -> Duration {
        self.phase_at(at).map_or(Duration::ZERO, |phase| phase.of(request))
    }

    fn phase_at(&self, at: Duration) -> Option<&Phase> {
        let period: Duration = self.phases.iter().filter_map(|phase| phase.lasts).sum();
        if period.is_zero() {
            return self.phases.first();
        }
        let since = at.as_nanos() % period.as_nanos();
        let mut left = u64::try_from(since).map_or(Duration::ZERO, Duration::from_nanos);
        self.phases.iter().find(|phase| {
            let lasts = phase.lasts.unwrap_or_default();
            let here = left < lasts;
            left = left.saturating_sub(lasts);
            here
        })
    }
}

impl Phase {
    fn of(&self, request: usize) -> Duration {
        let spread = sampling::uniform(0x6a69_7474_6572, request) * 2.0 - 1.0;
        let jittered = self.rtt.as_secs_f64() + spread * self.jitter.as_secs_f64();
        let mut delay = Duration::try_from_secs_f64(jittered).unwrap_or_default();
        let mut timeout = RETRANSMISSION.max(self.rtt * 2);
        for again in 0..MAX_RETRANSMISSIONS {
            if sampling::uniform(0x6c6f_7373 + u64::from(again), request) >= self.loss {
                break;
            }
            delay += timeout;
            timeout *= 2;
        }
        delay
    }
}

/// The network of one connection: every request passes through it, and it delays them if it is to
/// simulate a slower one. Clones are the same network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network(Arc<Mutex<Simulated>>);

#[derive(Debug, Default)]
struct Simulated {
    delay: Option<Delay>,
    requests: usize,
    /// When the first request passed through it as it is now.
    since: Option<Instant>,
}

impl Simulated {
    /// The delay of a request that is made now.
    fn next(&mut self, now: Instant) -> Option<Duration> {
        let request = self.requests;
        self.requests += 1;
        let since = *self.since.get_or_insert(now);
        Some(self.delay.as_ref()?.of(request, now.saturating_duration_since(since)))
    }
}

impl Network {
    /// Simulates this from the next request on.
    pub fn simulate(&self, delay: Option<Delay>) {
        let mut network = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (network.delay, network.since) = (delay, None);
    }

    /// Takes as long as one way there and back takes longer than it really does.
    pub async fn wait(&self) {
        let delay = self.0.lock().unwrap_or_else(PoisonError::into_inner).next(Instant::now());
        if let Some(delay) = delay {
            sleep(delay).await;
        }
    }
}

/// Said where a network that changes does not say when.
const UNTIMED: &str =
    "write how long each part of a network that changes lasts, as in 20ms/5s,400ms/5s";

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let phases = text.split(',').map(str::parse::<Phase>);
        let phases: Arc<[Phase]> = phases.collect::<Result<_, String>>()?;
        if phases.len() > 1 && phases.iter().any(|phase| phase.lasts.is_none()) {
            return Err(UNTIMED.into());
        }
        Ok(Self { phases })
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write RTT[:JITTER][:LOSS] of at most an hour, as in 170ms, 170ms:20ms or \
             170ms:20ms:1%, and /TIME behind it if it changes then"
        };
        let (network, lasts) = match text.split_once('/') {
            Some((network, lasts)) => (network, Some(lasts)),
            None => (text, None),
        };
        let mut phase = Self::default();
        if let Some(lasts) = lasts {
            let lasts = duration(lasts).filter(|lasts| !lasts.is_zero());
            phase.lasts = Some(lasts.ok_or_else(wrong)?);
        }
        for (i, part) in network.split(':').enumerate() {
            match (i, part.strip_suffix('%')) {
                (0, None) => phase.rtt = duration(part).ok_or_else(wrong)?,
                (1 | 2, Some(percent)) => {
                    let percent = percent.parse::<f64>().ok();
                    let percent = percent.filter(|p| (0.0..=100.0).contains(p));
                    phase.loss = percent.ok_or_else(wrong)? / 100.0;
                }
                (1, None) => phase.jitter = duration(part).ok_or_else(wrong)?,
                _ => return Err(wrong().into()),
            }
        }
        Ok(phase)
    }
}

/// Reads `170ms`, `1.5s` or a bare number of milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, scale) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1e-3),
    };
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    Duration::try_from_secs_f64(seconds).ok().filter(|d| *d <= Duration::from_secs(3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn delay(text: &str) -> Delay {
        text.parse().unwrap()
    }

    #[test]
    fn what_users_write() {
        let phase = |text: &str| delay(text).phases[0];
        assert_eq!(phase("170ms"), Phase { rtt: ms(170), ..Phase::default() });
        let full = Phase { rtt: ms(100), jitter: ms(20), loss: 0.01, lasts: None };
        assert_eq!(phase("0.1s:20ms:1%"), full);
        assert_eq!(phase("0.1s:20ms:1%/2s"), Phase { lasts: Some(ms(2000)), ..full });
        assert_eq!(phase("50:2%").loss, 0.02);
        let bad = ["", "fast", "-1ms", "170ms:20ms:1%:2", "170ms:20ms:200%", "5%", "1e99s"];
        let bad_times =
            ["20ms/", "20ms/0s", "20ms/5s/5s", "/5s", "20ms,400ms", "20ms/5s,400ms", ","];
        for bad in bad.into_iter().chain(bad_times) {
            assert!(bad.parse::<Delay>().is_err(), "{bad}");
        }
    }

    #[test]
    fn delays_repeat_and_spread_as_told() {
        let delay = delay("100ms:20ms");
        let all: Vec<_> = (0..1000).map(|ask| delay.of(ask, Duration::ZERO)).collect();
        assert!(all.iter().all(|d| (ms(80)..=ms(120)).contains(d)));
        let mean = all.iter().sum::<Duration>() / 1000;
        assert!((ms(98)..ms(102)).contains(&mean), "{mean:?}");
        assert_eq!(all[7], delay.of(7, ms(99_999)));
        assert!(all[7] != all[8]);
    }

    #[test]
    fn loss_costs_retransmissions() {
        let some = delay("10ms:0ms:10%");
        let slow = (0..1000).filter(|&ask| some.of(ask, Duration::ZERO) > ms(200)).count();
        assert!((70..130).contains(&slow), "{slow}");
        assert!(delay("10ms:0ms:100%").of(0, Duration::ZERO) < Duration::from_secs(10));
    }

    #[test]
    fn parts_with_a_time_take_turns() {
        let changing = delay("20ms/5s,400ms/1s,60s/60s");
        for (at, expected) in [
            (0, 20),
            (4_999, 20),
            (5_000, 400),
            (5_999, 400),
            (6_000, 60_000),
            (65_999, 60_000),
            (66_000, 20),
            (66_000 * 1000 + 5_500, 400),
        ] {
            assert_eq!(changing.of(3, ms(at)), ms(expected), "at {at} ms");
        }
        assert_eq!(delay("20ms/5s,400ms/5s").rtt(), ms(210));
        assert_eq!(delay("20ms/3s,400ms/1s").rtt(), ms(115));
        assert_eq!(delay("170ms").rtt(), ms(170));
    }

    #[test]
    fn a_list_is_one_network_that_changes_or_several_that_do_not() {
        let networks = |list: &[&str]| {
            let list: Vec<_> = list.iter().map(|text| delay(text)).collect();
            Delay::networks(&list)
        };
        assert!(networks(&[]).unwrap().is_empty());
        assert_eq!(networks(&["0ms", "30ms"]).unwrap(), [delay("0ms"), delay("30ms")]);
        let changing = networks(&["20ms/5s", "400ms:1%/5s"]).unwrap();
        assert_eq!(changing, [delay("20ms/5s,400ms:1%/5s")]);
        assert!(networks(&["20ms/5s", "400ms"]).unwrap_err().contains("lasts"));
    }

    #[test]
    fn the_first_request_starts_the_clock() {
        let begun = Instant::now();
        let network = Network::default();
        let next = |at| network.0.lock().unwrap().next(begun + ms(at));
        network.simulate(Some(delay("20ms/1s,400ms/1s")));
        // Models are loaded before anything is asked.
        for (at, expected) in [(1500, 20), (2499, 20), (2500, 400), (3499, 400), (3500, 20)] {
            assert_eq!(next(at), Some(ms(expected)), "at {at} ms");
        }
        // It begins again where it is set again.
        network.simulate(Some(delay("20ms/1s,400ms/1s")));
        assert_eq!(next(4900), Some(ms(20)));
        network.simulate(None);
        assert_eq!(next(4950), None);
    }
}
