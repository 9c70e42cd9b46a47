//! `tandem eval`: is it worth it, and at which budget?

mod print;

pub use print::print_table;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use lab::eval::{
    EvalConfig, Evaluation, Table, merge,
    points::{Points, Target},
    run::{ResultsFile, ResultsPath},
};
use router::RouterKind;
use tandem::{NamedRouter, Store, Tandem};

use crate::{
    args::{Baseline, EvalArgs, EvalCommand, MergeArgs},
    config::{UsageError, note_fallback},
    progress::TerminalProgress,
    show::{print_json, say},
};

pub async fn eval(mut args: EvalArgs) -> anyhow::Result<ExitCode> {
    let task = match (args.command.take(), args.task) {
        (Some(EvalCommand::Merge(args)), _) => return merge_files(&args),
        (None, Some(task)) => task,
        (None, None) => return Err(UsageError("name a task".into()).into()),
    };
    args.pair.cloud.location.require_cloud("the cloud is part of what is measured")?;
    let networks = args.pair.cloud.location.networks()?;
    // The network is a point's own. The pair is told that there will be one: asks are then on their way
    // while the small model goes on, as they would be with that network.
    args.pair.cloud.location.simulate_rtt = networks.first().cloned().into_iter().collect();
    let mut builder = args.pair.builder(args.preset.as_ref())?;
    // The first of those that were named, so that no other has to fit this edge.
    if let Some(router) = args.router.first() {
        builder = builder.router(router.clone());
    }
    let tandem = builder.seats(args.parallel).build()?;
    note_fallback(&tandem);
    let targets = targets(&args);
    let path = match args.results.take() {
        Some(path) => ResultsPath::File(path),
        None => ResultsPath::In(Store::open()?.home.file("results")),
    };
    let edge = tandem.pair().edge_options()?;
    let whole = |path: &PathBuf| NamedRouter::read_for_whole_answers(path, &edge);
    let points = Points {
        routers: routers(&args, &tandem)?,
        targets,
        query_routers: args.query_router.iter().map(whole).collect::<Result<_, _>>()?,
        random: args.baseline.contains(&Baseline::Random),
        oracles: args.oracle.clone(),
        large: !args.no_large,
        verify: args.verify,
        networks,
    };
    let config = EvalConfig {
        task,
        data: args.data,
        skip: args.skip,
        limit: args.limit,
        points,
        results: ResultsFile { path, fresh: args.fresh },
        parallel: args.parallel,
        max_tokens: args.max_tokens.unwrap_or_else(|| task.max_tokens()),
        seed: args.seed,
        system: args.system,
    };
    let evaluation = Evaluation::new(&tandem, config)?;
    let path = evaluation.path().display();
    let there = evaluation.record().outcomes.len();
    if there > 0 {
        say(&format!("{there} answers of an earlier run are in {path}; --fresh starts over"));
    }
    let time = tokio::select! {
        time = evaluation.run(Arc::new(TerminalProgress::default())) => time?,
        _ = tokio::signal::ctrl_c() => {
            say(&format!("stopped; the answers so far are in {path}, and the same command resumes"));
            return Ok(ExitCode::from(130));
        }
    };
    let table = Table::priced(&evaluation.record(), args.price);
    print::print(&table, time, args.json)?;
    say(&format!("results: {path}"));
    Ok(ExitCode::SUCCESS)
}

/// Budgets or thresholds, and paces beside them.
fn targets(args: &EvalArgs) -> Vec<Target> {
    let mut targets: Vec<Target> = match args.threshold.as_slice() {
        [] => args.budget.iter().map(|&share| Target::Budget(share)).collect(),
        some => some.iter().map(|&threshold| Target::Threshold(threshold)).collect(),
    };
    targets.extend(args.pace.iter().map(|&aim| Target::Pace(aim, args.min_share)));
    targets
}

fn merge_files(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let merged = merge::merge(&args.results).map_err(lab::Error::from)?;
    merge::write(&merged.record, &args.output).map_err(lab::Error::from)?;
    if merged.repeated > 0 {
        say(&format!("{} answers are in several files; the first one counts", merged.repeated));
    }
    let table = Table::priced(&merged.record, args.price);
    if args.json {
        print_json(&table)?;
    } else {
        print_table(&table)?;
    }
    say(&format!("results: {}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Those that were named, and the baselines.
fn routers(args: &EvalArgs, tandem: &Tandem) -> anyhow::Result<Vec<NamedRouter>> {
    let (store, edge) = (args.pair.edge.store()?, tandem.pair().edge_options()?);
    let mut routers = match args.router.as_slice() {
        [] => vec![tandem.routers().own().clone()],
        some => {
            let choose = |router| NamedRouter::choose(Some(router), &store, &edge);
            some.iter().map(choose).collect::<Result<Vec<_>, _>>()?
        }
    };
    for baseline in &args.baseline {
        let kind = match baseline {
            // It is measured beside every target.
            Baseline::Random | Baseline::None => continue,
            Baseline::Top1 => RouterKind::Top1,
            Baseline::Entropy => RouterKind::Entropy,
            Baseline::Margin => RouterKind::Margin,
        };
        if !routers.iter().any(|router| router.name() == kind.to_string()) {
            routers.push(NamedRouter::choose(Some(&kind.into()), &store, &edge)?);
        }
    }
    Ok(routers)
}
