//! `tandem router train`: from collected samples to a router file.

use std::{fs, io::Write};

use anyhow::Context;
use decode::Exchange;
use lab::{
    collect::{Collection, Sample},
    train::{Epoch, Options, SampleOrigin, plot},
};
use router::Objective;

use crate::{args::TrainArgs, config::UsageError, show::say};

pub fn train(args: &TrainArgs) -> anyhow::Result<()> {
    if args.output.extension().is_some_and(|e| e == "svg") {
        let reason = "the curves are written beside the router as .svg: name it otherwise";
        return Err(UsageError(reason.into()).into());
    }
    let (samples, about) = gather(args)?;
    let options = Options {
        objective: args.objective,
        inputs: args.inputs,
        seed: args.seed,
        epochs: args.epochs,
        learning_rate: args.learning_rate,
        balance: !args.no_class_weights,
        ..Options::default()
    };
    let mut tell = |epoch: Epoch| {
        say(&format!(
            "epoch {:2}: loss {:.4}, held out {:.4}{}",
            epoch.number,
            epoch.training_loss,
            epoch.tuning_loss,
            if epoch.best { " *" } else { "" }
        ));
    };
    let trained = lab::train::train(&samples, about, &options, &mut tell)?;
    trained.file.write(&args.output)?;
    let curves = args.output.with_extension("svg");
    fs::write(&curves, plot::svg(&trained.curves)?)
        .with_context(|| format!("the curves {} cannot be written", curves.display()))?;

    let mut out = std::io::stdout().lock();
    let report = trained.file.metadata().report;
    if args.json {
        let shares: Vec<_> = trained.shares.iter().map(|p| (p.threshold, p.share)).collect();
        let json = serde_json::json!({ "report": report, "shares": shares });
        writeln!(out, "{json}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} on {} of {} samples ({} examples), judged on {} others",
        args.objective,
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
    writeln!(out, "{} and {} written", args.output.display(), curves.display())?;
    Ok(())
}

/// All collections together; they must be of one model.
fn gather(args: &TrainArgs) -> anyhow::Result<(Vec<Sample>, SampleOrigin)> {
    let (mut samples, mut digests) = (vec![], vec![]);
    let mut first: Option<Collection> = None;
    let mut offset = 0;
    for folder in &args.collections {
        let collection = Collection::read(folder)?;
        let differs = |f: &&Collection| {
            let (a, b) = (f.about(), collection.about());
            (&a.model, a.exchange) != (&b.model, b.exchange)
        };
        let other = first.as_ref().filter(differs);
        if let Some(other) = other {
            return Err(UsageError(format!(
                "the collections are of different models, or ids travelled in one and text in the \
                 other: {} and {}",
                other.about().model_name,
                collection.about().model_name
            ))
            .into());
        }
        let read = match args.objective {
            Objective::CiterS => collection.read_samples()?,
            _ => collection.samples()?,
        };
        // Examples of different collections are different examples.
        for sample in read {
            let example = sample.example.checked_add(offset).context("a damaged shard")?;
            samples.push(Sample { example, ..sample });
        }
        offset += u32::try_from(collection.about().count)?;
        digests.push(collection.digest()?);
        first.get_or_insert(collection);
    }
    let collection = first.context("no collection was given")?;
    let about = collection.about();
    Ok((
        samples,
        SampleOrigin {
            hidden: about.hidden,
            model: about.model.clone(),
            model_name: about.model_name.clone(),
            data: digests.join("+"),
            ids: about.exchange == Exchange::Ids,
        },
    ))
}
