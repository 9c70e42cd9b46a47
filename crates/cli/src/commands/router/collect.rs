//! `tandem router collect`: what a router can learn from.

use std::sync::Arc;

use lab::{
    collect::{CollectConfig, collect as run},
    eval::AnswerStyle,
};
use tandem::{Mode, NamedRouter, Store};

use crate::{args::CollectArgs, progress::Bar, show::say};

pub async fn collect(args: CollectArgs) -> anyhow::Result<()> {
    args.pair.cloud.place.require_cloud("the cloud is part of what is collected")?;
    let builder = args.pair.builder(args.preset.as_ref())?.mode(Mode::Small);
    let tandem = builder.seats(args.parallel).build()?;
    let second_round = match &args.router {
        Some(router) => {
            let edge = tandem.pair().edge_options()?;
            let router = NamedRouter::choose(Some(router), &Store::open()?, &edge)?;
            Some((router, args.threshold))
        }
        None => None,
    };
    let config = CollectConfig {
        data: args.data,
        worked: if args.answer_first { AnswerStyle::AnswerFirst } else { AnswerStyle::AsGiven },
        limit: args.limit,
        output: args.output,
        rollouts: args.rollouts,
        roll_out_asks: args.roll_out_asks,
        rollouts_only: args.rollouts_only,
        second_round,
        parallel: args.parallel,
        seed: args.seed,
        max_tokens: args.max_tokens,
        system: args.system,
    };
    let collected = run(&tandem, config, Arc::new(Bar::default())).await?;
    if collected.too_long > 0 {
        let examples = collected.too_long;
        say(&format!("{examples} examples skipped: longer than a model's context"));
    }
    say(&collected.to_string());
    Ok(())
}
