//! A network as a setting: delay, jitter and loss that repeat, and that may change with time.

use std::{
    fs,
    path::Path,
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
/// each lasts, as in `20ms/5s,400ms/5s`, which take turns for ever. Bursts of loss are
/// `170ms/9s,170ms:50%/3s`. `dead` in place of a round trip lets nothing through while it lasts, as in
/// `170ms/30s,dead/60s`. `@FILE` has recorded round trips, one a line: each request takes the next one, or
/// each line lasts as long as in `@FILE/1s`.
///
/// Jitter spreads each round trip evenly by that much to both sides. A lost packet does not lose an
/// answer, as TCP sends it again: it costs the time until then, twice as long each time it is lost
/// again. What is sent into a dead network arrives once it is back, if nobody gives it up before. The
/// same request gets the same delay in every run, if it is made at the same time where that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    course: Course,
    /// As it was written, for people.
    written: String,
    /// What has passed before the first request of this connection.
    before: Passed,
}

/// How a network goes on.
#[derive(Clone, Debug, PartialEq)]
enum Course {
    /// One that lasts, or some with a time each.
    Phases(Arc<[Phase]>),
    /// The round trip of one request after the other, again and again.
    Recorded(Arc<[Duration]>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Passed {
    time: Duration,
    requests: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Phase {
    /// `None` while nothing gets through.
    rtt: Option<Duration>,
    jitter: Duration,
    loss: f64,
    /// Until the next takes over.
    lasts: Option<Duration>,
}

impl Delay {
    /// The mean way there and back, without loss, while anything gets through.
    pub fn rtt(&self) -> Duration {
        let weighed: Vec<(Duration, f64)> = match &self.course {
            Course::Recorded(times) => times.iter().map(|&rtt| (rtt, 1.0)).collect(),
            Course::Phases(phases) => {
                let weight = |phase: &Phase| phase.lasts.map_or(1.0, |lasts| lasts.as_secs_f64());
                phases.iter().filter_map(|phase| Some((phase.rtt?, weight(phase)))).collect()
            }
        };
        let all: f64 = weighed.iter().map(|(_, weight)| weight).sum();
        let sum: f64 = weighed.iter().map(|(rtt, weight)| rtt.as_secs_f64() * weight).sum();
        Duration::try_from_secs_f64(sum / all).unwrap_or_default()
    }

    /// How it was written, where more than the mean round trip tells it from another.
    pub fn name(&self) -> Option<&str> {
        let plain = match &self.course {
            Course::Recorded(_) => false,
            Course::Phases(phases) => {
                phases.iter().all(|phase| *phase == Phase { rtt: phase.rtt, ..Phase::default() })
            }
        };
        (!plain).then_some(&self.written)
    }

    /// Whether there are times at which nothing gets through.
    pub fn goes_dead(&self) -> bool {
        match &self.course {
            Course::Phases(phases) => phases.iter().any(|phase| phase.rtt.is_none()),
            Course::Recorded(_) => false,
        }
    }

    /// The same network, after so much time and so many requests.
    pub fn after(self, time: Duration, requests: usize) -> Self {
        Self { before: Passed { time, requests }, ..self }
    }

    /// The networks that a list means: delays with a time are one network that changes, delays without
    /// are a network each.
    pub fn networks(list: &[Self]) -> Result<Vec<Self>, String> {
        let phases: Vec<Phase> = list.iter().flat_map(Self::phases).copied().collect();
        let timed = phases.iter().filter(|phase| phase.lasts.is_some()).count();
        let recorded = list.iter().any(|delay| matches!(delay.course, Course::Recorded(_)));
        if timed == 0 {
            return Ok(list.to_vec());
        }
        if timed < phases.len() || recorded {
            return Err(UNTIMED.into());
        }
        let written: Vec<&str> = list.iter().map(|delay| delay.written.as_str()).collect();
        Self::of_phases(phases, written.join(",")).map(|delay| vec![delay])
    }

    fn phases(&self) -> &[Phase] {
        match &self.course {
            Course::Phases(phases) => phases,
            Course::Recorded(_) => &[],
        }
    }

    fn of_phases(phases: Vec<Phase>, written: String) -> Result<Self, String> {
        if phases.len() > 1 && phases.iter().any(|phase| phase.lasts.is_none()) {
            return Err(UNTIMED.into());
        }
        let course = Course::Phases(phases.into());
        Ok(Self { course, written, before: Passed::default() })
    }

    /// The delay of request number `request`, so long after the first.
    pub fn of(&self, request: usize, at: Duration) -> Duration {
        let (request, at) = (request + self.before.requests, at + self.before.time);
        match &self.course {
            Course::Recorded(times) => {
                times.get(request % times.len().max(1)).copied().unwrap_or_default()
            }
            Course::Phases(phases) => through(phases, request, at),
        }
    }
}

/// The delay of a request at this time: whatever is left of a dead time, and then its way.
fn through(phases: &[Phase], request: usize, at: Duration) -> Duration {
    let period: Duration = phases.iter().filter_map(|phase| phase.lasts).sum();
    let since = if period.is_zero() { 0 } else { at.as_nanos() % period.as_nanos() };
    let mut since = u64::try_from(since).map_or(Duration::ZERO, Duration::from_nanos);
    let is_over = |phase: &&Phase| {
        let over = phase.lasts.filter(|lasts| *lasts <= since);
        since -= over.unwrap_or_default();
        over.is_some()
    };
    let past = phases.iter().take_while(is_over).count();
    let mut waited = Duration::ZERO;
    for phase in phases.iter().cycle().skip(past).take(phases.len()) {
        match phase.rtt {
            Some(rtt) => return waited + phase.way(rtt, request),
            None => waited += phase.lasts.unwrap_or_default().saturating_sub(since),
        }
        since = Duration::ZERO;
    }
    waited
}

impl Phase {
    /// The delay of a request where a round trip takes this long.
    fn way(&self, rtt: Duration, request: usize) -> Duration {
        let spread = sampling::uniform(0x6a69_7474_6572, request) * 2.0 - 1.0;
        let jittered = rtt.as_secs_f64() + spread * self.jitter.as_secs_f64();
        let mut delay = Duration::try_from_secs_f64(jittered).unwrap_or_default();
        let mut timeout = RETRANSMISSION.max(rtt * 2);
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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Simulated { delay, ..Simulated::default() };
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
const UNTIMED: &str = "write how long each part of a network that changes lasts, as in \
                       20ms/5s,400ms/5s; recorded times of single requests, as in @FILE, stand alone";

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut phases = vec![];
        for part in text.split(',') {
            let Some(recording) = part.strip_prefix('@') else {
                phases.push(part.parse()?);
                continue;
            };
            let (path, lasts) = match recording.rsplit_once('/') {
                // Else it is the end of a path.
                Some((path, lasts)) if lasts.ends_with('s') && duration(lasts).is_some() => {
                    (path, Some(time_of(lasts)?))
                }
                _ => (recording, None),
            };
            let times = recorded(Path::new(path))?;
            match lasts {
                Some(_) => phases.extend(times.into_iter().map(|rtt| Phase {
                    rtt: Some(rtt),
                    lasts,
                    ..Phase::default()
                })),
                None if part == text => {
                    let (course, written) = (Course::Recorded(times.into()), text.to_owned());
                    return Ok(Self { course, written, before: Passed::default() });
                }
                None => return Err(UNTIMED.into()),
            }
        }
        Self::of_phases(phases, text.to_owned())
    }
}

/// The round trips in a file, one a line.
fn recorded(path: &Path) -> Result<Vec<Duration>, String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|e| format!("the recorded times in {shown} cannot be read: {e}"))?;
    let mut times = vec![];
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        times.push(duration(line.trim()).ok_or_else(|| {
            format!(
                "{shown} line {number}: {line:?} is not a time of at most an hour; write one a line, \
                 as in 170ms, 0.17s or 170"
            )
        })?);
    }
    if times.is_empty() {
        return Err(format!("{shown} holds no recorded times: write one a line, as in 170ms"));
    }
    Ok(times)
}

const WRONG: &str = "write RTT[:JITTER][:LOSS] of at most an hour, as in 170ms, 170ms:20ms or \
                     170ms:20ms:1%, with /TIME behind it if it changes then; dead/TIME lets nothing \
                     through for so long, and @FILE has recorded times, one a line";

/// How long a part of a network lasts.
fn time_of(lasts: &str) -> Result<Duration, String> {
    duration(lasts).filter(|lasts| !lasts.is_zero()).ok_or_else(|| WRONG.into())
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || WRONG.to_owned();
        let (network, lasts) = match text.split_once('/') {
            Some((network, lasts)) => (network, Some(time_of(lasts)?)),
            None => (text, None),
        };
        if network == "dead" {
            // For ever, no text would ever have its answer.
            return match lasts {
                Some(_) => Ok(Self { lasts, ..Self::default() }),
                None => Err("write how long the network is dead, as in 170ms/30s,dead/60s".into()),
            };
        }
        let mut phase = Self { lasts, ..Self::default() };
        for (i, part) in network.split(':').enumerate() {
            match (i, part.strip_suffix('%')) {
                (0, None) => phase.rtt = Some(duration(part).ok_or_else(wrong)?),
                (1 | 2, Some(percent)) => {
                    let percent = percent.parse::<f64>().ok();
                    let percent = percent.filter(|p| (0.0..=100.0).contains(p));
                    phase.loss = percent.ok_or_else(wrong)? / 100.0;
                }
                (1, None) => phase.jitter = duration(part).ok_or_else(wrong)?,
                _ => return Err(wrong()),
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
mod tests;
