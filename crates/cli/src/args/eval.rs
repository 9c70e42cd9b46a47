//! `tandem eval`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand, ValueEnum, builder::ArgPredicate};
use decode::Threshold;
use lab::eval::{Price, TaskName, points::Ratio};

use super::{PairArgs, SYSTEM};
use tandem::{RouterSpec, Share};

use crate::config::{between, count, time, up_to};

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct EvalArgs {
    #[command(subcommand)]
    pub command: Option<EvalCommand>,

    /// The task: commonsenseqa, arc, mmlu, gsm8k, math, humaneval, jsonl, text, or builtin, which needs
    /// no data
    #[arg(required = true)]
    pub task: Option<TaskName>,

    /// The questions, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub data: Vec<PathBuf>,

    /// Only the first N questions
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<usize>,

    /// Skip this many questions first
    #[arg(long, value_name = "N", default_value = "0", value_parser = between::<0, 1_000_000>)]
    pub skip: usize,

    /// Shares of tokens from the cloud to measure at
    #[arg(
        long,
        value_name = "SHARE,…",
        value_delimiter = ',',
        default_value = "7%",
        default_value_if("pace", ArgPredicate::IsPresent, None)
    )]
    pub budget: Vec<Share>,

    /// Thresholds to measure at, instead of budgets
    #[arg(long, value_name = "0..1,…", value_delimiter = ',', conflicts_with = "budget")]
    pub threshold: Vec<Threshold>,

    /// Mean times between tokens to aim at, as `run --pace` does, beside budgets or thresholds that are
    /// named; then none is the default
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = time)]
    pub pace: Vec<Duration>,

    /// With a pace, take at least this share of tokens from the cloud, however long its answers take
    #[arg(long, value_name = "SHARE", default_value = "1%", requires = "pace")]
    pub min_share: Share,

    /// Measure oracles too: the large model judges every token that the small one proposes, and its own
    /// is taken where the proposal is less than so many times as likely. What a router could win at
    /// most, at the share that comes of it. Needs one vocabulary, and a cloud that tells likelihoods:
    /// tandem cloud, or a large model in this process
    #[arg(long, value_name = "0..1,…", value_delimiter = ',')]
    pub oracle: Vec<Ratio>,

    /// Routers to measure: files or names
    #[arg(long, value_name = "NAME|FILE,…", value_delimiter = ',')]
    pub router: Vec<RouterSpec>,

    /// Routers of whole answers to compare with, written by `tandem router train-query`: they choose between
    /// the answers of both models, at each budget
    #[arg(long, value_name = "FILE,…", value_delimiter = ',', conflicts_with = "no_large")]
    pub query_router: Vec<PathBuf>,

    /// Routers to compare with, at the same share of tokens; routing of whole answers is always
    /// among the rows
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "random"
    )]
    pub baseline: Vec<Baseline>,

    /// Store every answer in this file; an interrupted run resumes from it. Without it, a file under
    /// $TANDEM_HOME/results
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,

    /// Discard the results of an earlier run
    #[arg(long)]
    pub fresh: bool,

    /// Skip mode large, which takes the most time; the gap recovered is then unknown
    #[arg(long)]
    pub no_large: bool,

    /// Measure mode verify too: the large model's text, drafted by the small one and judged in passes over
    /// whole drafts
    #[arg(long)]
    pub verify: bool,

    /// Questions answered at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<256>)]
    pub parallel: usize,

    /// Stop an answer after this many tokens; 1024 for gsm8k and math, 512 for
    /// humaneval, else 160
    #[arg(long, value_name = "N", value_parser = count)]
    pub max_tokens: Option<usize>,

    /// The seed of the random router and of the resampling for intervals
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// The system message, given to both models
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    /// Adapters and router of a preset
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    #[command(flatten)]
    pub pair: PairArgs,

    /// Say what a thousand answers cost, at these prices for a million tokens of the large model: read,
    /// written, and read again from a cache
    #[arg(long, value_name = "IN,OUT,CACHED")]
    pub price: Option<Price>,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum EvalCommand {
    /// Join results files: of other questions of the same data, or of other routers and budgets
    Merge(MergeArgs),
}

#[derive(Debug, ClapArgs)]
pub struct MergeArgs {
    /// Results files
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub results: Vec<PathBuf>,

    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Say what a thousand answers cost, at these prices for a million tokens of the large model: read,
    /// written, and read again from a cache
    #[arg(long, value_name = "IN,OUT,CACHED")]
    pub price: Option<Price>,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Routers to compare a trained one with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Baseline {
    /// Asks at random positions
    Random,
    /// Probability of the proposed token
    Top1,
    /// How concentrated the distribution is
    Entropy,
    /// Lead of the proposed token over the second
    Margin,
    /// None of them
    None,
}
