//! The joint loop. For every position:
//!
//! 1. the edge reads what was accepted and not yet read: a *step*;
//! 2. the router *scores* its proposal;
//! 3. a score below the *threshold* asks, if this is a place where the cloud can answer;
//! 4. otherwise the edge's own choice is *kept*;
//! 5. an *ask* brings the cloud's token, or its word translated into the edge's tokens;
//! 6. the new tokens are *accepted*: they go into the text, the trace, and the edge's next step.
//!
//! A text that is held to a form has a [`Constraint`]: what it forces is accepted without a step, and
//! elsewhere it masks the step before it is scored, and checks what the cloud answers (`form`).
//!
//! While an answer is on its way the edge may read on behind its own choice: `speculation` says how,
//! and why the text does not depend on it. Otherwise neither model ever reads a proposal that was
//! overruled, so neither has anything to undo.
//!
//! `step`, `score`, `ask` and `accept` are tracing spans at level `trace`, so that a subscriber sees
//! where the time of every position goes; where nobody listens they cost a comparison each.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use thiserror::Error;
use tracing::{Instrument, field, trace_span};

use crate::{
    Answer, AnswerLength, AnswerToken, Ask, Cloud, CloudError, Constrained, Constraint,
    ConstraintError, Continuation, Decision, Edge, EdgeError, Exchange, OnCloudError, Router,
    Sampling, SamplingError, Score, Step, ThresholdPolicy, Token, Transcript, Vocabulary, boundary,
    branches::Branches,
    form::Form,
    in_flight::{InFlight, counted},
    input::{Begun, SessionInput},
    sampling,
    speculation::{self, Ahead},
    trace::{Alternative, FinishReason, Source, Span, Speculation, Times},
    transcript::{NewTokens, Piece, Written},
};

/// Why a generation cannot begin or continue.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each error and its fields are")]
pub enum SessionError {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error(
        "the prompt has {tokens} tokens and the context holds {context}: shorten it, or raise --context"
    )]
    PromptTooLong { tokens: usize, context: usize },
    #[error(transparent)]
    Edge(#[from] EdgeError),
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The cloud failed, and the policy does not let the edge stand in for it.
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

/// What a joint generation needs beside the edge.
#[derive(Debug)]
pub struct Routing<R, C> {
    /// Scores every step of the edge.
    pub router: R,
    /// Gives the threshold that the score is compared with.
    pub policy: ThresholdPolicy,
    /// Handshake by the first ask, so that a text without asks costs the cloud nothing.
    pub cloud: C,
    /// What to do where the cloud fails.
    pub on_error: OnCloudError,
}

/// One generation on the edge, with or without a cloud behind it.
pub struct Session<E, R, C> {
    pub(crate) edge: E,
    pub(crate) vocabulary: Arc<dyn Vocabulary>,
    pub(crate) routing: Option<Routing<R, C>>,
    /// Known once the cloud has been opened.
    pub(crate) exchange: Option<Exchange>,
    cloud_error: Option<CloudError>,
    pub(crate) sampling: Sampling,
    /// Accepted, and not yet read by the edge.
    pub(crate) unread: Vec<Token>,
    /// How much of prompt and accepted text the edge has read.
    pub(crate) read: usize,
    /// What it has read behind that, while answers are on their way.
    pub(crate) ahead: Ahead,
    /// And what it has read behind other choices than its own.
    pub(crate) branches: Branches<E>,
    /// How many alternatives to record with every token, if details are wanted.
    pub(crate) details: Option<usize>,
    /// What the text is held to, if it is.
    pub(crate) form: Option<Form>,
    pub(crate) transcript: Transcript,
}

impl<E: Edge, R: Router, C: Cloud> Session<E, R, C> {
    /// Prepares a generation; without routing the edge writes alone. The prefix of the prompt that
    /// is already in the edge's cache is not read again.
    pub fn new(
        mut edge: E,
        routing: Option<Routing<R, C>>,
        input: SessionInput,
    ) -> Result<Self, SessionError> {
        let Begun { vocabulary, sampling, read, unread, transcript } = input.begin(&mut edge)?;
        Ok(Self {
            vocabulary,
            edge,
            routing,
            exchange: None,
            cloud_error: None,
            sampling,
            unread,
            read,
            ahead: Ahead::default(),
            branches: Branches::default(),
            details: None,
            form: None,
            transcript,
        })
    }

    /// Records with every token its log-probability, this many of the edge's most likely tokens,
    /// and the text that was sent for it. Off by default, because it takes time at every step.
    pub fn with_details(mut self, alternatives: usize) -> Self {
        self.details = Some(alternatives);
        self
    }

    /// Lets this many asks be on their way at once while the edge goes on behind its own choices. 0, the
    /// default, waits for every answer; the tokens are the same.
    pub fn with_asks_in_flight(mut self, asks: usize) -> Self {
        self.ahead.limit = asks;
        self
    }

    /// Goes on behind this many of the edge's other choices too, where that is worth the time and the
    /// edge can: an answer that is one of them finds what is behind it written. 0, the default, goes on
    /// behind the first choice alone.
    pub fn with_branches(mut self, branches: usize) -> Self {
        self.branches.limit = branches;
        self
    }

    /// Asks for this many tokens where ids are exchanged and nothing is drawn. The first is the answer;
    /// the others answer later asks without a round trip, for as long as the text is the cloud's own.
    pub fn with_ask_tokens(mut self, tokens: usize) -> Self {
        self.ahead.tokens = tokens;
        self
    }

    /// Where as many requests are on their way as may be, goes on past doubtful places, and has several of
    /// them judged with one request as soon as one may be made: where ids are exchanged, nothing is drawn,
    /// and the cloud can. The tokens are the same.
    pub fn with_judged_asks(mut self, judged: bool) -> Self {
        self.ahead.judges = judged;
        self
    }

    /// Opens the cloud and has it read the prompt while the edge does, and while the edge writes if that
    /// takes longer. The prompt is sent to it even if no token is doubtful later.
    pub fn with_warm_cloud(mut self) -> Self {
        if let Some(routing) = &mut self.routing {
            self.ahead.warm.open(&mut routing.cloud);
        }
        self
    }

    /// Holds the text to a form, from behind what is already written of it. Nothing is read ahead then.
    pub fn with_constraint(mut self, constraint: Box<dyn Constraint>) -> Self {
        self.form = Some(Form::new(constraint));
        self
    }

    /// Advances by one accepted span; `None` at the end of the text.
    ///
    /// A call that is dropped before it is done loses its step: only [`end`](Self::end) may follow.
    pub async fn next(&mut self) -> Result<Option<Span>, SessionError> {
        if self.transcript.finish_reason().is_some() {
            return Ok(None);
        }
        match self.continuation()? {
            Continuation::Open => {}
            Continuation::Forced(tokens) => return Ok(Some(self.force(tokens)?)),
            Continuation::Complete => return Ok(Some(self.transcript.end(FinishReason::Stop))),
        }
        if self.read + self.unread.len() > self.edge.context() {
            return Ok(Some(self.transcript.end(FinishReason::Length)));
        }
        let (step, score, mut times) = self.arrive().await?;
        let mut written = match self.decide(score) {
            _ if self.is_closing() => {
                NewTokens { constrained: Some(Constrained::Closed), ..self.keep(&step)? }
            }
            Decision::Keep => self.keep(&step)?,
            Decision::Ask => {
                let asking = trace_span!("ask", position = self.read);
                self.ask(&step, &mut times).instrument(asking).await?
            }
        };
        written.alternatives = self.alternatives(&step);
        Ok(Some(self.accept(NewTokens { score, times, ..written })?))
    }

    /// Everything accepted so far, with its trace and statistics.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the models with their caches, for the next generation, and the transcript.
    pub fn into_parts(mut self) -> (E, Option<C>, Transcript) {
        self.stop_asking();
        (self.edge, self.routing.map(|routing| routing.cloud), self.transcript)
    }

    /// Ends the text here and returns what was held back, for example half a stop string.
    pub fn end(&mut self, reason: FinishReason) -> Span {
        self.stop_asking();
        self.transcript.end(reason)
    }

    /// Whether ids or text are exchanged with the cloud; `None` before the first ask.
    pub fn exchange(&self) -> Option<Exchange> {
        self.exchange
    }

    /// The cloud's last failure, even if it has recovered since.
    pub fn cloud_error(&self) -> Option<&CloudError> {
        self.cloud_error.as_ref()
    }

    pub(crate) fn score(&self, step: &Step) -> (Option<Score>, Times) {
        let started = Instant::now();
        let score = self.routing.as_ref().map(|r| {
            let span = trace_span!("score", score = field::Empty).entered();
            let score = r.router.score(step);
            span.record("score", score.value());
            score
        });
        let times = Times {
            edge_prefill: step.reading.prefill,
            edge_decode: step.reading.decode,
            router: started.elapsed(),
            ..Times::default()
        };
        (score, times)
    }

    fn decide(&self, score: Option<Score>) -> Decision {
        match (&self.routing, score) {
            (Some(routing), Some(score)) => routing.policy.threshold().decide(score),
            _ => Decision::Keep,
        }
    }

    /// Whether the cloud can answer here; `None` until it is known what is exchanged.
    fn eligible(&self, step: &Step) -> Option<bool> {
        self.eligible_behind(step, self.transcript.written())
    }

    /// Whether the cloud could answer behind this text.
    pub(crate) fn eligible_behind(&self, step: &Step, written: &Written) -> Option<bool> {
        match self.exchange? {
            Exchange::Ids => Some(true),
            Exchange::Text => {
                let proposal = self.vocabulary.piece(step.proposed);
                let whole = !written.is_inside_character();
                Some(whole && boundary::eligible(&written.text, &proposal))
            }
        }
    }

    /// The edge's own choice; no tokens for end-of-text.
    pub(crate) fn keep(&self, step: &Step) -> Result<NewTokens, SessionError> {
        let token = self.choose(step, self.transcript.written())?;
        let logprob = self.details.map(|_| sampling::logprob(&step.logits, token));
        let written = (!self.vocabulary.is_end(token)).then(|| self.piece(token, logprob));
        let tokens = written.into_iter().collect();
        Ok(NewTokens { tokens, eligible: self.eligible(step), ..NewTokens::default() })
    }

    /// The token that the edge writes behind this text.
    pub(crate) fn choose(&self, step: &Step, written: &Written) -> Result<Token, SamplingError> {
        if self.sampling.is_greedy() {
            return Ok(step.proposed);
        }
        self.sampling.choose(&step.logits, &written.tokens, written.tokens.len())
    }

    pub(crate) fn piece(&self, token: Token, logprob: Option<f32>) -> Piece {
        Piece { id: Some(token), bytes: self.vocabulary.piece(token), logprob }
    }

    fn alternatives(&self, step: &Step) -> Vec<Alternative> {
        let Some(count) = self.details.filter(|&count| count > 0) else { return vec![] };
        let likeliest = sampling::likeliest(&step.logits, count);
        let alternative = |(token, logprob): (Token, f32)| {
            let bytes = self.vocabulary.spell(token);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Alternative { text, bytes, probability: logprob.exp(), logprob }
        };
        likeliest.into_iter().map(alternative).collect()
    }

    async fn ask(&mut self, step: &Step, times: &mut Times) -> Result<NewTokens, SessionError> {
        let answered = self.answer(step, times).await;
        let sent = self.routing.as_mut().map(|r| r.cloud.take_sent()).unwrap_or_default();
        self.transcript.add_sent(&sent);
        let sent = self.details.filter(|_| !sent.text.is_empty()).map(|_| sent.text);
        let error = match answered {
            Ok(Some(written)) => {
                let written = self.fit(written, step)?;
                return Ok(NewTokens { sent, ..written });
            }
            Ok(None) => return Ok(NewTokens { sent, ..self.keep(step)? }),
            Err(SessionError::Cloud(error)) => error,
            Err(other) => return Err(other),
        };
        self.cloud_error = Some(error.clone());
        match self.routing.as_ref().map(|r| r.on_error) {
            Some(OnCloudError::Wait | OnCloudError::Fail) => Err(error.into()),
            Some(OnCloudError::Keep) | None => {
                Ok(NewTokens { source: Source::Fallback, sent, ..self.keep(step)? })
            }
        }
    }

    /// The cloud's answer; `None` where it cannot be asked because this is no word boundary.
    async fn answer(
        &mut self,
        step: &Step,
        times: &mut Times,
    ) -> Result<Option<NewTokens>, SessionError> {
        if self.exchange.is_none() {
            let started = Instant::now();
            let opened = self.open().await?;
            *times += opened.times.waited(started.elapsed());
            self.exchange = Some(opened.exchange);
        }
        if self.eligible(step) == Some(false) {
            return Ok(None);
        }
        let foreseen = self.ahead.foreseen.take();
        let speculation = foreseen.as_ref().map(|_| Speculation::Foreseen);
        let (answer, waited) = match foreseen {
            Some(answer) => (answer, Duration::ZERO),
            None => self.await_answer(step).await?,
        };
        *times += answer.times.waited(waited);
        if answer.tokens.is_empty() && !answer.end {
            return Err(CloudError::ContextFull.into());
        }
        let want = self.wanted();
        let mut tokens = match want {
            AnswerLength::Tokens(_) => self.check(&answer)?,
            AnswerLength::Word => self.translate(answer.text())?,
        };
        let logprobs = match self.details {
            Some(_) => answer.logprobs(want, tokens.len()),
            None => vec![None; tokens.len()],
        };
        let usage = Some(answer.usage).filter(|_| speculation.is_none());
        let judged = answer.judged;
        if let AnswerLength::Tokens(_) = want {
            // The others are what the cloud would answer to asks behind this one.
            tokens.truncate(1);
            let (tokens, end) = (answer.tokens, answer.end);
            self.ahead.foreseen = Some(Answer { tokens, end, ..Answer::default() });
        }
        let pieces = tokens.into_iter().zip(logprobs);
        Ok(Some(NewTokens {
            tokens: pieces.map(|(token, logprob)| self.piece(token, logprob)).collect(),
            exchange: self.exchange,
            source: Source::Cloud,
            eligible: Some(true),
            usage,
            judged,
            speculation,
            ..NewTokens::default()
        }))
    }

    /// What comes back from an ask here, and how long nothing else was done.
    async fn await_answer(&mut self, step: &Step) -> Result<(Answer, Duration), SessionError> {
        // An ask that was made ahead, or with others, and failed is made again: only by itself does a
        // failure count.
        let mut asked = self.ahead.take_asked();
        if asked.is_none() {
            self.make_room();
            asked = self.judge_here();
        }
        if let Some(asked) = asked {
            match self.wait(step, asked).await? {
                (Ok(answer), waited) => return Ok((answer, waited)),
                (Err(_), _) => self.transcript.add_void_asks(1),
            }
            self.make_room();
        }
        let want = self.wanted();
        let routing = self.routing.as_mut().ok_or(CloudError::NotOpened)?;
        let written = self.transcript.written();
        if let Some(asked) =
            speculation::begin(routing, (want, &self.sampling), Some(step), written)
        {
            let asked = InFlight::OnItsWay(counted(&self.ahead.requests, asked));
            let (answer, waited) = self.wait(step, asked).await?;
            return Ok((answer?, waited));
        }
        let (tokens, text) = (&written.tokens, written.text.as_str());
        let ask = Ask { tokens, text, want, sampling: &self.sampling };
        Ok((routing.cloud.next(ask).await?, Duration::MAX))
    }

    fn check(&self, answer: &Answer) -> Result<Vec<Token>, CloudError> {
        let known = |t: &AnswerToken| match t.id {
            Some(id) if id.index() < self.vocabulary.used() => Ok(id),
            Some(id) => Err(CloudError::UnknownToken { id }),
            None => Err(CloudError::MissingToken { text: t.text.clone() }),
        };
        let tokens: Result<Vec<_>, _> = answer.tokens.iter().map(known).collect();
        let mut tokens = tokens?;
        // An engine may not know that this token ends a text.
        let end = tokens.iter().position(|&id| self.vocabulary.is_end(id));
        tokens.truncate(end.unwrap_or(tokens.len()));
        Ok(tokens)
    }

    /// The cloud's word in the edge's tokens.
    fn translate(&self, word: String) -> Result<Vec<Token>, CloudError> {
        let tokens = self.vocabulary.encode(&word);
        let written: Vec<u8> = tokens.iter().flat_map(|&t| self.vocabulary.piece(t)).collect();
        if written == word.as_bytes() {
            Ok(tokens)
        } else {
            Err(CloudError::Untranslatable { word })
        }
    }

    /// Accepts what this step wrote; without tokens the text ends.
    pub(crate) fn accept(&mut self, written: NewTokens) -> Result<Span, SessionError> {
        let source = written.source;
        let _span =
            trace_span!("accept", source = source.name(), tokens = written.tokens.len()).entered();
        let branch = self.switch_to_branch(&written);
        let speculation = self.ahead.outcome(&written, branch);
        if let Some(speculation) = speculation {
            self.transcript.add_speculation(speculation);
        }
        if written.tokens.is_empty() {
            self.stop_asking();
            self.transcript.add_cost(written.times, written.usage);
            return Ok(self.transcript.end_by(source, FinishReason::Stop));
        }
        let before = self.transcript.tokens().len();
        let took = self.transcript.since_last();
        let span = self.transcript.accept(NewTokens { speculation, ..written });
        // A span cut short by a limit is read only as far as it was accepted.
        let accepted = self.transcript.tokens()[before..].to_vec();
        if let Some(routing) = &self.routing {
            if let Some(took) = took {
                routing.policy.observe_time(accepted.len(), source, took);
            }
            routing.policy.observe(accepted.len(), source);
        }
        self.follow(&accepted);
        if self.transcript.finish_reason().is_some() {
            self.stop_asking();
        }
        if let (Some(form), None) = (&mut self.form, self.transcript.finish_reason()) {
            form.advance(&accepted)?;
        }
        Ok(span)
    }
}
