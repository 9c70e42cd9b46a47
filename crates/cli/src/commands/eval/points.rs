//! What is measured: small, every router at every budget or threshold and network, large.

use std::collections::HashSet;

use cloud::Delay;
use decode::{Budget, Threshold, ThresholdPolicy};
use engine::LoadOptions;
use lab::eval::{Mode, Point, Run};
use router::RouterKind;

use crate::{
    args::{Baseline, EvalArgs},
    config::UsageError,
};
use tandem::{NamedRouter, Share, Store};

/// Where a joint decode asks.
#[derive(Clone, Copy)]
enum Aim {
    Budget(Share),
    Threshold(Threshold),
}

/// In the order in which a question is answered.
pub fn points(
    args: &EvalArgs,
    delays: &[Delay],
    own: &NamedRouter,
    edge: &LoadOptions,
) -> anyhow::Result<Vec<Run>> {
    let judges = judges(args, own, edge)?;
    let aims: Vec<Aim> = match args.threshold.as_slice() {
        [] => args.budget.iter().map(|&share| Aim::Budget(share)).collect(),
        some => some.iter().map(|&threshold| Aim::Threshold(threshold)).collect(),
    };
    let networks: Vec<Option<Delay>> = match delays {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let mut runs = vec![];
    // The first router watches the edge alone, so that its scores can be compared with the truth.
    runs.push(small(&judges[0]));
    for &network in &networks {
        for &aim in &aims {
            for judge in &judges {
                runs.push(joint(judge, aim, network));
            }
            if args.baseline.contains(&Baseline::Random) {
                let like = runs[runs.len() - judges.len()].point.name.clone();
                let random = random(aim, like, network);
                // It may have been named as a router too.
                if runs.iter().all(|run| run.point.name != random.point.name) {
                    runs.push(random);
                }
            }
        }
        if !args.no_large {
            runs.push(large(network));
        }
    }
    let mut names = HashSet::new();
    if let Some(twice) = runs.iter().find(|run| !names.insert(run.point.name.as_str())) {
        let name = &twice.point.name;
        let reason = format!("{name:?} is measured twice: give router files different names");
        return Err(UsageError(reason).into());
    }
    Ok(runs)
}

/// Those that were named, and the baselines.
fn judges(
    args: &EvalArgs,
    own: &NamedRouter,
    edge: &LoadOptions,
) -> anyhow::Result<Vec<NamedRouter>> {
    let store = Store::open()?;
    let mut judges: Vec<NamedRouter> = match args.router.as_slice() {
        [] => vec![own.clone()],
        some => {
            let choose = |router| NamedRouter::choose(Some(router), &store, edge);
            let chosen: Result<_, tandem::Error> = some.iter().map(choose).collect();
            chosen?
        }
    };
    for baseline in &args.baseline {
        let kind = match baseline {
            // By lot is a baseline of each aim.
            Baseline::Random | Baseline::None => continue,
            Baseline::Top1 => RouterKind::Top1,
            Baseline::Entropy => RouterKind::Entropy,
            Baseline::Margin => RouterKind::Margin,
        };
        if !judges.iter().any(|judge| judge.name() == kind.to_string()) {
            judges.push(kind.into());
        }
    }
    Ok(judges)
}

fn small(judge: &NamedRouter) -> Run {
    let point = Point {
        name: "small".into(),
        mode: Mode::Small,
        router: Some(judge.to_string()),
        router_digest: judge.digest().map(String::from),
        budget: None,
        threshold: None,
        like: None,
        rtt_ms: None,
    };
    let judge = judge.clone();
    Run { point, build: Box::new(move |seed| judge.build(seed)), policy: Threshold::NEVER.into() }
}

fn large(network: Option<Delay>) -> Run {
    let point = Point {
        name: named("large".into(), network),
        mode: Mode::Large,
        router: None,
        router_digest: None,
        budget: None,
        threshold: None,
        like: None,
        rtt_ms: network.map(milliseconds),
    };
    let build = |_| -> Box<dyn decode::Router> { Box::new(router::Constant::Always) };
    Run { point, build: Box::new(build), policy: Threshold::ALWAYS.into() }
}

fn joint(judge: &NamedRouter, aim: Aim, network: Option<Delay>) -> Run {
    let (name, policy, budget, threshold) = match aim {
        Aim::Budget(share) => {
            let policy =
                ThresholdPolicy::budget(Budget::new(share.value(), judge.table().iter().copied()));
            (format!("{judge} {share}"), policy, Some(share.value()), None)
        }
        Aim::Threshold(tau) => {
            (format!("{judge} τ {}", tau.value()), tau.into(), None, Some(tau.value()))
        }
    };
    let point = Point {
        name: named(name, network),
        mode: Mode::Joint,
        router: Some(judge.to_string()),
        router_digest: judge.digest().map(String::from),
        budget,
        threshold,
        like: None,
        rtt_ms: network.map(milliseconds),
    };
    let judge = judge.clone();
    Run { point, build: Box::new(move |seed| judge.build(seed)), policy }
}

/// By lot: at the budget, or at the share that the first router has at this threshold.
fn random(aim: Aim, like: String, network: Option<Delay>) -> Run {
    let mut run = joint(&RouterKind::Random(None).into(), aim, network);
    if let Aim::Threshold(_) = aim {
        run.point.name = format!("random like {like}");
        run.point.threshold = None;
        run.point.like = Some(like);
    }
    run
}

fn named(name: String, network: Option<Delay>) -> String {
    match network {
        Some(delay) => format!("{name} rtt {}ms", milliseconds(delay)),
        None => name,
    }
}

fn milliseconds(delay: Delay) -> f64 {
    delay.rtt().as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: EvalArgs,
    }

    #[test]
    fn random_as_a_router_and_as_the_baseline_is_measured_once() {
        let line = Line::try_parse_from([
            "eval",
            "builtin",
            "--router",
            "top1,random",
            "--budget",
            "7%,15%",
        ]);
        let edge = LoadOptions::new("edge.gguf", 512, 1);
        let runs = points(&line.unwrap().args, &[], &RouterKind::Never.into(), &edge).unwrap();
        let names: Vec<_> = runs.iter().map(|run| run.point.name.as_str()).collect();
        let by_lot = names.iter().filter(|name| name.starts_with("random"));
        assert_eq!(by_lot.collect::<Vec<_>>(), [&"random 7%", &"random 15%"], "{names:?}");
    }
}
