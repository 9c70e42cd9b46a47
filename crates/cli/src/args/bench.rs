//! `tandem bench`.

use clap::{Args as ClapArgs, Subcommand};

#[cfg(not(feature = "lab"))]
use super::no_lab::{
    NoLabArgs as BenchAgreeArgs, NoLabArgs as BenchBudgetArgs, NoLabArgs as BenchNetworkArgs,
    NoLabArgs as BenchOriginalArgs,
};
use super::{CloudModelArgs, EdgeArgs, GenerateArgs, MachineArgs, ServeArgs};
use crate::config::{between, count, up_to};

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of it, parsed once")]
pub enum BenchCommand {
    /// Decode speed of the engine alone, with the hidden state read, and in the whole loop
    Edge(BenchEdgeArgs),
    /// The cost of one ask at various lengths of the context
    Ask(BenchAskArgs),
    /// How far two models agree on the next token, over the same texts
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Agree(BenchAgreeArgs),
    /// How near to their budgets separate short answers come, by router
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Budget(Box<BenchBudgetArgs>),
    /// Characters a second in the three modes, on the same prompts
    Joint(BenchJointArgs),
    /// Compare Tandem with the loop of the original system, which keeps no cache on either side
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Original(Box<BenchOriginalArgs>),
    /// How much of the network's round trips is hidden: recorded answers, played at several round trips
    #[cfg_attr(not(feature = "lab"), command(hide = true))]
    Network(Box<BenchNetworkArgs>),
    /// What the edge server costs in addition to decoding, for one text and for several at once, in
    /// mode small
    Serve(BenchServeArgs),
}

#[derive(Debug, ClapArgs)]
pub struct BenchEdgeArgs {
    /// Tokens decoded in each run
    #[arg(long, value_name = "N", default_value = "128", value_parser = count)]
    pub tokens: usize,

    /// The length of the context to decode in, if longer than the prompt
    #[arg(long, value_name = "N", default_value = "0", value_parser = between::<0, 1_048_576>)]
    pub behind: usize,

    /// Runs of each kind, in turn; the median counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = count)]
    pub runs: usize,

    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub machine: MachineArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(feature = "lab")]
#[derive(Debug, ClapArgs)]
pub struct BenchAgreeArgs {
    /// The model to compare the edge with
    #[arg(long, value_name = "MODEL")]
    pub reference: Option<String>,

    /// Questions as JSON lines, as for `tandem eval`
    #[arg(long, value_name = "FILE")]
    pub data: std::path::PathBuf,

    /// Only the first N questions
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<usize>,

    /// Tokens that the reference writes after each question; both models are compared at each
    #[arg(long, value_name = "N", default_value = "8", value_parser = count)]
    pub tokens: usize,

    #[command(flatten)]
    pub edge: EdgeArgs,

    #[command(flatten)]
    pub machine: MachineArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct BenchAskArgs {
    /// Context lengths to measure at
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "128,256,512,1024,2048,4096",
        value_parser = up_to::<1_048_576>
    )]
    pub lengths: Vec<usize>,

    /// Asks at each length
    #[arg(long, value_name = "N", default_value = "20", value_parser = count)]
    pub asks: usize,

    /// Tokens accepted from the edge between two asks
    #[arg(long, value_name = "N", default_value = "8", value_parser = count)]
    pub append: usize,

    /// Empty the cloud's cache before every ask, as in the original system
    #[arg(long, conflicts_with = "cloud")]
    pub no_reuse: bool,

    #[command(flatten)]
    pub cloud: CloudModelArgs,

    /// Computing threads
    #[arg(long, value_name = "N", value_parser = up_to::<1024>)]
    pub threads: Option<usize>,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct BenchJointArgs {
    #[command(flatten)]
    pub generate: GenerateArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(feature = "lab")]
#[derive(Debug, ClapArgs)]
pub struct BenchOriginalArgs {
    /// Tokens of each answer
    #[arg(long, value_name = "N", default_value = "64", value_parser = count)]
    pub tokens: usize,

    /// The number of prompts, at most 4
    #[arg(long, value_name = "N", default_value = "4", value_parser = count)]
    pub prompts: usize,

    #[command(flatten)]
    pub generate: GenerateArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(feature = "lab")]
#[derive(Debug, ClapArgs)]
pub struct BenchNetworkArgs {
    /// Round trips to play the answers at; 0 ms is always among them
    #[arg(
        long,
        value_name = "TIME,…",
        value_delimiter = ',',
        value_parser = round_trip,
        default_value = "0ms,50ms,170ms,400ms"
    )]
    pub rtt: Vec<std::time::Duration>,

    /// Prompts of a task of `tandem eval`, from --data; without it, four questions of its own
    #[arg(long, value_name = "TASK")]
    pub task: Option<lab::eval::TaskName>,

    /// The questions, as JSON lines
    #[arg(long, value_name = "FILE", requires = "task")]
    pub data: Vec<std::path::PathBuf>,

    /// Only the first N questions
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<usize>,

    /// Runs of each point, in turn; the median counts
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub runs: usize,

    #[command(flatten)]
    pub generate: GenerateArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(feature = "lab")]
fn round_trip(text: &str) -> Result<std::time::Duration, String> {
    cloud::delay::duration(text).ok_or_else(|| "write a time, as in 0ms, 170ms or 0.4s".into())
}

#[derive(Debug, ClapArgs)]
pub struct BenchServeArgs {
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value = "64", value_parser = count)]
    pub tokens: usize,

    /// Runs of each kind, in turn; the median counts
    #[arg(long, value_name = "N", default_value = "5", value_parser = count)]
    pub runs: usize,

    /// Texts at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = up_to::<256>)]
    pub chats: usize,

    #[command(flatten)]
    pub serve: ServeArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(feature = "lab")]
#[derive(Debug, ClapArgs)]
pub struct BenchBudgetArgs {
    /// Prompts, as JSON lines
    #[arg(long, value_name = "FILE", required = true)]
    pub prompts: Vec<std::path::PathBuf>,

    /// Only the first N prompts
    #[arg(long, value_name = "N", default_value = "50", value_parser = count)]
    pub limit: usize,

    /// Skip this many prompts first
    #[arg(long, value_name = "N", default_value = "0", value_parser = between::<0, 1_000_000>)]
    pub skip: usize,

    /// Routers: files or names. Without any, that of the pair
    #[arg(long, value_name = "NAME|FILE,…", value_delimiter = ',')]
    pub router: Vec<tandem::RouterSpec>,

    /// Budgets
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_value = "10%")]
    pub budget: Vec<tandem::Share>,

    /// Stop an answer after this many tokens
    #[arg(long, value_name = "N", default_value = "64", value_parser = count)]
    pub max_tokens: usize,

    /// Fail if a mean is further from its budget than this
    #[arg(long, value_name = "SHARE")]
    pub within: Option<tandem::Share>,

    #[command(flatten)]
    pub pair: super::PairArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}
