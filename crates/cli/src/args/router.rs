//! `tandem router`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use decode::Threshold;

use super::{EdgeArgs, MachineArgs, PairArgs, SYSTEM};
use tandem::RouterSpec;

use crate::config::{between, count, rate, up_to};

#[derive(Debug, ClapArgs)]
pub struct RouterArgs {
    #[command(subcommand)]
    pub command: RouterCommand,
}

#[derive(Debug, Subcommand)]
pub enum RouterCommand {
    /// Run both models over worked answers and store training samples for a router
    Collect(Box<CollectArgs>),
    /// Train a router on collected samples
    Train(TrainArgs),
    /// Train a router of whole answers on the results of an evaluation, to compare with
    TrainQuery(Box<TrainQueryArgs>),
    /// Find the thresholds for budgets, on prompts of your own
    Calibrate(Box<CalibrateArgs>),
    /// Show what is in a router file, and its scores for a text
    Inspect(InspectArgs),
}

#[derive(Debug, ClapArgs)]
pub struct CollectArgs {
    /// Worked examples, as JSON lines: question, choices, answerKey and cot; problem, solution and
    /// answer; or prompt and response
    #[arg(long, value_name = "FILE", required = true)]
    pub data: Vec<PathBuf>,

    /// The folder for the samples; an interrupted run resumes
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,

    /// Only the first N examples
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<usize>,

    /// Roll out at most this many of the positions that neither model got right
    #[arg(long, value_name = "N", default_value = "2000", value_parser = between::<0, 1_000_000>)]
    pub rollouts: usize,

    /// Also roll out the positions that only the cloud got right, before the others, so that a token
    /// of the edge that does no harm is trusted
    #[arg(long)]
    pub roll_out_asks: bool,

    /// Another round with the router of the last one: roll-outs by the joint decode, and states from
    /// joint decodes. Another router or threshold begins a round of its own
    #[arg(long, value_name = "NAME|FILE")]
    pub router: Option<RouterSpec>,

    /// The threshold of that round's joint decodes
    #[arg(long, value_name = "0..1", default_value = "0.5")]
    pub threshold: Threshold,

    /// Examples processed at the same time
    #[arg(long, value_name = "N", default_value = "4", value_parser = up_to::<256>)]
    pub parallel: usize,

    /// The seed that chooses the positions to roll out
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Stop a roll-out after this many tokens
    #[arg(long, value_name = "N", default_value = "160", value_parser = count)]
    pub max_tokens: usize,

    /// The system message, given to both models
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    /// The adapters of a preset
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    #[command(flatten)]
    pub pair: PairArgs,
}

#[derive(Debug, ClapArgs)]
pub struct TrainArgs {
    /// Folders written by `tandem router collect` or `tandem cloud --collect`
    #[arg(value_name = "FOLDER", required = true)]
    pub collections: Vec<PathBuf>,

    /// The router file to write; its curves are written beside it, as SVG
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// The training objective: citer, citer-s, co-llm or agree
    #[arg(long, value_name = "NAME", default_value = "citer")]
    pub objective: router::Objective,

    /// The inputs of the router: hidden, or hidden+logits
    #[arg(long, value_name = "NAME", default_value = "hidden")]
    pub inputs: router::Inputs,

    /// The same seed gives the same router
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Passes over the samples, at most: training stops when held-out examples get no better
    #[arg(long, value_name = "N", default_value = "30", value_parser = count)]
    pub epochs: usize,

    /// The learning rate
    #[arg(long, value_name = "RATE", default_value = "0.001", value_parser = rate)]
    pub learning_rate: f32,

    /// Do not balance the labels by weights
    #[arg(long)]
    pub no_class_weights: bool,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct TrainQueryArgs {
    /// Results of `tandem eval` that have the answers of both models alone
    #[arg(value_name = "FILE", required = true)]
    pub results: Vec<PathBuf>,

    /// The router file to write, for `tandem eval --query-router`; its curves are written beside it, as
    /// SVG
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// The inputs of the router: hidden, or hidden+logits
    #[arg(long, value_name = "NAME", default_value = "hidden")]
    pub inputs: router::Inputs,

    /// The same seed gives the same router
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// The small model that answered: another's states mean something else
    #[command(flatten)]
    pub small: SmallModelArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct CalibrateArgs {
    /// Router files, rewritten with their new tables unless --output is given; or top1, margin and
    /// entropy, whose tables are printed as a preset's manifest has them
    #[arg(value_name = "NAME|FILE", required = true)]
    pub routers: Vec<RouterSpec>,

    /// Prompts, as JSON lines: prompt, or any format `collect` reads; answers are ignored
    #[arg(long, value_name = "FILE", required = true)]
    pub prompts: Vec<PathBuf>,

    /// Write the router here instead
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Only the first N prompts
    #[arg(long, value_name = "N", default_value = "60", value_parser = count)]
    pub limit: usize,

    /// Stop an answer after this many tokens
    #[arg(long, value_name = "N", default_value = "96", value_parser = count)]
    pub max_tokens: usize,

    /// Try the thresholds with the cloud, and correct them by what really comes from it
    #[arg(long)]
    pub joint: bool,

    /// The system message
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    /// The adapters of a preset
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    #[command(flatten)]
    pub pair: PairArgs,
}

#[derive(Debug, ClapArgs)]
pub struct InspectArgs {
    /// The router file
    pub router: PathBuf,

    /// Let the edge answer this, and show the score of each token
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,

    /// Stop the answer after this many tokens
    #[arg(long, value_name = "N", default_value = "128", value_parser = count)]
    pub max_tokens: usize,

    /// The system message
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    #[command(flatten)]
    pub small: SmallModelArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// The small model by itself.
#[derive(Debug, ClapArgs)]
pub struct SmallModelArgs {
    /// The adapter of a preset
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub machine: MachineArgs,
}
