//! One request for several doubtful places.
//!
//! Where as many requests are on their way as may be, the edge goes on past a place that it doubts, and
//! the place is *due*. As soon as a request may be made, the cloud judges a draft: what the edge wrote
//! from the first of these places to the last. It says at every place what it would have written there,
//! which is its answer to the ask of that place. So each place has an answer of its own, and the loop
//! takes it as it takes any other: up to the first that is another token the places are confirmed asks,
//! and those behind are void.
//!
//! That needs ids on the way and nothing drawn: a word, or a draw, is not what the cloud holds likeliest.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use crate::{
    Answer, AnswerLength, Ask, Cloud, CloudError, Draft, Edge, Exchange, Judgement, Pending,
    PendingAnswer, Router, Session, Token, Usage,
    in_flight::{InFlight, counted},
    speculation,
    trace::Times,
};

/// The most places that are due at once: behind more of them there is hardly ever anything left that
/// could be confirmed.
const MOST_DUE: usize = 4;

/// Said of a judgement that ends before a place it was made for.
const INCOMPLETE: &str =
    "did not judge every token of a draft: its places are asked for one by one";

/// A judgement that several places wait for.
enum Shared {
    OnItsWay(Pending<Judgement>),
    Arrived(Box<Result<Judgement, CloudError>>),
}

impl Shared {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<&Result<Judgement, CloudError>> {
        if let Self::OnItsWay(judgement) = self
            && let Poll::Ready(judgement) = judgement.as_mut().poll(context)
        {
            *self = Self::Arrived(Box::new(judgement));
        }
        match self {
            Self::OnItsWay(_) => Poll::Pending,
            Self::Arrived(judgement) => Poll::Ready(&**judgement),
        }
    }
}

/// The answers at these places of the draft. All of them are polled by the session, in one task.
fn answers(judgement: Pending<Judgement>, places: &[usize]) -> Vec<PendingAnswer> {
    let shared = Arc::new(Mutex::new(Shared::OnItsWay(judgement)));
    let answer = |(i, &place): (usize, &usize)| -> PendingAnswer {
        let shared = shared.clone();
        Box::pin(poll_fn(move |context| {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.poll(context).map(|judgement| answer_at(judgement, place, i == 0))
        }))
    };
    places.iter().enumerate().map(answer).collect()
}

/// What the cloud answers at one place. The first bears what the judgement cost.
fn answer_at(
    judgement: &Result<Judgement, CloudError>,
    place: usize,
    first: bool,
) -> Result<Answer, CloudError> {
    let judgement = judgement.as_ref().map_err(Clone::clone)?;
    let incomplete = CloudError::Unsupported { engine: "the cloud", what: INCOMPLETE };
    let judged = judgement.tokens.get(place).ok_or(incomplete)?;
    let usage = judgement.usage;
    let nothing =
        Usage { prefilled: usage.prefilled.map(|_| 0), cached: usage.cached.map(|_| 0), ..usage };
    Ok(Answer {
        tokens: vec![judged.greedy.clone()],
        judged: true,
        usage: if first { usage } else { Usage { decoded: 0, ..nothing } },
        times: if first { judgement.times } else { Times::default() },
        ..Answer::default()
    })
}

impl<E: Edge, R: Router, C: Cloud> Session<E, R, C> {
    /// Whether places may be judged together.
    fn judges(&self) -> bool {
        let can = || self.routing.as_ref().is_some_and(|routing| routing.cloud.judges_asks());
        let ids = self.exchange == Some(Exchange::Ids);
        self.ahead.judges && ids && self.sampling.is_greedy() && can()
    }

    /// The places that are due, by where they are in what was read ahead.
    fn due(&self) -> Vec<usize> {
        let due = |asked: &Option<InFlight>| asked.as_ref().is_some_and(InFlight::is_due);
        let places = self.ahead.path.iter().enumerate();
        places.filter(|(_, ahead)| due(&ahead.asked)).map(|(at, _)| at).collect()
    }

    /// Leaves the last place that was read ahead for a later request. `false` where it has to wait for an
    /// ask of its own.
    pub(crate) fn put_off(&mut self) -> bool {
        if !self.judges() || self.due().len() >= MOST_DUE {
            return false;
        }
        if let Some(ahead) = self.ahead.path.back_mut() {
            ahead.asked = Some(InFlight::Due);
        }
        true
    }

    /// Asks for the places that are due, if a request may be made now.
    pub(crate) fn judge_due(&mut self) {
        if self.ahead.on_their_way() >= self.ahead.limit {
            return;
        }
        match *self.due().as_slice() {
            [] => {}
            [only] => self.ask_at(only),
            [first, ..] => drop(self.judge_from(first + 1)),
        }
    }

    /// Makes room for the request that the text waits for: what is on its way for the farthest places is
    /// given up, and asked for again later.
    pub(crate) fn make_room(&mut self) {
        let (limit, judges) = (self.ahead.limit.max(1), self.judges());
        for at in (0..self.ahead.path.len()).rev() {
            if self.ahead.on_their_way() < limit {
                return;
            }
            let Some(ahead) = self.ahead.path.get_mut(at) else { continue };
            if ahead.asked.as_ref().is_some_and(InFlight::is_on_its_way) {
                // Where nothing is judged nothing may be due: a draw is not what the cloud holds likeliest.
                ahead.asked = judges.then_some(InFlight::Due);
                self.transcript.add_void_asks(1);
            }
        }
    }

    /// Has the place where the text stands judged together with those behind that are due; `None` where
    /// there are none.
    pub(crate) fn judge_here(&mut self) -> Option<InFlight> {
        if self.due().is_empty() { None } else { self.judge_from(0) }
    }

    /// One place alone is asked for as any other.
    fn ask_at(&mut self, at: usize) {
        let mut written = self.transcript.written().clone();
        for ahead in self.ahead.path.iter().take(at + 1) {
            written.push(Some(ahead.token), &self.vocabulary.piece(ahead.token));
        }
        let (how, requests) = ((self.wanted(), &self.sampling), &self.ahead.requests);
        let (Some(ahead), Some(routing)) = (self.ahead.path.get_mut(at), &mut self.routing) else {
            return;
        };
        let asked = speculation::begin(routing, how, Some(&ahead.step), &written);
        ahead.asked = asked.map(|asked| InFlight::OnItsWay(counted(requests, asked)));
    }

    /// Has everything judged that is due, in a draft that begins behind so many of the places that were
    /// read ahead. Where it begins where the text stands, that place is judged too: returns its answer.
    fn judge_from(&mut self, begin: usize) -> Option<InFlight> {
        let due = self.due();
        let last = due.last().and_then(|&at| self.ahead.path.get(at))?.step.proposed;
        let mut tokens = self.ahead.path.iter().map(|ahead| ahead.token);
        let mut written = self.transcript.written().clone();
        for token in tokens.by_ref().take(begin) {
            written.push(Some(token), &self.vocabulary.piece(token));
        }
        let end = due.last().map_or(begin, |at| at + 1);
        let draft: Vec<Token> = tokens.take(end - begin).chain([last]).collect();
        let (want, sampling) = (AnswerLength::Tokens(1), &self.sampling);
        let ask = Ask { tokens: &written.tokens, text: &written.text, want, sampling };
        let judgement = self.routing.as_mut()?.cloud.begin_judge(ask, Draft::Ids(&draft));
        let here = (begin == 0).then_some(0);
        let places: Vec<_> = here.into_iter().chain(due.iter().map(|at| at + 1 - begin)).collect();
        let judgement = judgement.map(|judgement| counted(&self.ahead.requests, judgement));
        let mut answers = judgement.map(|judgement| answers(judgement, &places).into_iter());
        let mut next = || answers.as_mut()?.next().map(InFlight::OnItsWay);
        let here = here.and_then(|_| next());
        for at in due {
            if let Some(ahead) = self.ahead.path.get_mut(at) {
                ahead.asked = next();
            }
        }
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerToken, Judged};

    fn token(id: u32) -> AnswerToken {
        AnswerToken { id: Some(Token(id)), text: "a".into(), logprob: None }
    }

    #[test]
    fn every_place_has_its_answer_and_the_first_bears_the_cost() {
        let judged = |id| Judged { given: token(9), greedy: token(id) };
        let usage = Usage { prefilled: Some(5), answered_by: Some(2), ..Usage::default() };
        let tokens = vec![judged(1), judged(2), judged(3)];
        let judgement = Judgement { tokens, usage, ..Judgement::default() };
        let mut answers = answers(Box::pin(std::future::ready(Ok(judgement))), &[0, 2, 3]);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut told = answers.iter_mut().map(|answer| match answer.as_mut().poll(&mut context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("it is there"),
        });
        let first = told.next().unwrap().unwrap();
        assert_eq!((first.tokens, first.usage, first.judged), (vec![token(1)], usage, true));
        let second = told.next().unwrap().unwrap();
        let free = Usage { prefilled: Some(0), ..usage };
        assert_eq!((second.tokens, second.usage), (vec![token(3)], free));
        // A judgement that is too short is none for the places behind its end.
        let missing = told.next().unwrap().unwrap_err();
        assert!(matches!(missing, CloudError::Unsupported { .. }), "{missing}");
    }
}
