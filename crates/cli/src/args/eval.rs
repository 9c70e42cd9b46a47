//! `tandem eval`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::{CloudModelArgs, EdgeArgs, MachineArgs, SYSTEM};
use crate::{
    config::count,
    judge::{RouterArg, Share},
    preset::Preset,
};

#[derive(Debug, ClapArgs)]
pub struct EvalArgs {
    /// Questions with right answers, as JSON lines: question, choices and answerKey; or problem and
    /// answer
    #[arg(long, value_name = "FILE", required = true)]
    pub data: Vec<PathBuf>,

    /// Only the first N questions
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<usize>,

    /// Leave out this many questions first
    #[arg(long, value_name = "N", default_value = "0")]
    pub skip: usize,

    /// Shares of tokens from the cloud to measure at
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_value = "7%")]
    pub budget: Vec<Share>,

    /// Routers to measure: files or names
    #[arg(long, value_name = "NAME|FILE,…", value_delimiter = ',')]
    pub router: Vec<RouterArg>,

    /// Every answer is kept here, and a second run goes on where the first was stopped
    #[arg(long, value_name = "FILE")]
    pub results: PathBuf,

    /// Leave out mode large, which takes the most time; then no gap is known
    #[arg(long)]
    pub no_large: bool,

    /// Questions at work at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub parallel: usize,

    /// Stop an answer after this many tokens
    #[arg(long, value_name = "N", default_value = "160", value_parser = count)]
    pub max_tokens: usize,

    /// Where `random` asks, and which questions are redrawn for the intervals
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// The system message, given to both models
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    /// Adapters and router of a preset
    #[arg(long, value_enum, value_name = "NAME")]
    pub preset: Option<Preset>,

    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub cloud: CloudModelArgs,

    #[command(flatten)]
    pub machine: MachineArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}
