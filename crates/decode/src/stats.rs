//! Counts, speeds and times of one generation.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::trace::{Accepted, Source, Times, Usage, milliseconds};

/// What a generation did and where its time went.
#[derive(Clone, Debug, Serialize)]
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
    /// Tokens the cloud read for its answers; `None` where the engine does not report it.
    pub cloud_prefilled: Option<usize>,
    /// Tokens it found in its cache instead; `None` where the engine does not report it.
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
    /// Bytes that left this device for the cloud.
    pub sent_bytes: usize,
    /// Unicode characters in the text that was shown.
    pub characters: usize,
    /// From the prompt to the first token.
    #[serde(rename = "time_to_first_token_ms", serialize_with = "milliseconds")]
    pub time_to_first_token: Duration,
    /// Mean gap between tokens after the first.
    #[serde(rename = "mean_time_between_tokens_ms", serialize_with = "milliseconds")]
    pub mean_time_between_tokens: Duration,
    /// From the prompt to the end.
    #[serde(rename = "total_ms", serialize_with = "milliseconds")]
    pub total: Duration,
    /// `tokens` divided by `total`.
    pub tokens_per_second: f64,
    /// `characters` divided by `total`: comparable between models with different vocabularies.
    pub characters_per_second: f64,
    /// Where `total` was spent.
    #[serde(flatten)]
    pub times: Times,
}

/// The moments that the durations in [`Stats`] are measured between.
pub(crate) struct Clock {
    pub started: Instant,
    pub first: Option<Instant>,
    pub last: Instant,
    pub ended: Instant,
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
    pub sent_bytes: usize,
}

impl Stats {
    pub(crate) fn new(shown: &[Accepted], totals: &Totals, clock: Clock) -> Self {
        let count = |source| shown.iter().filter(|t| t.source == source).count();
        let (tokens, cloud_tokens) = (shown.len(), count(Source::Cloud));
        let characters = shown.iter().map(|t| t.text.chars().count()).sum();
        let total = clock.ended - clock.started;
        let since_first = clock.first.map_or(Duration::ZERO, |first| clock.last - first);
        let rate = |n: usize| if total.is_zero() { 0.0 } else { n as f64 / total.as_secs_f64() };
        let gaps = u32::try_from(tokens.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        Self {
            tokens,
            cloud_tokens,
            fallback_tokens: count(Source::Fallback),
            fallback_end: totals.fallback_end,
            routed_share: cloud_tokens as f64 / tokens.max(1) as f64,
            asks: totals.asks.len(),
            cloud_prefilled: totals.asks.iter().map(|a| a.prefilled).sum(),
            cloud_cached: totals.asks.iter().map(|a| a.cached).sum(),
            cloud_decoded: totals.asks.iter().map(|a| a.decoded).sum(),
            edge_prefilled: totals.edge_prefilled,
            edge_cached: totals.edge_cached,
            fallbacks: count(Source::Fallback) + usize::from(totals.fallback_end),
            sent_bytes: totals.sent_bytes,
            characters,
            time_to_first_token: clock.first.map_or(Duration::ZERO, |f| f - clock.started),
            mean_time_between_tokens: since_first / gaps,
            total,
            tokens_per_second: rate(tokens),
            characters_per_second: rate(characters),
            times: totals.times,
        }
    }
}
