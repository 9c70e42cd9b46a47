//! A network as a setting: delay, jitter and loss that repeat.

use std::{
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use decode::sampling;
use tokio::time::sleep;

/// What a lost packet costs at least: no system sends it again sooner.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// The most times one packet is lost in a row.
const MAX_RETRANSMISSIONS: u32 = 5;

/// `RTT[:JITTER][:LOSS]`, as in `170ms`, `170ms:20ms` or `170ms:20ms:1%`.
///
/// Jitter spreads each round trip evenly by that much to both sides. A lost packet does not lose an
/// answer, as TCP sends it again: it costs the time until then, twice as long each time it is lost
/// again. The same request gets the same delay in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    rtt: Duration,
    jitter: Duration,
    loss: f64,
}

impl Delay {
    /// The mean way there and back, without loss.
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// The delay of request number `request`.
    pub fn of(&self, request: usize) -> Duration {
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
pub(crate) struct Network(Arc<Mutex<(Option<Delay>, usize)>>);

impl Network {
    /// Simulates this from the next request on.
    pub fn simulate(&self, delay: Option<Delay>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = delay;
    }

    /// Takes as long as one way there and back takes longer than it really does.
    pub async fn wait(&self) {
        let delay = {
            let mut network = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            network.1 += 1;
            network.0.map(|delay| delay.of(network.1 - 1))
        };
        if let Some(delay) = delay {
            sleep(delay).await;
        }
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write RTT[:JITTER][:LOSS] of at most an hour, as in 170ms, 170ms:20ms or \
                          170ms:20ms:1%"
        };
        let mut delay = Self::default();
        for (i, part) in text.split(':').enumerate() {
            match (i, part.strip_suffix('%')) {
                (0, None) => delay.rtt = duration(part).ok_or_else(wrong)?,
                (1 | 2, Some(percent)) => {
                    let percent = percent.parse::<f64>().ok();
                    let percent = percent.filter(|p| (0.0..=100.0).contains(p));
                    delay.loss = percent.ok_or_else(wrong)? / 100.0;
                }
                (1, None) => delay.jitter = duration(part).ok_or_else(wrong)?,
                _ => return Err(wrong().into()),
            }
        }
        Ok(delay)
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

    #[test]
    fn what_users_write() {
        let plain: Delay = "170ms".parse().unwrap();
        assert_eq!(plain, Delay { rtt: ms(170), ..Delay::default() });
        let full: Delay = "0.1s:20ms:1%".parse().unwrap();
        assert_eq!(full, Delay { rtt: ms(100), jitter: ms(20), loss: 0.01 });
        assert_eq!("50:2%".parse::<Delay>().unwrap().loss, 0.02);
        for bad in ["", "fast", "-1ms", "170ms:20ms:1%:2", "170ms:20ms:200%", "5%", "1e99s"] {
            assert!(bad.parse::<Delay>().is_err(), "{bad}");
        }
    }

    #[test]
    fn delays_repeat_and_spread_as_told() {
        let delay: Delay = "100ms:20ms".parse().unwrap();
        let all: Vec<_> = (0..1000).map(|ask| delay.of(ask)).collect();
        assert!(all.iter().all(|d| (ms(80)..=ms(120)).contains(d)));
        let mean = all.iter().sum::<Duration>() / 1000;
        assert!((ms(98)..ms(102)).contains(&mean), "{mean:?}");
        assert_eq!(all[7], delay.of(7));
        assert!(all[7] != all[8]);
    }

    #[test]
    fn loss_costs_retransmissions() {
        let delay: Delay = "10ms:0ms:10%".parse().unwrap();
        let slow = (0..1000).filter(|&ask| delay.of(ask) > ms(200)).count();
        assert!((70..130).contains(&slow), "{slow}");
        let certain: Delay = "10ms:0ms:100%".parse().unwrap();
        assert!(certain.of(0) < Duration::from_secs(10));
    }
}
