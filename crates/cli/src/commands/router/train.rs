//! `tandem router train`: from collected samples to a router file. `tandem router train-query`: from results.

use std::{fs, io::Write, path::Path};

use anyhow::Context;
use lab::{
    collect::Sample,
    query,
    train::{Epoch, Options, SampleOrigin, gather, plot},
};

use crate::{
    args::{TrainArgs, TrainQueryArgs},
    config::UsageError,
    progress::TerminalProgress,
    show::{print_json, say},
};

pub fn train(args: &TrainArgs) -> anyhow::Result<()> {
    check_output(&args.output)?;
    let (samples, origin) = gather(&args.collections, args.objective)?;
    let options = Options {
        objective: args.objective,
        inputs: args.inputs,
        seed: args.seed,
        epochs: args.epochs,
        learning_rate: args.learning_rate,
        balance: !args.no_class_weights,
        ..Options::default()
    };
    fit(&samples, origin, &options, Output { path: &args.output, json: args.json })
}

pub async fn train_query(args: TrainQueryArgs) -> anyhow::Result<()> {
    check_output(&args.output)?;
    let tandem = args.small.builder()?.build()?;
    let bar = TerminalProgress::default();
    let (samples, origin) = query::samples(&tandem, &args.results, &bar).await?;
    let options = Options { inputs: args.inputs, seed: args.seed, ..query::options() };
    fit(&samples, origin, &options, Output { path: &args.output, json: args.json })
}

fn check_output(path: &Path) -> Result<(), UsageError> {
    if path.extension().is_some_and(|e| e == "svg") {
        let reason = "the curves are written beside the router as .svg: choose another name";
        return Err(UsageError(reason.into()));
    }
    Ok(())
}

/// Where the router goes, and how it is told what came out.
struct Output<'a> {
    path: &'a Path,
    json: bool,
}

fn fit(
    samples: &[Sample],
    origin: SampleOrigin,
    options: &Options,
    output: Output,
) -> anyhow::Result<()> {
    let mut tell = |epoch: Epoch| {
        say(&format!(
            "epoch {:2}: loss {:.4}, held out {:.4}{}",
            epoch.number,
            epoch.training_loss,
            epoch.tuning_loss,
            if epoch.best { " *" } else { "" }
        ));
    };
    let trained = lab::train::train(samples, origin, options, &mut tell)?;
    trained.file.write(output.path)?;
    let curves = output.path.with_extension("svg");
    fs::write(&curves, plot::svg(&trained.curves)?)
        .with_context(|| format!("the curves {} cannot be written", curves.display()))?;

    let report = trained.file.metadata().report;
    if output.json {
        let shares: Vec<_> = trained.shares.iter().map(|p| (p.threshold, p.share)).collect();
        return print_json(&serde_json::json!({ "report": report, "shares": shares }));
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} on {} of {} samples ({} examples), judged on {} others",
        options.objective,
        report.samples,
        samples.len(),
        report.examples,
        report.held_out
    )?;
    writeln!(
        out,
        "  loss {:.4}, AUC {:.4}, average precision {:.4}, calibration error {:.4}",
        report.loss, report.auc, report.average_precision, report.ece
    )?;
    let shares: Vec<_> = trained
        .shares
        .iter()
        .map(|p| format!("τ {:.1}: {:.1} %", p.threshold, p.share * 100.0))
        .collect();
    writeln!(out, "  positions asked at: {}", shares.join(", "))?;
    writeln!(out, "{} and {} written", output.path.display(), curves.display())?;
    Ok(())
}
