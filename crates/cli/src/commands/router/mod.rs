//! `tandem router`: from worked examples to a router file.

mod calibrate;
mod collect;
mod inspect;
mod train;

use std::process::ExitCode;

use crate::args::{RouterArgs, RouterCommand};

pub async fn router(args: RouterArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        RouterCommand::Collect(args) => collect::collect(*args).await?,
        RouterCommand::Train(args) => train::train(&args)?,
        RouterCommand::TrainQuery(args) => train::train_query(*args).await?,
        RouterCommand::Calibrate(args) => calibrate::calibrate(*args).await?,
        RouterCommand::Inspect(args) => inspect::inspect(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
