//! `tandem bench joint`: the three modes on the same prompts.
//!
//! Speeds are in characters a second: tokens of different vocabularies are not comparable.

use std::{io::Write, time::Duration};

use anyhow::Context;
use decode::{Message, Stats, Times};
use serde::Serialize;

use crate::{
    args::{BenchJointArgs, GenerateArgs, Mode},
    config::{Generate, UsageError},
    pair::Pair,
};

pub const QUESTIONS: [&str; 4] = [
    "Explain how rain forms.",
    "Write a short letter to a friend about a walk by the sea.",
    "What is a hash table, and when is it useful?",
    "Why do people keep dogs? Give three reasons.",
];

/// One mode over all prompts.
#[derive(Serialize)]
struct Figures {
    mode: &'static str,
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
    let wanted = args.generate.with_preset()?;
    let generate = Generate::new(&GenerateArgs { mode: Mode::Joint, ..wanted.clone() })?;
    if wanted.cloud.place.offline {
        return Err(UsageError("all three modes are measured: not with --offline".into()).into());
    }
    let pair = Pair::new(&wanted.edge, &wanted.cloud, &wanted.machine)?;
    let mut pair = pair.sharing(wanted.share_states);
    // Loading the models is not what is measured.
    answer(&mut pair, &Generate { mode: Mode::Large, ..generate.clone() }, "Say hi.").await?;
    // The modes take turns, so that a moment in which the machine is slow is shared by all.
    let modes = [(Mode::Small, "small"), (Mode::Joint, "joint"), (Mode::Large, "large")];
    let mut stats = modes.map(|_| vec![]);
    for question in QUESTIONS {
        for ((mode, _), stats) in modes.iter().zip(&mut stats) {
            let generate = Generate { mode: *mode, ..generate.clone() };
            stats.push(answer(&mut pair, &generate, question).await?);
        }
    }
    let all: Vec<_> = modes.iter().zip(&stats).map(|((_, name), s)| figures(name, s)).collect();
    pair.close().await;
    let rate = |name| all.iter().find(|f| f.mode == name).map(|f| f.characters_per_second);
    let ratio = rate("joint").zip(rate("large")).map(|(joint, large)| joint / large);
    let ratio = ratio.context("no figures")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let json = serde_json::json!({ "modes": all, "joint_over_large": ratio });
        writeln!(out, "{json}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} prompts, router {}, threshold {}",
        QUESTIONS.len(),
        generate.judge,
        generate.policy.threshold()
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

async fn answer(pair: &mut Pair, generate: &Generate, question: &str) -> anyhow::Result<Stats> {
    let messages = [Message::system(&generate.system), Message::user(question)];
    // Every mode pays for reading the prompt.
    pair.forget().await;
    let mut generation = pair.begin(generate, &messages).await?;
    while generation.next().await?.is_some() {}
    if let Some(error) = generation.cloud_error() {
        return Err(error.clone().into());
    }
    Ok(generation.transcript().stats())
}

fn figures(mode: &'static str, stats: &[Stats]) -> Figures {
    let sum = |f: fn(&Stats) -> usize| stats.iter().map(f).sum::<usize>();
    let seconds = stats.iter().map(|s| s.total.as_secs_f64()).sum::<f64>();
    let characters = sum(|s| s.characters);
    Figures {
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
