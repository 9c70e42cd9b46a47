//! Going on while an answer is on its way.
//!
//! A round trip takes as long as several steps of the edge. So the edge goes on behind its own choice:
//! it reads it, scores the place behind it, asks again where it doubts, and so on. None of that is in
//! the text, the trace or the budget: the places are only read ahead. The loop takes every decision
//! when the text has come to a place, as if it had waited, and finds the place read and perhaps the
//! answer there. Where the text goes another way, the places behind are cut from the edge's cache, and
//! the asks made there are void. So the tokens are those of the loop that waits, whatever comes when.
//! It may go on behind further choices too: `branches`; and have several doubtful places judged with one
//! request: `judging`.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use tracing::{Instrument, trace_span};

use crate::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Decision, Edge, EdgeError, Exchange, Handshake,
    PendingAnswer, Router, Routing, Sampling, Score, Session, SessionError, Step, Token,
    in_flight::{InFlight, counted},
    trace::{Source, Speculation, Times},
    transcript::{NewTokens, Written},
    warm::Warm,
};

/// The most places that are read ahead: each holds the logits of a whole vocabulary.
const MAX_STEPS_AHEAD: usize = 64;

/// What was read behind the place where the text stands.
#[derive(Default)]
pub(crate) struct Ahead {
    /// How many requests may be on their way at once; with 0 the loop waits for each.
    pub limit: usize,
    /// Whether it goes on past a doubtful place where that many are, to have it judged with others.
    pub judges: bool,
    /// The places behind, in order. Where the edge has nothing unread, the first is where the text
    /// stands.
    pub path: VecDeque<StepAhead>,
    /// The ask that was made ahead for the place where the text stands.
    pub asked: Option<InFlight>,
    /// Whether that place was read ahead.
    provisional: bool,
    /// How many tokens an answer may have: the first is what was asked for, the others say what the
    /// cloud would answer behind it.
    pub tokens: usize,
    /// What the cloud would write behind the accepted text, as far as it has said.
    pub foreseen: Option<Answer>,
    /// The opening of the cloud and its reading of the prompt, where they go ahead of the first ask.
    pub warm: Warm,
    /// Held by every request that is on its way.
    pub requests: Arc<()>,
}

/// A position that the edge has read up to, and its score.
pub(crate) struct StepAhead {
    /// What the edge read to come here: its own choice at the place before.
    pub token: Token,
    pub step: Step,
    score: Option<Score>,
    pub times: Times,
    pub asked: Option<InFlight>,
}

impl StepAhead {
    /// Whether the cloud was sent a question about this place.
    pub fn was_asked(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| !asked.is_due())
    }
}

impl Ahead {
    /// A word where text is exchanged, else tokens. Where tokens are drawn, only the first is what the
    /// cloud would answer to an ask of its own.
    pub fn wanted(&self, exchange: Option<Exchange>, greedy: bool) -> AnswerLength {
        match exchange {
            Some(Exchange::Text) => AnswerLength::Word,
            Some(Exchange::Ids) | None if greedy => AnswerLength::Tokens(self.tokens.max(1)),
            Some(Exchange::Ids) | None => AnswerLength::Tokens(1),
        }
    }

    /// The ask that was made ahead for the place where the text stands, if there is one.
    pub fn take_asked(&mut self) -> Option<InFlight> {
        self.asked.take().or_else(|| self.warm.take_here())
    }

    /// Goes on in what the cloud would write, for as long as the text does.
    fn follow_foreseen(&mut self, accepted: &[Token]) {
        self.foreseen = self.foreseen.take().and_then(|mut answer| {
            for token in accepted {
                if answer.tokens.first()?.id != Some(*token) {
                    return None;
                }
                answer.tokens.remove(0);
            }
            (answer.end || !answer.tokens.is_empty()).then_some(answer)
        });
    }

    /// Lets the asks go on that were made behind the place where the text stands, and for the prompt.
    fn poll(&mut self, context: &mut std::task::Context<'_>) {
        self.path.iter_mut().filter_map(|ahead| ahead.asked.as_mut()).for_each(|a| a.poll(context));
        self.warm.poll(context);
    }

    /// How many requests are on their way, that for the place where the text stands among them.
    pub fn on_their_way(&self) -> usize {
        Arc::strong_count(&self.requests) - 1
    }

    /// How many of these tokens the edge went on with.
    fn common(&self, tokens: impl Iterator<Item = Token>) -> usize {
        self.path.iter().zip(tokens).take_while(|(ahead, token)| ahead.token == *token).count()
    }

    /// Goes on along another path; returns the one before it.
    pub fn replace(&mut self, path: VecDeque<StepAhead>) -> VecDeque<StepAhead> {
        std::mem::replace(&mut self.path, path)
    }

    /// How tokens that are about to be accepted stand to what was read ahead, along the text's own way
    /// or a branch.
    pub fn outcome(&self, written: &NewTokens, branch: bool) -> Option<Speculation> {
        if written.speculation.is_some() {
            return written.speculation;
        }
        if written.source != Source::Cloud || self.path.is_empty() {
            return self.provisional.then_some(Speculation::Provisional);
        }
        let ids = written.tokens.iter().filter_map(|piece| piece.id);
        let known = written.tokens.len().min(self.path.len());
        let same = known > 0 && self.common(ids) == known;
        Some(match (same, branch) {
            (true, true) => Speculation::Branch,
            (true, false) if written.judged => Speculation::Judged,
            (true, false) => Speculation::Confirmed,
            (false, _) => Speculation::Contradicted,
        })
    }
}

/// The text as it would be at the last place that was read ahead, if everything is confirmed.
pub(crate) struct ExpectedText {
    pub written: Written,
    /// What the budget would have seen since the text that is accepted.
    pub observed: Vec<(usize, Source)>,
}

/// A step that the edge is reading.
type Reading<'a> = Pin<Box<dyn Future<Output = Result<Step, EdgeError>> + Send + 'a>>;

fn read<E: Edge>(edge: &mut E, token: Token) -> Reading<'_> {
    Box::pin(async move { edge.step(&[token]).await })
}

/// Begins an ask behind this text; `None` where the cloud can only be waited for.
pub(crate) fn begin<R, C: Cloud>(
    routing: &mut Routing<R, C>,
    (want, sampling): (AnswerLength, &Sampling),
    step: Option<&Step>,
    written: &Written,
) -> Option<PendingAnswer> {
    let (tokens, text) = (&written.tokens, written.text.as_str());
    if let Some(step) = step {
        routing.cloud.record_step(step);
    }
    let ask = Ask { tokens, text, want, sampling };
    routing.cloud.begin(ask)
}

impl<E: Edge, R: Router, C: Cloud> Session<E, R, C> {
    /// Reads up to where the text stands, unless that was read ahead.
    pub(crate) async fn arrive(&mut self) -> Result<(Step, Option<Score>, Times), SessionError> {
        if let Some(StepAhead { step, score, times, asked, .. }) = self.ahead.path.pop_front() {
            self.ahead.asked = asked.filter(|asked| !asked.is_due());
            self.ahead.provisional = true;
            return Ok((step, score, times));
        }
        let mut step = self.read_unread().await?;
        self.transcript.edge_read(step.reading.tokens, self.unread.len(), self.read);
        self.read += self.unread.len();
        self.unread.clear();
        self.ahead.provisional = false;
        self.mask(&mut step)?;
        let (score, times) = self.score(&step);
        Ok((step, score, times))
    }

    /// Reads what is unread. Where the cloud is to be warm it is opened meanwhile, and once it is, it is
    /// asked about this place, so that it reads the prompt before its answer is needed.
    async fn read_unread(&mut self) -> Result<Step, SessionError> {
        let reading = trace_span!("step", position = self.read, unread = self.unread.len());
        let greedy = self.sampling.is_greedy();
        let Self { edge, unread, ahead, routing, exchange, sampling, transcript, .. } = self;
        let mut reading = pin!(edge.step(unread).instrument(reading));
        let step = poll_fn(|context| {
            let opened = ahead.warm.opened(context);
            if let (Some(opened), Some(routing)) = (opened, routing.as_mut()) {
                *exchange = Some(opened.exchange);
                let (want, written) = (ahead.wanted(*exchange, greedy), transcript.written());
                let asked = begin(routing, (want, sampling), None, written);
                let on_its_way = |asked| InFlight::OnItsWay(counted(&ahead.requests, asked));
                let asked = asked.map(on_its_way);
                ahead.warm.ask(asked);
            }
            ahead.warm.poll(context);
            reading.as_mut().poll(context)
        });
        Ok(step.await?)
    }

    /// Opens the cloud, unless that has begun already. Only here does a failure count.
    pub(crate) async fn open(&mut self) -> Result<Handshake, CloudError> {
        if let Some(opening) = self.ahead.warm.take_opening()
            && let Ok(opened) = opening.await
        {
            return Ok(opened);
        }
        self.routing.as_mut().ok_or(CloudError::NotOpened)?.cloud.open().await
    }

    pub(crate) fn wanted(&self) -> AnswerLength {
        self.ahead.wanted(self.exchange, self.sampling.is_greedy())
    }

    /// Waits for an answer, and goes on meanwhile as far as that is allowed. Returns how long nothing
    /// else was done, too.
    pub(crate) async fn wait(
        &mut self,
        step: &Step,
        mut asked: InFlight,
    ) -> Result<(Result<Answer, CloudError>, Duration), SessionError> {
        let started = Instant::now();
        let mut busy = Duration::ZERO;
        // An answer that is there at once leaves nothing to hide.
        poll_fn(|context| {
            asked.poll(context);
            Poll::Ready(())
        })
        .await;
        let mut expected = if asked.is_on_its_way() { self.expected_text() } else { None };
        if expected.is_some() {
            self.look_around(step)?;
        }
        let answer = loop {
            if let InFlight::Arrived(answer) = asked {
                break answer;
            }
            let next = match &mut expected {
                Some(expected) => {
                    self.judge_due();
                    self.go_on(step, expected)?
                }
                None => None,
            };
            let begun = Instant::now();
            let branches = expected.is_some() && self.branch_out(next.is_some()).await;
            if next.is_some() || branches {
                self.read_ahead(next, &mut asked).await?;
                busy += begun.elapsed();
            } else {
                self.arrival(&mut asked).await;
            }
        };
        Ok((answer, started.elapsed().saturating_sub(busy)))
    }

    /// The text as it would be if everything that was read ahead is confirmed; `None` where the loop
    /// waits.
    fn expected_text(&self) -> Option<ExpectedText> {
        if self.ahead.limit == 0 || self.form.is_some() {
            return None;
        }
        let mut expected =
            ExpectedText { written: self.transcript.written().clone(), observed: vec![] };
        let mut source = Source::Cloud;
        for ahead in &self.ahead.path {
            self.extend(&mut expected, ahead.token, source);
            source = self.source(ahead, &expected);
        }
        Some(expected)
    }

    pub(crate) fn extend(&self, expected: &mut ExpectedText, token: Token, source: Source) {
        expected.written.push(Some(token), &self.vocabulary.piece(token));
        expected.observed.push((1, source));
    }

    /// Who will have written the token behind this place. A word of the cloud's goes on as long as
    /// none can begin.
    pub(crate) fn source(&self, ahead: &StepAhead, expected: &ExpectedText) -> Source {
        let in_word = || self.eligible_behind(&ahead.step, &expected.written) == Some(false);
        let last = expected.observed.last().map(|(_, source)| *source);
        if ahead.asked.is_some() || (last == Some(Source::Cloud) && in_word()) {
            Source::Cloud
        } else {
            Source::Edge
        }
    }

    /// The token to read next, ahead of the text; asks at the last place first, if that is to be.
    /// `None` where it cannot go on for now.
    fn go_on(
        &mut self,
        step: &Step,
        expected: &mut ExpectedText,
    ) -> Result<Option<Token>, SessionError> {
        let count = self.ahead.path.len();
        if count >= MAX_STEPS_AHEAD || self.read + count >= self.edge.context() {
            return Ok(None);
        }
        if !self.ask_ahead(expected) {
            return Ok(None);
        }
        let (here, source) = match self.ahead.path.back() {
            Some(ahead) => (&ahead.step, self.source(ahead, expected)),
            None => (step, Source::Cloud),
        };
        let token = self.choose(here, &expected.written)?;
        if self.ends_with(token, expected) {
            return Ok(None);
        }
        self.extend(expected, token, source);
        Ok(Some(token))
    }

    /// Whether there is nothing to read behind this token: it is the last that may be accepted.
    pub(crate) fn ends_with(&self, token: Token, expected: &ExpectedText) -> bool {
        expected.observed.len() + 1 >= self.transcript.room()
            || self.vocabulary.is_end(token)
            || self.transcript.stops_in(&expected.written.text)
    }

    /// Whether the text would ask at a place that was read ahead.
    pub(crate) fn asks_at(&self, ahead: &StepAhead, expected: &ExpectedText) -> bool {
        let (Some(routing), Some(score)) = (&self.routing, ahead.score) else { return false };
        let decision = routing.policy.threshold_after(&expected.observed).decide(score);
        decision == Decision::Ask
            && self.eligible_behind(&ahead.step, &expected.written) != Some(false)
    }

    /// Asks at the last place that was read ahead, where the text would ask there. `false` where that
    /// has to wait, because enough requests are on their way and the place cannot be put off.
    fn ask_ahead(&mut self, expected: &ExpectedText) -> bool {
        let Some(ahead) = self.ahead.path.back() else { return true };
        if ahead.asked.is_some() || !self.asks_at(ahead, expected) {
            return true;
        }
        if self.ahead.on_their_way() >= self.ahead.limit {
            return self.put_off();
        }
        let how = (self.wanted(), &self.sampling);
        let Ahead { path, requests, .. } = &mut self.ahead;
        let (Some(ahead), Some(routing)) = (path.back_mut(), &mut self.routing) else {
            return true;
        };
        let asked = begin(routing, how, Some(&ahead.step), &expected.written);
        ahead.asked = asked.map(|asked| InFlight::OnItsWay(counted(requests, asked)));
        ahead.asked.is_some()
    }

    /// Reads one token ahead, if there is one, and one behind each branch that goes on, while the asks
    /// are on their way.
    async fn read_ahead(
        &mut self,
        token: Option<Token>,
        asked: &mut InFlight,
    ) -> Result<(), SessionError> {
        let begun = Instant::now();
        let position = self.read + self.ahead.path.len();
        let mut steps = {
            let Self { edge, ahead, branches, .. } = self;
            let own = token.map(|token| read(edge, token)).into_iter();
            let others = branches.next_steps().map(|(edge, token)| read(edge, token));
            let mut readings: Vec<_> = own.chain(others).map(|r| (r, None)).collect();
            let ways = readings.len();
            let reading = trace_span!("step", position, unread = ways, ahead = true);
            poll_fn(|context| {
                asked.poll(context);
                ahead.poll(context);
                for (reading, step) in readings.iter_mut().filter(|(_, step)| step.is_none()) {
                    if let Poll::Ready(read) = reading.as_mut().poll(context) {
                        *step = Some(read);
                    }
                }
                let done = readings.iter().all(|(_, step)| step.is_some());
                if done { Poll::Ready(()) } else { Poll::Pending }
            })
            .instrument(reading)
            .await;
            readings.into_iter().filter_map(|(_, step)| step).collect::<Vec<_>>().into_iter()
        };
        let ways = steps.len();
        self.branches.costs.observe(ways, begun.elapsed());
        if let (Some(token), Some(step)) = (token, token.and_then(|_| steps.next())) {
            let step = step?;
            self.transcript.edge_read(step.reading.tokens, 1, position);
            let ahead = self.step_ahead(token, step, ways);
            self.ahead.path.push_back(ahead);
        }
        self.grow(steps.map(Result::ok), ways);
        Ok(())
    }

    /// A place that was read in a batch of so many, each of which has its part of the time.
    pub(crate) fn step_ahead(&self, token: Token, step: Step, ways: usize) -> StepAhead {
        let (score, mut times) = self.score(&step);
        let part = u32::try_from(ways).unwrap_or(u32::MAX).max(1);
        times.edge_prefill /= part;
        times.edge_decode /= part;
        StepAhead { token, step, score, times, asked: None }
    }

    /// Waits until an answer comes: this one, or one behind it.
    async fn arrival(&mut self, asked: &mut InFlight) {
        let behind = self.ahead.on_their_way();
        poll_fn(|context| {
            asked.poll(context);
            self.ahead.poll(context);
            let arrived = !asked.is_on_its_way() || self.ahead.on_their_way() < behind;
            if arrived { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Goes to where the accepted tokens lead: along what was read ahead, as far as it is the same.
    pub(crate) fn follow(&mut self, accepted: &[Token]) {
        let asked = self.ahead.asked.take().is_some();
        self.transcript.add_void_asks(usize::from(asked) + usize::from(self.ahead.warm.pass()));
        self.drop_branches();
        self.ahead.follow_foreseen(accepted);
        let same = self.ahead.common(accepted.iter().copied());
        self.read += same;
        if same < accepted.len() {
            // Behind tokens that were forced, which no step has read yet.
            self.unread.extend_from_slice(&accepted[same..]);
            self.cut();
            return;
        }
        // Inside a word of the cloud's nothing was to be decided.
        for ahead in self.ahead.path.drain(..same.saturating_sub(1)) {
            self.transcript.add_cost(ahead.times, None);
            self.transcript.add_void_asks(usize::from(ahead.was_asked()));
        }
    }

    /// Nothing is asked any more: what was read ahead is forgotten, and what was sent for it counts.
    pub(crate) fn stop_asking(&mut self) {
        self.follow(&[]);
        self.cut();
        self.ahead.warm = Warm::default();
        if let Some(routing) = &mut self.routing {
            self.transcript.add_sent(&routing.cloud.take_sent());
        }
    }

    /// Forgets what was read ahead: the edge's cache is cut to what it has read of the text.
    pub(crate) fn cut(&mut self) {
        if self.ahead.path.is_empty() {
            return;
        }
        for ahead in self.ahead.path.drain(..) {
            self.transcript.add_void(ahead.times, ahead.was_asked());
        }
        let read = self.edge.held().iter().take(self.read).copied().collect::<Vec<_>>();
        self.edge.keep_common(&read);
    }
}
