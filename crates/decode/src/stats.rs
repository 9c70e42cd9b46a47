//! Counts, speeds and times of one generation.

use std::time::Duration;

use serde::Serialize;

use crate::trace::{Times, Usage, milliseconds};

/// What a generation did and where its time went.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stats {
    /// Accepted tokens, in the edge's vocabulary (in mode `large`, the cloud's).
    pub tokens: usize,
    /// How many of them the cloud wrote.
    pub cloud_tokens: usize,
    /// How many of them the edge wrote because the cloud failed.
    pub fallback_tokens: usize,
    /// Whether the edge ended the text at a position where the cloud was asked and failed.
    pub fallback_end: bool,
    /// `cloud_tokens` divided by `tokens`.
    pub routed_share: f64,
    /// How often the cloud answered.
    pub asks: usize,
    /// How often another cloud of several took over, because the one that had the conversation failed.
    pub failovers: usize,
    /// How often each of several clouds answered, in the order they were given; empty with one.
    pub asks_by_cloud: Vec<usize>,
    /// Tokens the cloud read for its answers; unknown where the engine does not report it.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub cloud_prefilled: Option<usize>,
    /// Tokens it found in its cache instead; unknown where the engine does not report it.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub cloud_cached: Option<usize>,
    /// Tokens the cloud wrote, including look-ahead that was cut off.
    pub cloud_decoded: usize,
    /// Tokens the edge read before it could write its first, and those it had to read again, by its
    /// own count.
    pub edge_prefilled: usize,
    /// Tokens of the prompt it found in its cache instead.
    pub edge_cached: usize,
    /// How often the edge stood in for a cloud that failed.
    pub fallbacks: usize,
    /// Tokens that the edge had gone on to before it was certain that the text would come there.
    pub provisional_tokens: usize,
    /// Answers that were the edge's own choice, where it had gone on behind that: nothing was to be
    /// done again.
    pub confirmed_asks: usize,
    /// Answers that were another of the edge's choices, where it had gone on behind that too.
    pub branch_asks: usize,
    /// Answers that were the edge's own choice, where the cloud judged several places with one request.
    pub judged_asks: usize,
    /// Answers that were another token, where the edge had gone on: that was in vain.
    pub contradicted_asks: usize,
    /// Doubtful places whose answer had come with an earlier one; they are not in `asks`.
    pub foreseen_asks: usize,
    /// Asks whose answer was not used, because the text went another way; they are not in `asks`.
    pub void_asks: usize,
    /// Tokens that the edge read in vain.
    pub void_steps: usize,
    /// Bytes that left this device for the cloud.
    pub sent_bytes: usize,
    /// Unicode characters in the text that was shown.
    pub characters: usize,
    /// From the prompt to the first token.
    #[serde(rename = "time_to_first_token_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub time_to_first_token: Duration,
    /// Mean gap between tokens after the first.
    #[serde(rename = "mean_time_between_tokens_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub mean_time_between_tokens: Duration,
    /// From the prompt to the end.
    #[serde(rename = "total_ms", serialize_with = "milliseconds")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub total: Duration,
    /// `tokens` divided by `total`.
    pub tokens_per_second: f64,
    /// `characters` divided by `total`: comparable between models with different vocabularies.
    pub characters_per_second: f64,
    /// Where `total` was spent.
    #[serde(flatten)]
    pub times: Times,
}

/// Running totals, which include what was spent on tokens that are never shown.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub times: Times,
    pub asks: Vec<Usage>,
    pub fallback_end: bool,
    pub edge_steps: usize,
    pub edge_prefilled: usize,
    pub edge_cached: usize,
    pub provisional_tokens: usize,
    pub confirmed_asks: usize,
    pub branch_asks: usize,
    pub judged_asks: usize,
    pub contradicted_asks: usize,
    pub foreseen_asks: usize,
    pub void_asks: usize,
    pub void_steps: usize,
    pub sent_bytes: usize,
}

impl Totals {
    /// How often each of several clouds answered.
    pub fn asks_by_cloud(&self) -> Vec<usize> {
        let mut counts: Vec<usize> = vec![];
        for cloud in self.asks.iter().filter_map(|usage| usage.answered_by) {
            counts.resize(counts.len().max(cloud), 0);
            if let Some(count) = counts.get_mut(cloud.wrapping_sub(1)) {
                *count += 1;
            }
        }
        counts
    }
}
