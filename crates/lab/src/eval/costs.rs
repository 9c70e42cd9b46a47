//! What an answer cost, from its trace.

use std::time::Duration;

use decode::{Accepted, Source, Transcript, trace::Times};
use serde::{Deserialize, Serialize};
use tandem::config::{CLOUD_CHUNK, EDGE_CHUNK};

/// What one answer cost. Times are milliseconds and do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    pub tokens: usize,
    /// Of them, from the cloud.
    pub cloud_tokens: usize,
    /// Of them, from the edge because the cloud could not be reached.
    pub fallback_tokens: usize,
    pub characters: usize,
    /// Times the cloud answered.
    pub asks: usize,
    /// Tokens the cloud read, where it said so.
    pub cloud_prefilled: Option<usize>,
    /// Tokens the cloud found in its cache, where it said so.
    pub cloud_cached: Option<usize>,
    /// Tokens the cloud wrote, look-ahead included.
    pub cloud_decoded: usize,
    /// Tokens of the prompt.
    #[serde(default)]
    pub prompt: usize,
    /// Bytes that left this device for the cloud.
    #[serde(default)]
    pub sent_bytes: usize,
    /// What this machine's processors used meanwhile, for everything that ran; `None` where that is not
    /// counted, or other answers were made beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
    /// Bytes of weights and caches moved through memory by the edge.
    pub edge_bytes: u64,
    /// The same by the cloud; `None` where its size is not known.
    pub cloud_bytes: Option<u64>,
    pub first_token_ms: f64,
    /// From the prompt to the end, without loading models.
    pub total_ms: f64,
    /// The gaps between accepted spans, in order, as a reader waits for them.
    pub between_ms: Vec<f64>,
    pub split: TimeSplit,
}

/// Where the time of an answer went, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    pub edge_prefill_ms: f64,
    pub edge_decode_ms: f64,
    /// The edge reading what the cloud wrote.
    pub edge_reprefill_ms: f64,
    pub router_ms: f64,
    /// The way to the cloud and back.
    pub network_ms: f64,
    /// Waiting for others at the cloud.
    pub cloud_queue_ms: f64,
    pub cloud_prefill_ms: f64,
    pub cloud_decode_ms: f64,
}

impl TimeSplit {
    /// Its parts by name, in the order of the pictures.
    pub fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("edge prefill", self.edge_prefill_ms),
            ("edge decode", self.edge_decode_ms),
            ("re-prefill", self.edge_reprefill_ms),
            ("router", self.router_ms),
            ("network", self.network_ms),
            ("cloud queue", self.cloud_queue_ms),
            ("cloud prefill", self.cloud_prefill_ms),
            ("cloud decode", self.cloud_decode_ms),
        ]
    }

    /// Where the time of a token went, on average over answers that have so many together.
    pub fn per_token<'a>(splits: impl Iterator<Item = &'a Self> + Clone, tokens: usize) -> Self {
        let factor = 1.0 / tokens as f64;
        let part = |part: fn(&Self) -> f64| splits.clone().map(part).sum::<f64>() * factor;
        Self {
            edge_prefill_ms: part(|s| s.edge_prefill_ms),
            edge_decode_ms: part(|s| s.edge_decode_ms),
            edge_reprefill_ms: part(|s| s.edge_reprefill_ms),
            router_ms: part(|s| s.router_ms),
            network_ms: part(|s| s.network_ms),
            cloud_queue_ms: part(|s| s.cloud_queue_ms),
            cloud_prefill_ms: part(|s| s.cloud_prefill_ms),
            cloud_decode_ms: part(|s| s.cloud_decode_ms),
        }
    }
}

/// What a model moves through memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Its weights, once a pass.
    pub weights: u64,
    /// Its cache, for every token of context, once a pass.
    pub cache_per_token: u64,
}

impl Footprint {
    fn pass(&self, context: usize) -> u64 {
        self.weights + self.cache_per_token * context as u64
    }

    /// A prompt read in chunks.
    fn prompt(&self, tokens: usize, chunk: usize) -> u64 {
        let ends = (1..=tokens.div_ceil(chunk)).map(|i| (i * chunk).min(tokens));
        ends.map(|end| self.pass(end)).sum()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub edge: Footprint,
    /// The cloud; `None` where it does not say.
    pub cloud: Option<Footprint>,
}

/// What one answer cost, if nobody had read the prompt before.
pub fn costs(transcript: &Transcript, prompt: usize, sizes: &Sizes) -> Costs {
    let (stats, shown) = (transcript.stats(), transcript.shown());
    let spans = spans(shown);
    let load = stats.times.cloud_load;
    let first_load = spans.first().map_or(Duration::ZERO, |s| s.times.cloud_load);
    let wrote_edge = stats.times.edge_decode > Duration::ZERO;
    Costs {
        tokens: stats.tokens,
        cloud_tokens: stats.cloud_tokens,
        fallback_tokens: stats.fallback_tokens,
        characters: stats.characters,
        asks: stats.asks,
        cloud_prefilled: stats.cloud_prefilled,
        cloud_cached: stats.cloud_cached,
        cloud_decoded: stats.cloud_decoded,
        prompt,
        sent_bytes: stats.sent_bytes,
        joules: None,
        edge_bytes: if wrote_edge { edge_bytes(&spans, prompt, &sizes.edge) } else { 0 },
        cloud_bytes: sizes.cloud.map(|cloud| cloud_bytes(&spans, prompt, &cloud)),
        first_token_ms: ms(stats.time_to_first_token.saturating_sub(first_load)),
        total_ms: ms(stats.total.saturating_sub(load)),
        between_ms: transcript.gaps().iter().copied().map(ms).collect(),
        split: split(&stats.times, spans.first().map(|span| &span.times)),
    }
}

/// Tokens that were accepted together.
struct Span {
    /// Accepted tokens before it.
    before: usize,
    tokens: usize,
    source: Source,
    times: Times,
    decoded: usize,
}

fn spans(shown: &[Accepted]) -> Vec<Span> {
    let mut spans: Vec<Span> = vec![];
    for token in shown {
        // All of a span's time is on its first token.
        let begins = token.times != Times::default();
        match spans.last_mut() {
            Some(span) if !begins => span.tokens += 1,
            _ => spans.push(Span {
                before: token.index,
                tokens: 1,
                source: token.source,
                times: token.times,
                decoded: token.cloud.map_or(0, |usage| usage.decoded),
            }),
        }
    }
    spans
}

fn edge_bytes(spans: &[Span], prompt: usize, edge: &Footprint) -> u64 {
    // Behind every span it looks once more; a span of several tokens is read in two passes.
    let written = spans.iter().map(|span| {
        let passes = if span.tokens > 1 { 2 } else { 1 };
        edge.pass(prompt + span.before + span.tokens) * passes
    });
    edge.prompt(prompt, EDGE_CHUNK) + written.sum::<u64>()
}

fn cloud_bytes(spans: &[Span], prompt: usize, cloud: &Footprint) -> u64 {
    let asks: Vec<_> = spans.iter().filter(|s| s.source == Source::Cloud).collect();
    if asks.is_empty() {
        return 0;
    }
    let written = asks.iter().map(|span| {
        let passes = span.decoded.max(1) as u64 + 1;
        cloud.pass(prompt + span.before) * passes
    });
    cloud.prompt(prompt, CLOUD_CHUNK) + written.sum::<u64>()
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn split(all: &Times, first: Option<&Times>) -> TimeSplit {
    let prompt = first.map_or(all.edge_prefill, |times| times.edge_prefill);
    TimeSplit {
        edge_prefill_ms: ms(prompt),
        edge_decode_ms: ms(all.edge_decode),
        edge_reprefill_ms: ms(all.edge_prefill.saturating_sub(prompt)),
        router_ms: ms(all.router),
        network_ms: ms(all.network),
        cloud_queue_ms: ms(all.cloud_queue),
        cloud_prefill_ms: ms(all.cloud_prefill),
        cloud_decode_ms: ms(all.cloud_decode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_move_weights_and_the_context_so_far() {
        let model = Footprint { weights: 1000, cache_per_token: 1 };
        assert_eq!(model.prompt(64, EDGE_CHUNK), 1064);
        assert_eq!(model.prompt(65, EDGE_CHUNK), 1064 + 1065);
        let span = |before, tokens, source, decoded| Span {
            before,
            tokens,
            source,
            times: Times::default(),
            decoded,
        };
        let spans = [span(0, 1, Source::Edge, 0), span(1, 2, Source::Cloud, 3)];
        // The prompt; behind the first token; behind the word of two, in two passes.
        assert_eq!(edge_bytes(&spans, 10, &model), 1010 + 1011 + 2 * 1013);
        // The prompt; then what is new, and three tokens written.
        assert_eq!(cloud_bytes(&spans, 10, &model), 1010 + 4 * 1011);
        assert_eq!(cloud_bytes(&spans[..1], 10, &model), 0);
    }
}
