//! `tandem router collect`: what a router can learn from.

use std::sync::Arc;

use lab::{
    collect::{CollectConfig, LabelRule, collect as run},
    eval::Example,
};
use tandem::{Mode, NamedRouter};

use crate::{args::CollectArgs, progress::TerminalProgress, show::say};

pub async fn collect(args: CollectArgs) -> anyhow::Result<()> {
    args.pair.cloud.location.require_cloud("the cloud is part of what is collected")?;
    let builder = args.pair.builder(args.preset.as_ref())?.mode(Mode::Small);
    let tandem = builder.seats(args.parallel).build()?;
    let joint = match &args.router {
        Some(router) => {
            let edge = tandem.pair().edge_options()?;
            let router = NamedRouter::choose(Some(router), &args.pair.edge.store()?, &edge)?;
            Some((router, args.threshold))
        }
        None => None,
    };
    let mut examples = vec![];
    for path in &args.data {
        examples.extend(Example::read(path)?);
    }
    examples.retain(|example| example.worked.is_some());
    examples.truncate(args.limit.unwrap_or(usize::MAX));
    let config = CollectConfig {
        examples,
        labels: LabelRule::Reference,
        output: args.output,
        rollouts: args.rollouts,
        roll_out_asks: args.roll_out_asks,
        joint,
        parallel: args.parallel,
        seed: args.seed,
        max_tokens: args.max_tokens,
        system: args.system,
    };
    let collected = run(&tandem, config, Arc::new(TerminalProgress::default())).await?;
    if collected.too_long > 0 {
        let examples = collected.too_long;
        say(&format!("{examples} examples skipped: longer than a model's context"));
    }
    say(&collected.to_string());
    Ok(())
}
