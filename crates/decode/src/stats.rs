//! A generation in figures.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::trace::{Accepted, Source, Times, Usage, milliseconds};

/// What a generation did and where its time went.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Accepted tokens.
    pub tokens: usize,
    /// Of them, from the cloud.
    pub cloud_tokens: usize,
    /// Of them, from the edge because the cloud could not be had.
    pub fallback_tokens: usize,
    /// Whether the text ends where it does because the cloud could not be had.
    pub fallback_end: bool,
    /// Tokens from the cloud, divided by all.
    pub routed_share: f64,
    /// Times the cloud answered.
    pub asks: usize,
    /// Tokens the cloud read for that; `None` where it did not say.
    pub cloud_prefilled: Option<usize>,
    /// Tokens it found in its cache instead; `None` where it did not say.
    pub cloud_cached: Option<usize>,
    /// Tokens the cloud wrote for that, look-ahead included.
    pub cloud_decoded: usize,
    /// Tokens the edge read before it could write its first, and those it had to read again, by its
    /// own count.
    pub edge_prefilled: usize,
    /// Tokens of the prompt it found in its cache instead.
    pub edge_cached: usize,
    /// Times the edge stood in for a cloud that could not be had.
    pub fallbacks: usize,
    /// Bytes that left this device for the cloud.
    pub sent_bytes: usize,
    /// Characters of text.
    pub characters: usize,
    /// From the prompt to the first token.
    #[serde(rename = "time_to_first_token_ms", serialize_with = "milliseconds")]
    pub time_to_first_token: Duration,
    /// Mean of the gaps behind it.
    #[serde(rename = "mean_time_between_tokens_ms", serialize_with = "milliseconds")]
    pub mean_time_between_tokens: Duration,
    /// From the prompt to the end.
    #[serde(rename = "total_ms", serialize_with = "milliseconds")]
    pub total: Duration,
    /// Tokens, divided by the total.
    pub tokens_per_second: f64,
    /// Characters, divided by the total: how models of different vocabularies compare.
    pub characters_per_second: f64,
    /// Where the time went.
    #[serde(flatten)]
    pub times: Times,
}

/// When things happened.
pub(crate) struct Clock {
    pub started: Instant,
    pub first: Option<Instant>,
    pub last: Instant,
    pub ended: Instant,
}

/// What was spent, also on what is not shown.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub times: Times,
    pub asks: Vec<Usage>,
    pub fallback_end: bool,
    pub edge_steps: usize,
    pub edge_prefilled: usize,
    pub edge_cached: usize,
    pub sent_bytes: usize,
}

impl Stats {
    pub(crate) fn new(shown: &[Accepted], tally: &Tally, clock: Clock) -> Self {
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
            fallback_end: tally.fallback_end,
            routed_share: cloud_tokens as f64 / tokens.max(1) as f64,
            asks: tally.asks.len(),
            cloud_prefilled: tally.asks.iter().map(|a| a.prefilled).sum(),
            cloud_cached: tally.asks.iter().map(|a| a.cached).sum(),
            cloud_decoded: tally.asks.iter().map(|a| a.decoded).sum(),
            edge_prefilled: tally.edge_prefilled,
            edge_cached: tally.edge_cached,
            fallbacks: count(Source::Fallback) + usize::from(tally.fallback_end),
            sent_bytes: tally.sent_bytes,
            characters,
            time_to_first_token: clock.first.map_or(Duration::ZERO, |f| f - clock.started),
            mean_time_between_tokens: since_first / gaps,
            total,
            tokens_per_second: rate(tokens),
            characters_per_second: rate(characters),
            times: tally.times,
        }
    }
}
