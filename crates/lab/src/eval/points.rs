//! What is measured: small, every router at every budget, threshold or pace and network, oracles, verify,
//! large.

use std::{collections::HashSet, fmt, str::FromStr, time::Duration};

use cloud::Delay;
use decode::{Budget, Pace, Threshold, ThresholdPolicy};
use router::RouterKind;
use tandem::{Mode, NamedRouter, Share};

use super::{Point, Run};
use crate::Error;

/// Where a joint decode asks.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Near this share of tokens from the cloud.
    Budget(Share),
    /// Where trust is below this.
    Threshold(Threshold),
    /// As often as leaves this mean time between tokens, and at least at this share of them.
    Pace(Duration, Share),
}

/// How many times as likely as the large model's own choice the small model's has to be, for an oracle
/// to keep it: more than 0, and at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(f32);

impl Ratio {
    pub fn value(self) -> f32 {
        self.0
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ratio = text.trim().parse::<f32>().ok().filter(|ratio| *ratio > 0.0 && *ratio <= 1.0);
        ratio.map(Self).ok_or_else(|| {
            format!(
                "{text:?} is not a number above 0 and at most 1, such as 0.3: how likely a token \
                     has to be beside the large model's own choice"
            )
        })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Debug)]
pub struct Points {
    /// Routers, the most interesting first: the others are compared with it.
    pub routers: Vec<NamedRouter>,
    pub targets: Vec<Target>,
    /// Routers of whole answers, which choose between the answers of both models afterwards.
    pub query_routers: Vec<NamedRouter>,
    /// Whether asking at random is measured beside every target.
    pub random: bool,
    /// Oracles, which know what the large model thinks of every proposal of the small one: no router
    /// does better at the same share of tokens.
    pub oracles: Vec<Ratio>,
    pub large: bool,
    /// Whether mode verify is measured too: drafts of the small model, judged by the large one.
    pub verify: bool,
    /// Networks to simulate; without any, the one there is.
    pub networks: Vec<Delay>,
}

impl Points {
    /// In the order in which a question is answered.
    pub fn runs(&self) -> Result<Vec<Run>, Error> {
        let first = self.routers.first().ok_or_else(|| Error::usage("no router is named"))?;
        let networks: Vec<Option<&Delay>> = match self.networks.as_slice() {
            [] => vec![None],
            some => some.iter().map(Some).collect(),
        };
        // The first router watches the edge alone, so that its scores can be compared with the truth.
        let mut runs = vec![small(first)];
        for &network in &networks {
            for &target in &self.targets {
                for router in &self.routers {
                    runs.push(joint(router, target, network));
                }
                if self.random {
                    let like = runs[runs.len() - self.routers.len()].point.name.clone();
                    let random = random(target, like, network);
                    // It may have been named as a router too.
                    if runs.iter().all(|run| run.point.name != random.point.name) {
                        runs.push(random);
                    }
                }
            }
            runs.extend(self.oracles.iter().map(|&ratio| oracle(ratio, network)));
            if self.verify {
                runs.push(own_text(Mode::Verify, network));
            }
            if self.large {
                runs.push(own_text(Mode::Large, network));
            }
        }
        let mut names = HashSet::new();
        match runs.iter().find(|run| !names.insert(run.point.name.as_str())) {
            Some(Run { point: Point { name, .. }, .. }) => Err(Error::usage(format!(
                "{name:?} is measured twice: give router files different names"
            ))),
            None => Ok(runs),
        }
    }
}

fn point(name: String, mode: Mode, router: Option<&NamedRouter>, network: Option<&Delay>) -> Point {
    let changing = network.and_then(Delay::name).map(String::from);
    let name = match (network, &changing) {
        (_, Some(written)) => format!("{name} rtt {written}"),
        (Some(delay), None) => format!("{name} rtt {}ms", milliseconds(delay)),
        (None, None) => name,
    };
    Point {
        name,
        mode,
        router: router.map(ToString::to_string),
        router_digest: router.and_then(|router| router.digest().map(String::from)),
        rtt_ms: network.map(milliseconds),
        network: changing,
        ..Point::default()
    }
}

fn small(router: &NamedRouter) -> Run {
    let point = point("small".into(), Mode::Small, Some(router), None);
    Run { point, router: router.clone(), policy: Threshold::NEVER.into(), network: None }
}

/// A text of the large model's own, in mode large or verify.
fn own_text(mode: Mode, network: Option<&Delay>) -> Run {
    let point = point(mode.to_string(), mode, None, network);
    let (router, policy) = (RouterKind::Always.into(), Threshold::ALWAYS.into());
    Run { point, router, policy, network: network.cloned() }
}

/// A text in which the large model's tokens stand where the small one's are less likely than that.
fn oracle(ratio: Ratio, network: Option<&Delay>) -> Run {
    let mut run = own_text(Mode::Verify, network);
    let named = point(format!("oracle {ratio}"), Mode::Verify, None, network);
    run.point = Point { oracle: Some(ratio.value()), ..named };
    run
}

fn joint(router: &NamedRouter, target: Target, network: Option<&Delay>) -> Run {
    let budget = |share: f32| Budget::new(share, router.table().iter().copied());
    let of = |name: String| point(name, Mode::Joint, Some(router), network);
    let (point, policy) = match target {
        Target::Budget(share) => {
            let point = Point { budget: Some(share.value()), ..of(format!("{router} {share}")) };
            (point, ThresholdPolicy::budget(budget(share.value())))
        }
        Target::Threshold(tau) => {
            let value = tau.value();
            let name = format!("{router} τ {value}");
            (Point { threshold: Some(value), ..of(name) }, tau.into())
        }
        Target::Pace(aim, least) => {
            // Without the noise of a division.
            let ms = (aim.as_secs_f64() * 1e6).round() / 1e3;
            let name = format!("{router} pace {ms}ms from {least}");
            let (pace_ms, least_share) = (Some(ms), Some(least.value()));
            let pace = Pace::new(aim, least.value());
            let point = Point { pace_ms, least_share, ..of(name) };
            (point, ThresholdPolicy::budget(budget(1.0).paced(pace)))
        }
    };
    Run { point, router: router.clone(), policy, network: network.cloned() }
}

/// At random: at the budget, or at the share that the first router has at this threshold or pace.
fn random(target: Target, like: String, network: Option<&Delay>) -> Run {
    let mut run = joint(&RouterKind::Random(None).into(), target, network);
    if let Target::Threshold(_) | Target::Pace(..) = target {
        // Its share is the other's, so it has no aim of its own.
        run.policy = Threshold::NEVER.into();
        run.point = Point {
            name: format!("random like {like}"),
            threshold: None,
            pace_ms: None,
            least_share: None,
            like: Some(like),
            ..run.point
        };
    }
    run
}

fn milliseconds(delay: &Delay) -> f64 {
    delay.rtt().as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(routers: &[RouterKind]) -> Result<Vec<String>, Error> {
        let target = |text: &str| Target::Budget(text.parse().unwrap());
        let points = Points {
            routers: routers.iter().map(|&kind| kind.into()).collect(),
            targets: vec![target("7%"), target("15%")],
            query_routers: vec![],
            random: true,
            oracles: vec![],
            large: true,
            verify: true,
            networks: vec![],
        };
        Ok(points.runs()?.into_iter().map(|run| run.point.name).collect())
    }

    #[test]
    fn random_as_a_router_and_as_the_baseline_is_measured_once() {
        let names = names(&[RouterKind::Top1, RouterKind::Random(None)]).unwrap();
        let expected =
            ["small", "top1 7%", "random 7%", "top1 15%", "random 15%", "verify", "large"]
                .map(String::from);
        assert_eq!(names, expected);
    }

    #[test]
    fn paces_oracles_and_networks_have_points_of_their_own() {
        let share = "2%".parse().unwrap();
        let networks = ["20ms/5s", "dead/1s"].map(|text| text.parse::<Delay>().unwrap());
        let points = Points {
            routers: vec![RouterKind::Top1.into()],
            targets: vec![Target::Pace(Duration::from_millis(120), share)],
            query_routers: vec![],
            random: true,
            oracles: ["0.05", "1"].map(|text| text.parse().unwrap()).to_vec(),
            large: true,
            verify: false,
            networks: Delay::networks(&networks).unwrap(),
        };
        let runs = points.runs().unwrap();
        let network = " rtt 20ms/5s,dead/1s";
        let paced = format!("top1 pace 120ms from 2%{network}");
        let oracles = ["oracle 0.05", "oracle 1", "large"].map(|name| format!("{name}{network}"));
        let mut expected = vec!["small".into(), paced.clone(), format!("random like {paced}")];
        expected.extend(oracles);
        let names: Vec<_> = runs.iter().map(|run| run.point.name.clone()).collect();
        assert_eq!(names, expected);
        let aim = |run: &Run| run.policy.current_budget().and_then(|b| Some(b.pace()?.aim()));
        assert_eq!(aim(&runs[1]), Some(Duration::from_millis(120)));
        assert_eq!((runs[1].point.pace_ms, runs[2].point.pace_ms), (Some(120.0), None));
        assert_eq!(runs[2].point.like, Some(paced));
        assert_eq!(runs[4].point.oracle, Some(1.0));
        assert!(runs[0].network.is_none() && runs[1].network.is_some());
    }

    #[test]
    fn a_ratio_is_above_0_and_at_most_1() {
        for bad in ["0", "-1", "1.1", "nan", "x"] {
            assert!(bad.parse::<Ratio>().is_err(), "{bad}");
        }
    }

    #[test]
    fn two_routers_of_one_name_are_refused() {
        let refused = names(&[RouterKind::Top1, RouterKind::Top1]).unwrap_err();
        assert!(refused.is_usage() && refused.to_string().contains("top1 7%"), "{refused}");
    }
}
