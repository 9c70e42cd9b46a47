//! `tandem tune`: prompts in, preset out.

use std::{io::Write, process::ExitCode, sync::Arc};

use lab::tune::{Estimate, TuneConfig, Tuned, prompts::Prompts, tune as run};
use serde_json::json;
use tandem::Mode;

use crate::{
    args::TuneArgs,
    commands::eval::print_table,
    progress::TerminalProgress,
    show::{percent, print_json, say},
};

pub async fn tune(args: TuneArgs) -> anyhow::Result<ExitCode> {
    args.pair.cloud.location.require_cloud("the large model teaches the router")?;
    // Read first: a line that is no prompt is told before anything is loaded.
    let prompts = Prompts::read(&args.prompts, args.limit)?;
    let builder = args.pair.builder(args.preset.as_ref())?.mode(Mode::Small);
    let tandem = builder.seats(args.parallel).build()?;
    let edge = tandem.pair().edge().await.map_err(lab::Error::from)?;
    let prompts = prompts.fitting(edge, &args.system, args.max_tokens)?;
    for reason in &prompts.left_out {
        say(&format!("left out: {reason}"));
    }
    let config = TuneConfig {
        prompts,
        output: args.output,
        rounds: args.rounds,
        budget: args.budget,
        max_tokens: args.max_tokens,
        rollouts: args.rollouts,
        judged: args.judge,
        parallel: args.parallel,
        seed: args.seed,
        system: args.system,
    };
    let work = config.output.join("work");
    let resumed = work.join("tune.json").exists();
    if args.dry_run || !resumed {
        let estimate = Estimate::measure(&tandem, &config).await?;
        if args.dry_run && args.json {
            print_json(&json!({
                "prompts": estimate.prompts,
                "rounds": estimate.rounds,
                "seconds": estimate.time.as_secs(),
                "cloud_tokens_written": estimate.cloud_written,
                "cloud_tokens_read": estimate.cloud_read,
                "bytes_sent": estimate.bytes,
            }))?;
        } else {
            say(&estimate.to_string());
        }
    } else {
        say(&format!("resuming from {}", work.display()));
    }
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let kept =
        || say(&format!("what was done so far is in {}; the same command resumes", work.display()));
    let tuned = tokio::select! {
        tuned = run(&tandem, config, Arc::new(TerminalProgress::default())) => tuned,
        _ = tokio::signal::ctrl_c() => {
            kept();
            return Ok(ExitCode::from(130));
        }
    };
    let tuned = match tuned {
        Ok(tuned) => tuned,
        Err(error) => {
            if work.join("tune.json").exists() && !error.is_usage() {
                kept();
            }
            return Err(error.into());
        }
    };
    show(&tuned, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn show(tuned: &Tuned, as_json: bool) -> anyhow::Result<()> {
    let Tuned { folder, router, table, page } = tuned;
    let metadata = router.metadata();
    if as_json {
        return print_json(&json!({
            "preset": folder, "page": page, "router": metadata, "measured": table,
        }));
    }
    let report = metadata.report;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} positions of {} answers; on {} held out: AUC {:.3}, calibration error {:.3}",
        report.samples, report.examples, report.held_out, report.auc, report.ece
    )?;
    let points = metadata.calibration.points();
    let points: Vec<_> =
        points.iter().map(|p| format!("{} {:.3}", percent(p.share), p.threshold)).collect();
    writeln!(out, "thresholds: {}", points.join(", "))?;
    drop(out);
    match table {
        Some(table) => print_table(table)?,
        None => say(
            "no answers were judged: none is right or wrong, and the cloud gives no likelihoods",
        ),
    }
    say(&format!("the report is {}", page.display()));
    say(&format!("use it with --preset {}", folder.display()));
    Ok(())
}
