//! The text of a generation as it grows, with its limits, stop strings and trace.

use std::time::{Duration, Instant};

use crate::{
    Constrained, Exchange, Score, Token,
    stats::{Stats, Totals},
    stop::StopFilter,
    text::TextStream,
    trace::{Accepted, Alternative, FinishReason, Sent, Source, Span, Speculation, Times, Usage},
};

/// Ends a generation that the models do not end themselves.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The text ends after this many tokens.
    pub max_tokens: usize,
    /// The text ends before the first of these strings.
    pub stops: Vec<String>,
}

/// One token that is about to be accepted.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub id: Option<Token>,
    pub bytes: Vec<u8>,
    pub logprob: Option<f32>,
}

/// Tokens that are about to be accepted, with what the trace says about them.
#[derive(Debug, Default)]
pub(crate) struct NewTokens {
    pub tokens: Vec<Piece>,
    /// Set where the cloud wrote them.
    pub exchange: Option<Exchange>,
    pub source: Source,
    pub score: Option<Score>,
    pub eligible: Option<bool>,
    pub constrained: Option<Constrained>,
    pub times: Times,
    pub usage: Option<Usage>,
    /// Whether the cloud judged this place together with others.
    pub judged: bool,
    pub speculation: Option<Speculation>,
    pub alternatives: Vec<Alternative>,
    pub sent: Option<String>,
}

/// A text as the models read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub tokens: Vec<Token>,
    /// As far as its characters are whole.
    pub text: String,
    stream: TextStream,
}

impl Written {
    /// Adds a token; returns the characters that became whole with it.
    pub fn push(&mut self, id: Option<Token>, bytes: &[u8]) -> String {
        let text = self.stream.push(bytes);
        self.text.push_str(&text);
        self.tokens.extend(id);
        text
    }

    /// Whether the last token ended inside a character.
    pub fn is_inside_character(&self) -> bool {
        self.stream.is_inside_character()
    }
}

/// How many bytes a text tells of what was sent for it, all its tokens together. A cloud without sessions is
/// sent the whole text again for each of them.
const MOST_SENT_TOLD: usize = 1 << 20;

/// Everything accepted in one generation.
#[derive(Debug)]
pub struct Transcript {
    written: Written,
    /// How many tokens were accepted, with an id or without.
    accepted: usize,
    stop: StopFilter,
    max_tokens: usize,
    shown: Vec<Accepted>,
    finish: Option<FinishReason>,
    started: Instant,
    first: Option<Instant>,
    last: Instant,
    /// From what was accepted to what was accepted next, for all that took time.
    gaps: Vec<Duration>,
    ended: Option<Instant>,
    /// Bytes that are told of what was sent.
    sent_told: usize,
    totals: Totals,
}

impl Default for Transcript {
    /// The transcript of a text that was never started.
    fn default() -> Self {
        Self::new(Limits { max_tokens: 0, stops: vec![] })
    }
}

impl Transcript {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            written: Written::default(),
            accepted: 0,
            stop: StopFilter::new(limits.stops),
            max_tokens: limits.max_tokens,
            shown: vec![],
            finish: None,
            started: now,
            first: None,
            last: now,
            gaps: vec![],
            ended: None,
            sent_told: 0,
            totals: Totals::default(),
        }
    }

    /// Every accepted token whose id is known: all of them, unless a cloud without ids writes alone.
    pub fn tokens(&self) -> &[Token] {
        &self.written.tokens
    }

    /// The text of every accepted token, as far as its characters are whole.
    pub fn accepted_text(&self) -> &str {
        &self.written.text
    }

    /// Everything accepted, as the models read it.
    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// Whether one of the stop strings is in this text.
    pub(crate) fn stops_in(&self, text: &str) -> bool {
        self.stop.is_in(text)
    }

    /// The tokens shown so far: all accepted ones except those that a stop string cut off or that
    /// are held back because they may begin one.
    pub fn shown(&self) -> &[Accepted] {
        &self.shown
    }

    /// The text of all shown tokens, joined.
    pub fn text(&self) -> String {
        self.shown.iter().map(|t| t.text.as_str()).collect()
    }

    /// Why the text ended; `None` while it still grows.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.finish
    }

    /// The stop string that ended the text, if one did.
    pub fn stop_string(&self) -> Option<&str> {
        self.stop.found()
    }

    /// How long ago the last token was accepted; `None` before the first of this generation.
    pub(crate) fn since_last(&self) -> Option<Duration> {
        self.first.map(|_| self.last.elapsed())
    }

    /// How long a reader waited for each span but the first, in order.
    pub fn gaps(&self) -> &[Duration] {
        &self.gaps
    }

    /// How many tokens may still be accepted.
    pub(crate) fn room(&self) -> usize {
        self.max_tokens - self.accepted
    }

    /// Counts what a position cost, whether or not it led to a token.
    pub(crate) fn add_cost(&mut self, times: Times, usage: Option<Usage>) {
        self.totals.times += times;
        self.totals.asks.extend(usage);
    }

    /// Counts what the edge read in a step, by its own account, where `new` tokens were to be read
    /// behind `before` others. The first step reads what its cache does not hold of the prompt; a
    /// later one reads more than is new only where the cache was lost.
    pub(crate) fn edge_read(&mut self, read: usize, new: usize, before: usize) {
        let totals = &mut self.totals;
        if totals.edge_steps == 0 {
            totals.edge_prefilled = read;
            totals.edge_cached = (before + new).saturating_sub(read);
        } else {
            totals.edge_prefilled += read.saturating_sub(new);
        }
        totals.edge_steps += 1;
    }

    /// Counts a token that was read ahead, or an answer behind which the edge had gone on, by what came
    /// of that.
    pub(crate) fn add_speculation(&mut self, speculation: Speculation) {
        match speculation {
            Speculation::Provisional => self.totals.provisional_tokens += 1,
            Speculation::Confirmed => self.totals.confirmed_asks += 1,
            Speculation::Branch => self.totals.branch_asks += 1,
            Speculation::Judged => self.totals.judged_asks += 1,
            Speculation::Contradicted => self.totals.contradicted_asks += 1,
            Speculation::Foreseen => self.totals.foreseen_asks += 1,
        }
    }

    /// Counts a place that the edge read in vain, and the ask that was made there, if one was.
    pub(crate) fn add_void(&mut self, times: Times, asked: bool) {
        self.add_cost(times, None);
        self.totals.void_steps += 1;
        self.add_void_asks(usize::from(asked));
    }

    /// Counts asks whose answers are not used.
    pub(crate) fn add_void_asks(&mut self, asks: usize) {
        self.totals.void_asks += asks;
    }

    pub(crate) fn add_sent(&mut self, sent: &Sent) {
        self.totals.sent_bytes += sent.bytes;
    }

    /// What was sent for a token, as long as there is not too much of it.
    fn told_of(&mut self, words: String) -> String {
        self.sent_told = self.sent_told.saturating_add(words.len());
        if self.sent_told <= MOST_SENT_TOLD {
            return words;
        }
        format!("[{} bytes, left out: this text has told enough of what was sent]", words.len())
    }

    /// Accepts the part of the answer that was written before this generation.
    pub(crate) fn begin_with(&mut self, tokens: Vec<Piece>) {
        if tokens.is_empty() {
            return;
        }
        self.accept(NewTokens { tokens, ..NewTokens::default() });
        // Nothing has been shown of this generation yet.
        self.first = None;
    }

    /// Accepts tokens up to the limit and returns those that can be shown.
    pub(crate) fn accept(&mut self, written: NewTokens) -> Span {
        let mut span = Span::default();
        // What is accepted along with other tokens, in a call of its own, is nobody's wait.
        let waited = self.since_last().filter(|_| written.times != Times::default());
        self.gaps.extend(waited);
        self.add_cost(written.times, written.usage);
        let (mut times, mut usage) = (written.times, written.usage);
        let mut sent = written.sent.map(|words| self.told_of(words));
        let mut alternatives = written.alternatives;
        let mut speculation = written.speculation;
        for Piece { id, bytes, logprob } in written.tokens {
            let text = self.written.push(id, &bytes);
            let token = Accepted {
                index: self.accepted,
                id,
                text,
                source: written.source,
                score: written.score,
                eligible: written.eligible,
                constrained: written.constrained,
                exchange: written.exchange,
                times: std::mem::take(&mut times),
                cloud: usage.take(),
                logprob,
                speculation: speculation.take(),
                alternatives: std::mem::take(&mut alternatives),
                sent: sent.take(),
            };
            self.accepted += 1;
            let (released, stopped) = self.stop.push(token);
            self.show(&mut span, released);
            if stopped {
                self.finish = Some(FinishReason::Stop);
                break;
            }
            if self.accepted == self.max_tokens {
                self.close(&mut span, FinishReason::Length);
                break;
            }
        }
        self.last = Instant::now();
        self.first.get_or_insert(self.last);
        span
    }

    /// Ends the text and returns what was held back. Only the first reason counts.
    pub(crate) fn end(&mut self, reason: FinishReason) -> Span {
        let mut span = Span::default();
        if self.finish.is_none() {
            self.close(&mut span, reason);
        }
        span
    }

    /// Ends the text because this source wrote end-of-text.
    pub(crate) fn end_by(&mut self, source: Source, reason: FinishReason) -> Span {
        self.totals.fallback_end = source == Source::Fallback;
        self.end(reason)
    }

    fn close(&mut self, span: &mut Span, reason: FinishReason) {
        let held = self.stop.finish();
        self.show(span, held);
        span.rest = self.written.stream.finish();
        self.written.text.push_str(&span.rest);
        if let Some(last) = self.shown.last_mut() {
            last.text.push_str(&span.rest);
        }
        self.finish = Some(reason);
        self.ended = Some(Instant::now());
    }

    fn show(&mut self, span: &mut Span, tokens: Vec<Accepted>) {
        self.shown.extend_from_slice(&tokens);
        span.tokens.extend(tokens);
    }

    /// Statistics of the tokens shown so far.
    pub fn stats(&self) -> Stats {
        let (shown, totals) = (&self.shown, &self.totals);
        let count = |source| shown.iter().filter(|t| t.source == source).count();
        let (tokens, cloud_tokens) = (shown.len(), count(Source::Cloud));
        let characters = shown.iter().map(|t| t.text.chars().count()).sum();
        let total = self.ended.unwrap_or(self.last) - self.started;
        let since_first = self.first.map_or(Duration::ZERO, |first| self.last - first);
        let rate = |n: usize| if total.is_zero() { 0.0 } else { n as f64 / total.as_secs_f64() };
        let gaps = u32::try_from(tokens.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        Stats {
            tokens,
            cloud_tokens,
            fallback_tokens: count(Source::Fallback),
            fallback_end: totals.fallback_end,
            routed_share: cloud_tokens as f64 / tokens.max(1) as f64,
            asks: totals.asks.len(),
            failovers: totals.asks.iter().map(|a| a.failovers).max().unwrap_or(0),
            asks_by_cloud: totals.asks_by_cloud(),
            cloud_prefilled: totals.asks.iter().map(|a| a.prefilled).sum(),
            cloud_cached: totals.asks.iter().map(|a| a.cached).sum(),
            cloud_decoded: totals.asks.iter().map(|a| a.decoded).sum(),
            edge_prefilled: totals.edge_prefilled,
            edge_cached: totals.edge_cached,
            fallbacks: count(Source::Fallback) + usize::from(totals.fallback_end),
            provisional_tokens: totals.provisional_tokens,
            confirmed_asks: totals.confirmed_asks,
            branch_asks: totals.branch_asks,
            judged_asks: totals.judged_asks,
            contradicted_asks: totals.contradicted_asks,
            foreseen_asks: totals.foreseen_asks,
            void_asks: totals.void_asks,
            void_steps: totals.void_steps,
            sent_bytes: totals.sent_bytes,
            characters,
            time_to_first_token: self.first.map_or(Duration::ZERO, |first| first - self.started),
            mean_time_between_tokens: since_first / gaps,
            total,
            tokens_per_second: rate(tokens),
            characters_per_second: rate(characters),
            times: totals.times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cloud that keeps no sessions is sent the whole text for each token.
    #[test]
    fn a_text_does_not_tell_again_and_again_what_was_sent() {
        let mut transcript = Transcript::new(Limits { max_tokens: 100, stops: vec![] });
        let context = "x".repeat(MOST_SENT_TOLD / 10);
        for _ in 0..50 {
            transcript.accept(NewTokens {
                tokens: vec![Piece { bytes: b"a".to_vec(), ..Piece::default() }],
                sent: Some(context.clone()),
                ..NewTokens::default()
            });
        }
        let told: Vec<_> = transcript.shown().iter().filter_map(|t| t.sent.as_deref()).collect();
        assert_eq!(told.len(), 50);
        assert!(told[..10].iter().all(|sent| *sent == context));
        assert!(told[10..].iter().all(|sent| sent.contains("104857 bytes, left out")));
    }
}
