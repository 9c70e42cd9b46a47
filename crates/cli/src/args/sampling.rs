//! How both models choose their tokens.

use clap::Args as ClapArgs;

use crate::config::between;

#[derive(Clone, Debug, ClapArgs)]
pub struct SamplingArgs {
    /// 0 always takes the most likely token
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub temperature: f32,

    /// Draw from the most likely tokens that together reach this probability
    #[arg(
        long,
        value_name = "P",
        default_value_t = 1.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub top_p: f32,

    /// Draw from the K most likely tokens; 0 for all
    #[arg(long, value_name = "K", default_value = "0", value_parser = between::<0, 1_000_000>, help_heading = "Sampling")]
    pub top_k: usize,

    /// Draw from tokens at least this likely, relative to the most likely
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub min_p: f32,

    /// Above 1, makes the last 64 tokens less likely to be repeated
    #[arg(
        long,
        value_name = "R",
        default_value_t = 1.0,
        allow_negative_numbers = true,
        help_heading = "Sampling"
    )]
    pub repetition_penalty: f32,

    /// The same seed gives the same text; without one, each run draws its own
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    pub seed: Option<u64>,
}
