//! `tandem bench joint`: the three modes on the same prompts.
//!
//! Speeds are in characters a second: tokens of different vocabularies are not comparable.

use std::{io::Write, time::Duration};

use anyhow::Context;
use decode::{Stats, Times};
use serde::Serialize;
use tandem::{Mode, Request, Tandem};

use crate::{args::BenchJointArgs, config::note_fallback, show::print_json};

pub const QUESTIONS: [&str; 4] = [
    "Explain how rain forms.",
    "Write a short letter to a friend about a walk by the sea.",
    "What is a hash table, and when is it useful?",
    "Why do people keep dogs? Give three reasons.",
];

/// One mode over all prompts.
#[derive(Serialize)]
struct ModeSummary {
    mode: Mode,
    characters: usize,
    seconds: f64,
    characters_per_second: f64,
    routed_share: f64,
    asks: usize,
    cloud_prefilled: Option<usize>,
    /// Where the time went.
    times: Times,
}

pub async fn joint(args: BenchJointArgs) -> anyhow::Result<()> {
    args.generate.pair.cloud.location.require_cloud("all three modes are measured")?;
    let tandem = args.generate.builder()?.any_mode().build()?;
    note_fallback(&tandem);
    // Loading the models is not what is measured.
    answer(&tandem, Mode::Large, "Say hi.").await?;
    // The modes take turns, so that a moment in which the machine is slow is shared by all.
    let modes = [Mode::Small, Mode::Joint, Mode::Large];
    let mut stats = modes.map(|_| vec![]);
    for question in QUESTIONS {
        for (mode, stats) in modes.iter().zip(&mut stats) {
            stats.push(answer(&tandem, *mode, question).await?);
        }
    }
    let all: Vec<_> = modes.iter().zip(&stats).map(|(mode, stats)| figures(*mode, stats)).collect();
    tandem.close().await;
    let rate = |mode| all.iter().find(|f| f.mode == mode).map(|f| f.characters_per_second);
    let ratio = rate(Mode::Joint).zip(rate(Mode::Large)).map(|(joint, large)| joint / large);
    let ratio = ratio.context("no figures")?;
    if args.json {
        return print_json(&serde_json::json!({ "modes": all, "joint_over_large": ratio }));
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} prompts, router {}, threshold {}",
        QUESTIONS.len(),
        tandem.routers().own(),
        tandem.routers().policy().threshold()
    )?;
    for f in &all {
        writeln!(
            out,
            "  {:5}  {:6.1} characters/s  {:4.1} % from the cloud, {} asks, {} tokens prefilled there",
            f.mode,
            f.characters_per_second,
            f.routed_share * 100.0,
            f.asks,
            f.cloud_prefilled.map_or("unknown".into(), |n| n.to_string())
        )?;
        let seconds = |d: Duration| d.as_secs_f64();
        writeln!(
            out,
            "         of {:.1} s: edge {:.1}, cloud prefill {:.1}, cloud decode {:.1}, network {:.2}",
            f.seconds,
            seconds(f.times.edge_prefill + f.times.edge_decode),
            seconds(f.times.cloud_prefill),
            seconds(f.times.cloud_decode),
            seconds(f.times.network)
        )?;
    }
    writeln!(out, "joint is {ratio:.2} times as fast as large")?;
    Ok(())
}

async fn answer(tandem: &Tandem, mode: Mode, question: &str) -> anyhow::Result<Stats> {
    // Every mode pays for reading the prompt.
    tandem.forget().await;
    let mut generation = tandem.generate(Request::user(question).mode(mode)).await?;
    while generation.next().await?.is_some() {}
    if let Some(error) = generation.cloud_error() {
        return Err(error.clone().into());
    }
    Ok(generation.transcript().stats())
}

fn figures(mode: Mode, stats: &[Stats]) -> ModeSummary {
    let sum = |f: fn(&Stats) -> usize| stats.iter().map(f).sum::<usize>();
    let seconds = stats.iter().map(|s| s.total.as_secs_f64()).sum::<f64>();
    let characters = sum(|s| s.characters);
    ModeSummary {
        mode,
        characters,
        seconds,
        characters_per_second: characters as f64 / seconds,
        routed_share: sum(|s| s.cloud_tokens) as f64 / sum(|s| s.tokens).max(1) as f64,
        asks: sum(|s| s.asks),
        cloud_prefilled: stats.iter().map(|s| s.cloud_prefilled).sum(),
        times: stats.iter().map(|s| s.times).sum(),
    }
}
