//! Mode `large`: the cloud writes everything, the edge is not even loaded.

use tracing::{Instrument, trace_span};

use crate::{
    Answered, Ask, Cloud, CloudError, Exchange, Limits, Sampling, SessionError, Transcript, Want,
    trace::{FinishReason, Source, Span},
    transcript::{Piece, Written},
};

/// The most tokens asked for at once.
const LONGEST_ANSWER: usize = 16;

/// One generation by the cloud alone.
#[derive(Debug)]
pub struct Relay<C> {
    cloud: C,
    exchange: Option<Exchange>,
    sampling: Sampling,
    want: usize,
    watch: bool,
    transcript: Transcript,
}

impl<C: Cloud> Relay<C> {
    /// The conversation was given when the cloud was made.
    pub fn new(cloud: C, sampling: Sampling, limits: Limits) -> Self {
        let transcript = Transcript::new(limits);
        Self { cloud, exchange: None, sampling, want: 1, watch: false, transcript }
    }

    /// Has every token tell how likely it was held, and what left this device for it.
    pub fn watch(mut self) -> Self {
        self.watch = true;
        self
    }

    /// Advances by one answer; `None` at the end of the text. The first answers are short, so that
    /// text appears at once; later ones are longer, so that the way there and back is paid less
    /// often.
    pub async fn next(&mut self) -> Result<Option<Span>, SessionError> {
        if self.transcript.finish_reason().is_some() {
            return Ok(None);
        }
        match self.answer().await {
            // The text is simply as long as it can be.
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
            want: Want::Tokens(self.want.min(self.transcript.room())),
            sampling: &self.sampling,
        };
        let answer = self.cloud.next(ask).instrument(asking).await;
        let sent = self.cloud.take_sent();
        self.transcript.sent(&sent);
        let answer = answer?;
        self.want = (self.want * 2).min(LONGEST_ANSWER);
        times += answer.times;
        let (source, tokens) = (Source::Cloud.name(), answer.tokens.len());
        let _span = trace_span!("accept", source, tokens).entered();
        let reason = if answer.end { FinishReason::Stop } else { FinishReason::Length };
        if answer.tokens.is_empty() {
            self.transcript.spend(times, Some(answer.usage));
            return Ok(self.transcript.end(reason));
        }
        let piece = |t: Answered| Piece {
            id: t.id,
            bytes: t.text.into_bytes(),
            logprob: t.logprob.filter(|_| self.watch),
        };
        let mut span = self.transcript.accept(Written {
            exchange: self.exchange,
            times,
            usage: Some(answer.usage),
            sent: self.watch.then_some(sent.text),
            ..Written::by(Source::Cloud, answer.tokens.into_iter().map(piece).collect())
        });
        if answer.end || answer.full {
            let rest = self.transcript.end(reason);
            span.tokens.extend(rest.tokens);
            span.rest.push_str(&rest.rest);
        }
        Ok(span)
    }

    /// What travels, once the cloud has been opened.
    pub fn exchange(&self) -> Option<Exchange> {
        self.exchange
    }

    /// What happened so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The same, when nothing more is to come.
    pub fn into_transcript(self) -> Transcript {
        self.transcript
    }

    /// Gives the cloud back, with what its cache holds, and what happened.
    pub fn into_parts(self) -> (C, Transcript) {
        (self.cloud, self.transcript)
    }

    /// The caller's word that this is the end; what was held back can be shown now.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        self.transcript.end(reason)
    }
}
