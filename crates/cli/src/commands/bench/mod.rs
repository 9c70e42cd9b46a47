//! `tandem bench`: what this machine can do.

#[cfg(feature = "lab")]
mod agree;
mod ask;
#[cfg(feature = "lab")]
mod budget;
mod edge;
mod joint;
#[cfg(feature = "lab")]
mod network;
#[cfg(feature = "lab")]
mod original;
#[cfg(feature = "lab")]
mod record;
mod serve;
#[cfg(feature = "lab")]
mod wrapped;

use std::process::ExitCode;

use decode::statistics;

use crate::args::BenchCommand;

pub async fn bench(command: BenchCommand) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Edge(args) => edge::edge(args).await?,
        #[cfg(feature = "lab")]
        BenchCommand::Agree(args) => agree::agree(args).await?,
        #[cfg(feature = "lab")]
        BenchCommand::Original(args) => original::original(*args).await?,
        #[cfg(feature = "lab")]
        BenchCommand::Network(args) => network::network(*args).await?,
        #[cfg(not(feature = "lab"))]
        BenchCommand::Network(args) => return args.refuse("bench network"),
        #[cfg(feature = "lab")]
        BenchCommand::Budget(args) => return budget::budget(*args).await,
        #[cfg(not(feature = "lab"))]
        BenchCommand::Budget(args) => return args.refuse("bench budget"),
        #[cfg(not(feature = "lab"))]
        BenchCommand::Agree(args) => return args.refuse("bench agree"),
        #[cfg(not(feature = "lab"))]
        BenchCommand::Original(args) => return args.refuse("bench original"),
        BenchCommand::Ask(args) => ask::ask(args).await?,
        BenchCommand::Joint(args) => joint::joint(args).await?,
        BenchCommand::Serve(args) => serve::serve(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The middle one of what was measured; 0 where nothing was.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    statistics::median(values).unwrap_or(0.0)
}
