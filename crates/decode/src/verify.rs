//! The loop of mode `verify`, which is lossless: the text is the cloud's own, at fewer of its passes.
//!
//! 1. the edge *drafts* some tokens, its first choice at every place;
//! 2. the cloud *judges* the draft in one pass: at every place it says what it would have written;
//! 3. the draft is *accepted* up to the first place where that is another token, and that token with it.
//!
//! Every accepted token is thus the cloud's first choice behind the text before it. With
//! [`Verify::accepting`] a draft may be less than that: the text is then what a router would write that
//! knows what the cloud thinks of every proposal, as none can.

use std::sync::Arc;

use tracing::{Instrument, trace_span};

use crate::{
    AnswerLength, Ask, Cloud, CloudError, Edge, Exchange, Sampling, SamplingError, SessionError,
    SessionInput, Token, Transcript, Vocabulary,
    cloud::{Draft, Judged},
    input::Begun,
    text::TextStream,
    trace::{FinishReason, Source, Span, Times, Usage},
    transcript::{NewTokens, Piece},
};

/// The length of the first draft, and of the longest.
const FIRST_DRAFT: usize = 4;
const LONGEST_DRAFT: usize = 16;

/// One generation that the edge drafts and the cloud judges.
pub struct Verify<E, C> {
    edge: E,
    vocabulary: Arc<dyn Vocabulary>,
    cloud: C,
    exchange: Option<Exchange>,
    sampling: Sampling,
    /// Accepted, and not yet read by the edge.
    unread: Vec<Token>,
    /// How much of prompt and text the edge has read.
    read: usize,
    /// How many tokens are drafted next: it follows how many were accepted.
    length: usize,
    /// A token of a draft stands if the cloud finds it at least this many times as likely as its own.
    least_ratio: f32,
    transcript: Transcript,
}

/// What the edge would write.
#[derive(Default)]
struct Drafted {
    tokens: Vec<Token>,
    /// The token that ends the text behind them.
    end: Option<Token>,
    times: Times,
}

/// What is accepted of a draft.
struct Verdict {
    /// How many of its tokens.
    agreed: usize,
    /// What the cloud writes behind them, in the edge's tokens.
    correction: Vec<Token>,
    end: bool,
}

impl Verdict {
    fn is_progress(&self) -> bool {
        self.end || self.agreed > 0 || !self.correction.is_empty()
    }
}

impl<E: Edge, C: Cloud> Verify<E, C> {
    /// Prepares a generation. Nothing is drawn: the text is what the cloud holds likeliest.
    pub fn new(mut edge: E, cloud: C, input: SessionInput) -> Result<Self, SessionError> {
        if !input.sampling.is_greedy() {
            let (name, range) = ("temperature", "0 and penalties none where a draft is verified");
            let given = input.sampling.temperature;
            return Err(SamplingError::OutOfRange { name, range, given }.into());
        }
        let Begun { vocabulary, sampling, read, unread, transcript } = input.begin(&mut edge)?;
        Ok(Self {
            vocabulary,
            edge,
            cloud,
            exchange: None,
            sampling,
            unread,
            read,
            length: FIRST_DRAFT,
            least_ratio: 1.0,
            transcript,
        })
    }

    /// Accepts a token of a draft too where the cloud finds it at least this many times, in 0..=1, as
    /// likely as its own choice. Needs a cloud that exchanges ids and says how likely it finds a draft.
    pub fn accepting(self, least_ratio: f32) -> Self {
        let least_ratio = if least_ratio.is_nan() { 1.0 } else { least_ratio.clamp(0.0, 1.0) };
        Self { least_ratio, ..self }
    }

    /// Advances by what is accepted of one draft; `None` at the end of the text.
    pub async fn next(&mut self) -> Result<Option<Span>, SessionError> {
        if self.transcript.finish_reason().is_some() {
            return Ok(None);
        }
        if self.read + self.unread.len() > self.edge.context() {
            return Ok(Some(self.transcript.end(FinishReason::Length)));
        }
        let mut drafted = self.draft().await?;
        if self.exchange.is_none() {
            let opened = self.cloud.open().await?;
            drafted.times += opened.times;
            if opened.exchange == Exchange::Text && self.least_ratio < 1.0 {
                let what = "has another vocabulary than the small model: what it thinks of every \
                            proposal of that cannot be told";
                return Err(CloudError::Unsupported { engine: "the cloud", what }.into());
            }
            self.exchange = Some(opened.exchange);
        }
        let asking = trace_span!("ask", position = self.read, tokens = drafted.tokens.len());
        let judged = self.judge(&mut drafted).instrument(asking).await;
        let sent = self.cloud.take_sent();
        self.transcript.add_sent(&sent);
        match judged {
            Ok((verdict, usage)) => Ok(Some(self.accept(drafted, verdict, usage))),
            // Not a failure: the text has become as long as the cloud's context allows.
            Err(SessionError::Cloud(CloudError::ContextFull))
                if !self.transcript.tokens().is_empty() =>
            {
                Ok(Some(self.transcript.end(FinishReason::Length)))
            }
            Err(error) => Err(error),
        }
    }

    /// The edge's first choices, one behind the other. Its cache then holds all of them but the last.
    async fn draft(&mut self) -> Result<Drafted, SessionError> {
        let mut drafted = Drafted::default();
        let most = self.length.min(self.transcript.room()).max(1);
        let mut unread = std::mem::take(&mut self.unread);
        let before = self.read + unread.len();
        loop {
            let position = before + drafted.tokens.len();
            let reading = trace_span!("step", position, unread = unread.len());
            let step = self.edge.step(&unread).instrument(reading).await?;
            self.transcript.edge_read(step.reading.tokens, unread.len(), position - unread.len());
            drafted.times.edge_prefill += step.reading.prefill;
            drafted.times.edge_decode += step.reading.decode;
            if self.vocabulary.is_end(step.proposed) {
                drafted.end = Some(step.proposed);
                break;
            }
            drafted.tokens.push(step.proposed);
            if drafted.tokens.len() >= most || position >= self.edge.context() {
                break;
            }
            unread = vec![step.proposed];
        }
        self.read = before;
        Ok(drafted)
    }

    async fn judge(&mut self, drafted: &mut Drafted) -> Result<(Verdict, Usage), SessionError> {
        let (tokens, text) = (self.transcript.tokens(), self.transcript.accepted_text());
        let want = match self.exchange {
            Some(Exchange::Text) => AnswerLength::Word,
            Some(Exchange::Ids) | None => AnswerLength::Tokens(1),
        };
        let ask = Ask { tokens, text, want, sampling: &self.sampling };
        let mut given = drafted.tokens.clone();
        given.extend(drafted.end);
        let words = whole_text(self.vocabulary.as_ref(), &drafted.tokens);
        let draft = match self.exchange {
            Some(Exchange::Text) => Draft::Text(&words),
            Some(Exchange::Ids) | None => Draft::Ids(&given),
        };
        let mut usage = Usage::default();
        if !matches!(draft, Draft::Text("")) {
            let judgement = self.cloud.judge(ask, draft).await?;
            drafted.times += judgement.times;
            let verdict = match draft {
                Draft::Text(_) => self.verdict_on_text(drafted, &judgement.tokens),
                Draft::Ids(_) => self.verdict_on_ids(drafted, &judgement.tokens)?,
            };
            if verdict.is_progress() {
                return Ok((verdict, judgement.usage));
            }
            usage = judgement.usage;
        }
        // There is nothing to judge, or the cloud's token is no whole character: it writes a word.
        let answer = self.cloud.next(ask).await?;
        drafted.times += answer.times;
        if answer.tokens.is_empty() && !answer.end {
            return Err(CloudError::ContextFull.into());
        }
        let correction = self.vocabulary.encode(&answer.text());
        let end = correction.is_empty();
        usage.decoded += answer.usage.decoded;
        Ok((Verdict { agreed: 0, correction, end }, usage))
    }

    fn verdict_on_ids(&self, drafted: &Drafted, judged: &[Judged]) -> Result<Verdict, CloudError> {
        let mut same = 0;
        for (&id, judged) in drafted.tokens.iter().chain(&drafted.end).zip(judged) {
            if !self.stands(id, judged)? {
                break;
            }
            same += 1;
        }
        if same > drafted.tokens.len() {
            return Ok(Verdict { agreed: same - 1, correction: vec![], end: true });
        }
        let Some(judged) = judged.get(same) else {
            return Ok(Verdict { agreed: same, correction: vec![], end: false });
        };
        let id = judged
            .greedy
            .id
            .ok_or_else(|| CloudError::MissingToken { text: judged.greedy.text.clone() })?;
        if self.vocabulary.is_end(id) {
            return Ok(Verdict { agreed: same, correction: vec![], end: true });
        }
        if id.index() >= self.vocabulary.used() {
            return Err(CloudError::UnknownToken { id });
        }
        Ok(Verdict { agreed: same, correction: vec![id], end: false })
    }

    /// Whether a token of a draft is accepted.
    fn stands(&self, id: Token, judged: &Judged) -> Result<bool, CloudError> {
        if judged.greedy.id == Some(id) {
            return Ok(true);
        }
        if self.least_ratio >= 1.0 {
            return Ok(false);
        }
        let what = "does not say how likely it finds a given text";
        let unknown = || CloudError::Unsupported { engine: "the cloud", what };
        let logprobs = judged.given.logprob.zip(judged.greedy.logprob);
        let (given, greedy) = logprobs.ok_or_else(unknown)?;
        Ok(given - greedy >= self.least_ratio.ln())
    }

    /// The cloud has tokens of its own: what it agrees with is counted in characters.
    fn verdict_on_text(&self, drafted: &Drafted, judged: &[Judged]) -> Verdict {
        let same = judged.iter().take_while(|judged| judged.agrees()).count();
        let mut text: String = judged[..same].iter().map(|j| j.given.text.as_str()).collect();
        let other = judged.get(same).map(|judged| judged.greedy.text.as_str());
        let end = other == Some("");
        let whole = |text: &&str| !text.contains(char::REPLACEMENT_CHARACTER);
        text.push_str(other.filter(whole).unwrap_or_default());
        let (mut agreed, mut length) = (0, 0);
        for &token in &drafted.tokens {
            let piece = self.vocabulary.piece(token);
            if !text.as_bytes()[length..].starts_with(&piece) {
                break;
            }
            length += piece.len();
            agreed += 1;
        }
        // A token that ends inside a character is the edge's own way of writing it.
        while !text.is_char_boundary(length) {
            agreed -= 1;
            length -= self.vocabulary.piece(drafted.tokens[agreed]).len();
        }
        let correction = self.vocabulary.encode(&text[length..]);
        Verdict { agreed, correction, end }
    }

    fn accept(&mut self, drafted: Drafted, verdict: Verdict, usage: Usage) -> Span {
        let Verdict { agreed, correction, end } = verdict;
        let whole = agreed == drafted.tokens.len() && correction.is_empty();
        self.length =
            if whole { (self.length * 2).min(LONGEST_DRAFT) } else { (agreed + 1).max(2) };
        let piece =
            |&t: &Token| Piece { id: Some(t), bytes: self.vocabulary.piece(t), logprob: None };
        let own: Vec<_> = drafted.tokens[..agreed].iter().map(piece).collect();
        let theirs: Vec<_> = correction.iter().map(piece).collect();
        let before = self.transcript.tokens().len();
        let (mut times, mut usage, mut span) = (drafted.times, Some(usage), Span::default());
        for (tokens, source) in [(own, Source::Edge), (theirs, Source::Cloud)] {
            if tokens.is_empty() || self.transcript.finish_reason().is_some() {
                continue;
            }
            let (times, usage) = (std::mem::take(&mut times), usage.take());
            let exchange = self.exchange.filter(|_| source == Source::Cloud);
            let new = NewTokens { tokens, source, exchange, times, usage, ..NewTokens::default() };
            join(&mut span, self.transcript.accept(new));
        }
        self.transcript.add_cost(times, usage);
        if end {
            join(&mut span, self.transcript.end(FinishReason::Stop));
        }
        let accepted = self.transcript.tokens()[before..].to_vec();
        let kept = self.edge.held().len().saturating_sub(self.read);
        let common = agreed.min(accepted.len()).min(kept);
        let held: Vec<_> = self.edge.held().iter().take(self.read + common).copied().collect();
        self.edge.keep_common(&held);
        self.read += common;
        self.unread = accepted[common..].to_vec();
        // Something must be read to draft from.
        if self.unread.is_empty()
            && let Some((&last, before)) = held.split_last()
        {
            self.edge.keep_common(before);
            self.read -= 1;
            self.unread = vec![last];
        }
        span
    }

    /// Whether ids or text are exchanged with the cloud; `None` before the first draft is judged.
    pub fn exchange(&self) -> Option<Exchange> {
        self.exchange
    }

    /// Everything accepted so far, with its trace and statistics.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the models with their caches, for the next generation, and the transcript.
    pub fn into_parts(self) -> (E, C, Transcript) {
        (self.edge, self.cloud, self.transcript)
    }

    /// Ends the text here and returns what was held back, for example half a stop string.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        self.transcript.end(reason)
    }
}

fn join(span: &mut Span, more: Span) {
    span.tokens.extend(more.tokens);
    span.rest.push_str(&more.rest);
}

/// The text of tokens, as far as its characters are whole.
fn whole_text(vocabulary: &dyn Vocabulary, tokens: &[Token]) -> String {
    let mut stream = TextStream::default();
    tokens.iter().map(|&token| stream.push(&vocabulary.piece(token))).collect()
}
