//! `tandem demo`: questions answered by the small model, by both, and by the large one.
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

use decode::{Limits, OnCloudError, Threshold};
use models::{Preset, PresetError, Role};
use tandem::{Builder, Mode, Request, RoutingOverrides, Store, Tandem};

use self::{
    figures::Answer,
    question::{Question, common_sense, plain, sum},
};
use crate::{
    args::{PairArgs, PairName},
    config::note_fallback,
    show::{Screen, say},
};

/// The preset of the last question.
const PRESET: &str = "commonsenseqa";

/// The pair that needs the least, for machines where the default one could not be pulled.
const LEAST_PAIR: &str = "tiny";

/// Tokens of the text that is thrown away.
const WARM_UP: usize = 4;

pub async fn demo(mut args: PairArgs) -> anyhow::Result<ExitCode> {
    args.cloud.location.require_cloud("the cloud is part of the demo")?;
    let own_pair = args.edge.edge_model.is_some()
        || args.cloud.cloud_model.is_some()
        || !args.cloud.location.cloud.is_empty();
    if !own_pair && args.edge.pair.is_none() {
        args.edge.pair = pair_that_is_here(&args.edge.store()?).map(PairName::typed);
    }
    let screen = Screen::new();
    let mark = if screen.has_colour() { "coloured" } else { "in ⟦ ⟧" };
    writeln!(io::stdout(), "Words from the large model are {mark}.\n")?;
    // A text that the edge finished alone would show nothing.
    let builder = args.builder(None)?.on_cloud_error(OnCloudError::Fail);
    answer_all(builder.clone(), &plain(), &screen).await?;
    if own_pair {
        say("the second question is left out: it is for the pairs of the catalog");
        return Ok(ExitCode::SUCCESS);
    }
    let store = args.edge.store()?;
    match store.presets().find(PRESET) {
        Ok(folder) if Preset::open(&folder)?.manifest().edge.model != store.pair.edge => {
            answer_all(builder, &sum(), &screen).await?;
        }
        Ok(folder) => {
            let preset = "adapters and a router for such questions";
            writeln!(io::stdout(), "\nWith the preset {PRESET}: {preset}.\n")?;
            answer_all(builder.preset(folder.to_string_lossy()), &common_sense(), &screen).await?;
        }
        Err(missing @ PresetError::Unknown { .. }) => {
            say(&format!("the question of the preset is left out: {missing}"));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The smallest pair, if its models are here and those of the chosen pair are not.
fn pair_that_is_here(store: &Store) -> Option<&'static str> {
    let whole = |store: &Store| {
        [Role::Edge, Role::Cloud].iter().all(|role| store.resolve(None, *role).is_ok())
    };
    let least = store.clone().with_pair(Some(LEAST_PAIR));
    if whole(store) || !least.is_ok_and(|least| whole(&least)) {
        return None;
    }
    let pair = &store.pair.name;
    say(&format!("the models of the pair {pair} are not here; this is the pair {LEAST_PAIR}"));
    Some(LEAST_PAIR)
}

/// One question in the three modes, and what is seen.
async fn answer_all(builder: Builder, question: &Question, screen: &Screen) -> anyhow::Result<()> {
    let started = Instant::now();
    let tandem = builder.max_tokens(question.max_tokens).build()?;
    note_fallback(&tandem);
    warm_up(&tandem).await?;
    say(&format!("[both models loaded and warm after {:.1} s]\n", started.elapsed().as_secs_f64()));
    writeln!(io::stdout(), "{}\n", question.prompt)?;
    let mut answers = vec![];
    for mode in [Mode::Small, Mode::Joint, Mode::Large] {
        answers.push(answer(&tandem, mode, question, screen).await?);
    }
    tandem.close().await;
    let mut out = io::stdout().lock();
    writeln!(out, "\n{}", figures::table(&answers))?;
    if let [small, joint, large] = &answers[..] {
        writeln!(out, "{}", figures::verdict(small, joint, large))?;
        if let Some(budget) = tandem.routers().policy().current_budget() {
            writeln!(out, "{}", figures::budget(&budget, joint))?;
        }
    }
    Ok(())
}

/// Loads both models and has them write, so that what is shown is not the first time for anything.
async fn warm_up(tandem: &Tandem) -> anyhow::Result<()> {
    // A policy of its own: the budget is for the text that is shown.
    let threshold = Some(Threshold::ALWAYS);
    let routing = RoutingOverrides { threshold, ..RoutingOverrides::default() };
    let limits = Limits { max_tokens: WARM_UP, stops: vec![] };
    for mode in [Mode::Joint, Mode::Large] {
        let request = Request::user("Say hi.").mode(mode).limits(limits.clone());
        tandem.answer(request.routing(routing.clone())).await?;
    }
    Ok(())
}

async fn answer(
    tandem: &Tandem,
    mode: Mode,
    question: &Question,
    screen: &Screen,
) -> anyhow::Result<Answer> {
    // Every mode pays for reading the question.
    tandem.forget().await;
    write!(io::stdout(), "{mode}  ")?;
    let mut generation = tandem.generate(Request::user(&question.prompt).mode(mode)).await?;
    while let Some(span) = generation.next().await? {
        if screen.has_colour() {
            screen.show(&span)?;
        }
    }
    let transcript = generation.transcript();
    if !screen.has_colour() {
        // All of what the large model writes alone is its own: marks would say nothing.
        screen.show_whole(transcript.shown(), mode == Mode::Joint)?;
    }
    screen.end()?;
    Ok(Answer::new(mode, question, &transcript.text(), transcript.stats()))
}
