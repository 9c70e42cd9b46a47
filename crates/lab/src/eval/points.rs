//! What is measured: small, every router at every budget or threshold and network, verify, large.

use std::collections::HashSet;

use cloud::Delay;
use decode::{Budget, Threshold, ThresholdPolicy};
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
}

#[derive(Clone, Debug)]
pub struct Points {
    /// Routers, the most interesting first: the others are compared with it.
    pub routers: Vec<NamedRouter>,
    pub targets: Vec<Target>,
    /// Whether asking at random is measured beside every target.
    pub random: bool,
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
    let name = match network {
        Some(delay) => format!("{name} rtt {}ms", milliseconds(delay)),
        None => name,
    };
    Point {
        name,
        mode,
        router: router.map(ToString::to_string),
        router_digest: router.and_then(|router| router.digest().map(String::from)),
        rtt_ms: network.map(milliseconds),
        ..Point::default()
    }
}

fn small(router: &NamedRouter) -> Run {
    let point = point("small".into(), Mode::Small, Some(router), None);
    Run { point, router: router.clone(), policy: Threshold::NEVER.into() }
}

/// A text of the large model's own, in mode large or verify.
fn own_text(mode: Mode, network: Option<&Delay>) -> Run {
    let point = point(mode.to_string(), mode, None, network);
    Run { point, router: RouterKind::Always.into(), policy: Threshold::ALWAYS.into() }
}

fn joint(router: &NamedRouter, target: Target, network: Option<&Delay>) -> Run {
    let (name, policy, budget, threshold) = match target {
        Target::Budget(share) => {
            let table = router.table().iter().copied();
            let policy = ThresholdPolicy::budget(Budget::new(share.value(), table));
            (format!("{router} {share}"), policy, Some(share.value()), None)
        }
        Target::Threshold(tau) => {
            (format!("{router} τ {}", tau.value()), tau.into(), None, Some(tau.value()))
        }
    };
    let point = Point { budget, threshold, ..point(name, Mode::Joint, Some(router), network) };
    Run { point, router: router.clone(), policy }
}

/// At random: at the budget, or at the share that the first router has at this threshold.
fn random(target: Target, like: String, network: Option<&Delay>) -> Run {
    let mut run = joint(&RouterKind::Random(None).into(), target, network);
    if let Target::Threshold(_) = target {
        run.point.name = format!("random like {like}");
        run.point.threshold = None;
        run.point.like = Some(like);
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
            random: true,
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
    fn two_routers_of_one_name_are_refused() {
        let refused = names(&[RouterKind::Top1, RouterKind::Top1]).unwrap_err();
        assert!(refused.is_usage() && refused.to_string().contains("top1 7%"), "{refused}");
    }
}
