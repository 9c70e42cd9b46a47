//! The loop of mode `large`: the cloud writes everything, and the edge is not even loaded.

use tracing::{Instrument, trace_span};

use crate::{
    AnswerLength, AnswerToken, Ask, Cloud, CloudError, Exchange, Limits, Sampling, SessionError,
    Transcript,
    trace::{FinishReason, Source, Span},
    transcript::{NewTokens, Piece},
};

/// The most tokens in one ask. More would delay the text on screen without saving much more of the
/// round trips.
const LONGEST_ANSWER: usize = 16;

/// One generation by the cloud alone.
#[derive(Debug)]
pub struct Relay<C> {
    cloud: C,
    exchange: Option<Exchange>,
    sampling: Sampling,
    want: usize,
    details: bool,
    transcript: Transcript,
}

impl<C: Cloud> Relay<C> {
    /// Nothing is sent before the first call of [`next`](Self::next). The cloud already knows its
    /// conversation.
    pub fn new(cloud: C, sampling: Sampling, limits: Limits) -> Self {
        let transcript = Transcript::new(limits);
        Self { cloud, exchange: None, sampling, want: 1, details: false, transcript }
    }

    /// Records every token's log-probability and the text that was sent for it.
    pub fn with_details(mut self) -> Self {
        self.details = true;
        self
    }

    /// Advances by one answer; `None` at the end of the text. The first answers are short, so that
    /// text appears at once; later ones are longer, so that there are fewer round trips.
    pub async fn next(&mut self) -> Result<Option<Span>, SessionError> {
        if self.transcript.finish_reason().is_some() {
            return Ok(None);
        }
        match self.answer().await {
            // Not a failure: the text has become as long as the cloud's context allows.
            Err(SessionError::Cloud(CloudError::ContextFull))
                if !self.transcript.tokens().is_empty() =>
            {
                Ok(Some(self.transcript.end(FinishReason::Length)))
            }
            other => other.map(Some),
        }
    }

    async fn answer(&mut self) -> Result<Span, SessionError> {
        let mut times = Default::default();
        let asking = trace_span!("ask", position = self.transcript.tokens().len());
        if self.exchange.is_none() {
            let opened = self.cloud.open().instrument(asking.clone()).await?;
            times = opened.times;
            self.exchange = Some(opened.exchange);
        }
        let ask = Ask {
            tokens: self.transcript.tokens(),
            text: self.transcript.accepted_text(),
            want: AnswerLength::Tokens(self.want.min(self.transcript.room())),
            sampling: &self.sampling,
        };
        let answer = self.cloud.next(ask).instrument(asking).await;
        let sent = self.cloud.take_sent();
        self.transcript.add_sent(&sent);
        let answer = answer?;
        self.want = (self.want * 2).min(LONGEST_ANSWER);
        times += answer.times;
        let (source, tokens) = (Source::Cloud.name(), answer.tokens.len());
        let _span = trace_span!("accept", source, tokens).entered();
        let reason = if answer.end { FinishReason::Stop } else { FinishReason::Length };
        if answer.tokens.is_empty() {
            self.transcript.add_cost(times, Some(answer.usage));
            return Ok(self.transcript.end(reason));
        }
        let piece = |t: AnswerToken| Piece {
            id: t.id,
            bytes: t.text.into_bytes(),
            logprob: t.logprob.filter(|_| self.details),
        };
        let mut span = self.transcript.accept(NewTokens {
            tokens: answer.tokens.into_iter().map(piece).collect(),
            exchange: self.exchange,
            source: Source::Cloud,
            times,
            usage: Some(answer.usage),
            sent: self.details.then_some(sent.text),
            ..NewTokens::default()
        });
        if answer.end || answer.full {
            let rest = self.transcript.end(reason);
            span.tokens.extend(rest.tokens);
            span.rest.push_str(&rest.rest);
        }
        Ok(span)
    }

    /// Whether ids or text are exchanged with the cloud; `None` before the first ask.
    pub fn exchange(&self) -> Option<Exchange> {
        self.exchange
    }

    /// Everything accepted so far, with its trace and statistics.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the cloud with its cache, for the next generation, and the transcript.
    pub fn into_parts(self) -> (C, Transcript) {
        (self.cloud, self.transcript)
    }

    /// Ends the text here and returns what was held back, for example half a stop string.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        self.transcript.end(reason)
    }
}
