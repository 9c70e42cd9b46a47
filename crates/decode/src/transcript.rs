//! The joint text as it grows: limits, stop strings, whole characters, and the trace.

use std::time::Instant;

use crate::{
    Exchange, Score, Token,
    stats::{Clock, Stats, Tally},
    stop::StopFilter,
    text::TextStream,
    trace::{Accepted, Alternative, FinishReason, Sent, Source, Span, Times, Usage},
};

/// Where a generation ends if nothing else ends it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// At most this many tokens.
    pub max_tokens: usize,
    /// Texts that end it, and are not shown.
    pub stops: Vec<String>,
}

/// One token somebody wrote.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// If it is known.
    pub id: Option<Token>,
    pub bytes: Vec<u8>,
    /// If it was asked for and is known.
    pub logprob: Option<f32>,
}

/// Tokens somebody wrote, before they are accepted.
#[derive(Debug)]
pub(crate) struct Written {
    pub tokens: Vec<Piece>,
    /// What travelled, where the cloud wrote.
    pub exchange: Option<Exchange>,
    pub source: Source,
    pub score: Option<Score>,
    pub eligible: Option<bool>,
    pub times: Times,
    pub usage: Option<Usage>,
    /// What the edge held likeliest, if that was asked for.
    pub alternatives: Vec<Alternative>,
    /// What left this device, if that was asked for.
    pub sent: Option<String>,
}

impl Written {
    /// Tokens of a source, and nothing else known.
    pub fn by(source: Source, tokens: Vec<Piece>) -> Self {
        Self {
            tokens,
            exchange: None,
            source,
            score: None,
            eligible: None,
            times: Times::default(),
            usage: None,
            alternatives: vec![],
            sent: None,
        }
    }
}

/// Everything accepted in one generation.
#[derive(Debug)]
pub struct Transcript {
    tokens: Vec<Token>,
    /// How many tokens were accepted, with an id or without.
    accepted: usize,
    text: String,
    stream: TextStream,
    stop: StopFilter,
    max_tokens: usize,
    shown: Vec<Accepted>,
    finish: Option<FinishReason>,
    started: Instant,
    first: Option<Instant>,
    last: Instant,
    ended: Option<Instant>,
    tally: Tally,
}

impl Default for Transcript {
    /// Of a text that was never begun.
    fn default() -> Self {
        Self::new(Limits { max_tokens: 0, stops: vec![] })
    }
}

impl Transcript {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            tokens: vec![],
            accepted: 0,
            text: String::new(),
            stream: TextStream::default(),
            stop: StopFilter::new(limits.stops),
            max_tokens: limits.max_tokens,
            shown: vec![],
            finish: None,
            started: now,
            first: None,
            last: now,
            ended: None,
            tally: Tally::default(),
        }
    }

    /// Every accepted token whose id is known: all of them, unless a cloud without ids writes alone.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The text of every accepted token, as far as its characters are whole.
    pub fn accepted_text(&self) -> &str {
        &self.text
    }

    /// What has been shown: the accepted text less what a stop string cut off or still holds back.
    pub fn shown(&self) -> &[Accepted] {
        &self.shown
    }

    /// The shown text.
    pub fn text(&self) -> String {
        self.shown.iter().map(|t| t.text.as_str()).collect()
    }

    /// Whether, and why, it ended.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.finish
    }

    /// Whether the last accepted token ended inside a character.
    pub(crate) fn is_inside_character(&self) -> bool {
        self.stream.is_inside_character()
    }

    /// How many tokens may still be accepted.
    pub(crate) fn room(&self) -> usize {
        self.max_tokens - self.accepted
    }

    /// Counts what a position cost, whether or not it led to a token.
    pub(crate) fn spend(&mut self, times: Times, usage: Option<Usage>) {
        self.tally.times += times;
        self.tally.asks.extend(usage);
    }

    /// Counts what the edge read of the prompt, and what it did not have to.
    pub(crate) fn prefilled(&mut self, read: usize, cached: usize) {
        (self.tally.edge_prefilled, self.tally.edge_cached) = (read, cached);
    }

    /// Counts what left this device.
    pub(crate) fn sent(&mut self, sent: &Sent) {
        self.tally.sent_bytes += sent.bytes;
    }

    /// Takes what was written before this generation.
    pub(crate) fn begin(&mut self, tokens: Vec<Piece>) {
        if tokens.is_empty() {
            return;
        }
        self.accept(Written::by(Source::Edge, tokens));
        // Nothing has been shown of this generation yet.
        self.first = None;
    }

    /// Takes what somebody wrote, up to the limit; gives back what can be shown.
    pub(crate) fn accept(&mut self, written: Written) -> Span {
        let mut span = Span::default();
        self.spend(written.times, written.usage);
        let (mut times, mut usage) = (written.times, written.usage);
        let (mut alternatives, mut sent) = (written.alternatives, written.sent);
        for Piece { id, bytes, logprob } in written.tokens {
            let text = self.stream.push(&bytes);
            self.text.push_str(&text);
            let token = Accepted {
                index: self.accepted,
                id,
                text,
                source: written.source,
                score: written.score,
                eligible: written.eligible,
                degraded: written.exchange.filter(|e| *e == Exchange::Text),
                times: std::mem::take(&mut times),
                cloud: usage.take(),
                logprob,
                alternatives: std::mem::take(&mut alternatives),
                sent: sent.take(),
            };
            self.tokens.extend(id);
            self.accepted += 1;
            let released = self.stop.push(token);
            self.show(&mut span, released.tokens);
            if released.stopped {
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

    /// Ends the text; gives back what was held. Only the first reason counts.
    pub(crate) fn end(&mut self, reason: FinishReason) -> Span {
        let mut span = Span::default();
        if self.finish.is_none() {
            self.close(&mut span, reason);
        }
        span
    }

    /// Ends the text with somebody's end-of-text.
    pub(crate) fn end_by(&mut self, source: Source, reason: FinishReason) -> Span {
        self.tally.fallback_end = source == Source::Fallback;
        self.end(reason)
    }

    fn close(&mut self, span: &mut Span, reason: FinishReason) {
        let held = self.stop.finish();
        self.show(span, held);
        span.rest = self.stream.finish();
        self.text.push_str(&span.rest);
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

    /// The figures so far.
    pub fn stats(&self) -> Stats {
        let ended = self.ended.unwrap_or(self.last);
        let clock = Clock { started: self.started, first: self.first, last: self.last, ended };
        Stats::new(&self.shown, &self.tally, clock)
    }
}
