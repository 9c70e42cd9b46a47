//! `tandem demo`: one question answered by the small model, by both, and by the large one.
//!
//! - [`question`]: what is asked
//! - [`mod@figures`]: what is said of the three answers

mod figures;
mod question;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use decode::{Limits, Message, OnCloudError, Sampling, Threshold, ThresholdPolicy};
use models::PresetError;

use self::{
    figures::Answer,
    question::{Question, common_sense, plain},
};
use crate::{
    args::{self, CloudModelArgs, DemoArgs, EdgeArgs, Mode, SYSTEM},
    config::{self, Generate, Store, UsageError},
    judge::Judge,
    pair::Pair,
    preset,
    show::{Screen, say},
};

/// The preset of the second question.
const PRESET: &str = "commonsenseqa";

/// Enough to read, and not long to wait for.
const MAX_TOKENS: usize = 96;

/// Tokens of the text that is thrown away.
const WARM_UP: usize = 4;

pub async fn demo(mut args: DemoArgs) -> anyhow::Result<ExitCode> {
    if args.cloud.place.offline {
        return Err(UsageError("the cloud is part of the demo: not with --offline".into()).into());
    }
    // A text that the edge finished alone would show nothing.
    args.cloud.place.on_cloud_error = args::OnCloudError::Fail;
    let own_pair = args.edge.edge_model.is_some()
        || args.cloud.cloud_model.is_some()
        || args.cloud.place.cloud.is_some();
    let mut out = io::stdout().lock();
    let screen = Screen::new();
    let mark = if screen.has_colour() { "coloured" } else { "in ⟦ ⟧" };
    writeln!(out, "Words from the large model are {mark}.\n")?;
    drop(out);
    let general = Judge::choose(None, &edge_options(&args, &args.edge)?)?;
    let policy = general.policy(None, None);
    answer_all(&args, (&args.edge, &args.cloud), (general, policy), &plain(), &screen).await?;
    if own_pair {
        say(&format!("the question of the preset is left out: {PRESET} is for the default pair"));
        return Ok(ExitCode::SUCCESS);
    }
    let (mut edge, mut cloud, mut router) = (args.edge.clone(), args.cloud.clone(), None);
    let applied = match preset::search_path()?.find(PRESET) {
        Ok(folder) => {
            let folder = folder.to_string_lossy();
            preset::apply(&folder, &mut edge, Some(&mut cloud), Some(&mut router))?
        }
        Err(missing @ PresetError::Unknown { .. }) => {
            say(&format!("the question of the preset is left out: {missing}"));
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
    };
    let judge = Judge::choose(router.as_ref(), &edge_options(&args, &edge)?)?;
    let (threshold, budget) = preset::defaults(&applied)?;
    let policy = judge.policy(threshold, budget);
    let mut out = io::stdout().lock();
    writeln!(out, "\nWith the preset {PRESET}: adapters and a router for such questions.\n")?;
    drop(out);
    answer_all(&args, (&edge, &cloud), (judge, policy), &common_sense(), &screen).await?;
    Ok(ExitCode::SUCCESS)
}

fn edge_options(args: &DemoArgs, edge: &EdgeArgs) -> anyhow::Result<engine::LoadOptions> {
    config::edge_options(&Store::open(None)?, edge, &args.machine)
}

/// One question in the three modes, and what is seen.
async fn answer_all(
    args: &DemoArgs,
    (edge, cloud): (&EdgeArgs, &CloudModelArgs),
    (judge, policy): (Judge, ThresholdPolicy),
    question: &Question,
    screen: &Screen,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut pair = Pair::new(edge, cloud, &args.machine)?;
    let generate = Generate {
        mode: Mode::Joint,
        judge,
        policy,
        sampling: Sampling::default(),
        limits: Limits { max_tokens: MAX_TOKENS, stops: vec![] },
        system: SYSTEM.into(),
        on_cloud_error: OnCloudError::Fail,
    };
    warm_up(&mut pair, &generate).await?;
    say(&format!("[both models loaded and warm after {:.1} s]\n", started.elapsed().as_secs_f64()));
    writeln!(io::stdout(), "{}\n", question.prompt)?;
    let mut answers = vec![];
    for mode in [Mode::Small, Mode::Joint, Mode::Large] {
        let generate = Generate { mode, ..generate.clone() };
        answers.push(answer(&mut pair, &generate, question, screen).await?);
    }
    pair.close().await;
    let mut out = io::stdout().lock();
    writeln!(out, "\n{}", figures::table(&answers))?;
    if let [small, joint, large] = &answers[..] {
        writeln!(out, "{}", figures::verdict(small, joint, large))?;
        if let Some(budget) = generate.policy.current_budget() {
            writeln!(out, "{}", figures::budget(&budget, joint))?;
        }
    }
    Ok(())
}

/// Loads both models and has them write, so that what is shown is not the first time for anything.
async fn warm_up(pair: &mut Pair, generate: &Generate) -> anyhow::Result<()> {
    let limits = Limits { max_tokens: WARM_UP, stops: vec![] };
    // A policy of its own: the budget is for the text that is shown.
    let warm = Generate { policy: Threshold::ALWAYS.into(), limits, ..generate.clone() };
    for mode in [Mode::Joint, Mode::Large] {
        let warm = Generate { mode, ..warm.clone() };
        let messages = [Message::system(&warm.system), Message::user("Say hi.")];
        let mut generation = pair.begin(&warm, &messages).await?;
        while generation.next().await?.is_some() {}
    }
    Ok(())
}

async fn answer(
    pair: &mut Pair,
    generate: &Generate,
    question: &Question,
    screen: &Screen,
) -> anyhow::Result<Answer> {
    // Every mode pays for reading the question.
    pair.forget().await;
    let name = figures::name(generate.mode);
    write!(io::stdout(), "{name}  ")?;
    let messages = [Message::system(&generate.system), Message::user(&question.prompt)];
    let mut generation = pair.begin(generate, &messages).await?;
    while let Some(span) = generation.next().await? {
        if screen.has_colour() {
            screen.show(&span)?;
        }
    }
    let transcript = generation.transcript();
    if !screen.has_colour() {
        // All of what the large model writes alone is its own: marks would say nothing.
        let marks = generate.mode == Mode::Joint;
        screen.show_whole(transcript.shown(), marks)?;
    }
    screen.end()?;
    Ok(Answer::new(generate.mode, question, &transcript.text(), transcript.stats()))
}
