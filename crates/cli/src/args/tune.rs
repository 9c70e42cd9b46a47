//! `tandem tune`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use tandem::Share;

use super::{PairArgs, SYSTEM};
use crate::config::{between, count, up_to};

#[derive(Debug, ClapArgs)]
pub struct TuneArgs {
    /// Prompts, as JSON lines: prompt, or any shape that `router collect` reads. Where there is a right
    /// answer, it is used; worked answers are not
    #[arg(long, value_name = "FILE", required = true)]
    pub prompts: Vec<PathBuf>,

    /// The folder of the preset; an interrupted run resumes from what is in it
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,

    /// Estimate what it will take, and do nothing else
    #[arg(long)]
    pub dry_run: bool,

    /// Only the first N prompts
    #[arg(long, value_name = "N", value_parser = count)]
    pub limit: Option<usize>,

    /// Rounds of answers and training; from the second on, both models write the answers with the
    /// router of the last. More can be added later
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<20>)]
    pub rounds: usize,

    /// The preset's default budget; it is judged at half of it, at it, and at twice as much
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    pub budget: Share,

    /// Stop an answer after this many tokens
    #[arg(long, value_name = "N", default_value = "320", value_parser = count)]
    pub max_tokens: usize,

    /// Continue the answer to its end behind at most this many of the small model's tokens that the
    /// large one objects to, to see whether they do harm
    #[arg(long, value_name = "N", default_value = "200", value_parser = between::<0, 1_000_000>)]
    pub rollouts: usize,

    /// Answer at most this many of the prompts that were held out, to judge the router
    #[arg(long, value_name = "N", default_value = "15", value_parser = between::<0, 1_000_000>)]
    pub judge: usize,

    /// Prompts processed at the same time. With more than 1 in this process, another run may end with
    /// a slightly different router
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<256>)]
    pub parallel: usize,

    /// The seed that chooses what is held out, what is rolled out, and the initial weights
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// The system message, given to both models
    #[arg(long, value_name = "TEXT", default_value = SYSTEM)]
    pub system: String,

    /// The adapters of a preset
    #[arg(long, value_name = "NAME|FOLDER")]
    pub preset: Option<String>,

    #[command(flatten)]
    pub pair: PairArgs,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}
