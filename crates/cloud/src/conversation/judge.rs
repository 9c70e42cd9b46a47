//! Judging a draft: what would the engine have written at every place of it?
//!
//! An engine that scores a given text says so in one prefill. Any other is asked for one token behind each
//! part of the draft, all at once: its slots read them in one batch, and its cache spares it the rest.

use std::{
    future::poll_fn,
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use decode::{AnswerToken, Ask, CloudError, Judged, Judgement, Times, Token, Usage};

use super::Conversation;
use crate::{
    engine::{Completion, Context, Question},
    protocol::{Piece, ScoredToken},
};

/// At how many places a draft is judged where the engine does not say how many it works on at once.
const PLACES: usize = 8;

impl Conversation {
    /// What the engine thinks of a draft behind everything accepted so far. Only the places that it can
    /// look at in one go are judged: the rest of the draft is left out.
    pub async fn judge(
        &self,
        ask: &Ask<'_>,
        draft: &Piece,
        within: Duration,
    ) -> Result<Judgement, CloudError> {
        let started = Instant::now();
        let prompt = self.state().prompt.clone().ok_or(CloudError::NotOpened)?;
        let mut judgement = match (prompt, draft) {
            (Piece::Ids(prompt), Piece::Ids(draft)) => {
                let context = [prompt.as_slice(), ask.tokens].concat();
                self.judge_ids(&context, draft, ask, within).await?
            }
            (Piece::Text(prompt), Piece::Text(draft)) => {
                let context = format!("{prompt}{}", ask.text);
                self.judge_text(&context, draft, ask, within).await?
            }
            (Piece::Ids(_), Piece::Text(_)) | (Piece::Text(_), Piece::Ids(_)) => {
                return Err(CloudError::NotOpened);
            }
        };
        self.hide(&mut judgement.usage);
        let (times, took) = (&mut judgement.times, started.elapsed());
        times.cloud_prefill = times.cloud_prefill.min(took);
        times.cloud_decode = times.cloud_decode.min(took);
        times.network = took.saturating_sub(times.cloud_prefill + times.cloud_decode);
        Ok(judgement)
    }

    async fn judge_ids(
        &self,
        context: &[Token],
        draft: &[Token],
        ask: &Ask<'_>,
        within: Duration,
    ) -> Result<Judgement, CloudError> {
        let room = self.about.context.map_or(usize::MAX, |c| c.saturating_sub(context.len()));
        if room == 0 {
            return Err(CloudError::ContextFull);
        }
        let draft = &draft[..draft.len().min(room)];
        let whole = [context, draft].concat();
        self.check(&whole)?;
        if self.connection.dialect.score(&whole, context.len(), self.salt()).is_some() {
            let scored = self.connection.score(&whole, context.len(), self.salt(), within).await?;
            let judged = |ScoredToken { given, greedy }| Judged { given, greedy };
            let tokens = scored.into_iter().map(judged).collect();
            return Ok(Judgement { tokens, ..Judgement::default() });
        }
        let places = draft.len().min(self.places());
        let contexts: Vec<_> = (0..places).map(|at| &whole[..context.len() + at]).collect();
        let question = Question { slot: None, ..self.question(Context::Ids(context), 1, ask) };
        let completions = self.connection.complete_each(&question, &contexts, within).await?;
        let greedy = |completion: &Completion| {
            let written = completion.ids.as_ref().and_then(|ids| ids.first().copied());
            let logprob = completion.logprobs.first().copied().flatten();
            Some(token(written.or(completion.closing)?, logprob))
        };
        let judged = completions.iter().map_while(greedy).zip(draft);
        let judged = judged.map(|(greedy, &given)| Judged { given: token(given, None), greedy });
        let (tokens, (usage, times)) = (judged.collect(), cost(&completions));
        Ok(Judgement { tokens, usage, times })
    }

    /// The engine has tokens of its own: what it writes is followed through the draft, as far as the
    /// edge's tokens end where the engine's do.
    async fn judge_text(
        &self,
        context: &str,
        draft: &str,
        ask: &Ask<'_>,
        within: Duration,
    ) -> Result<Judgement, CloudError> {
        let mut places = self.places_in(draft);
        places.truncate(self.places());
        let contexts: Vec<_> =
            places.iter().map(|&at| format!("{context}{}", &draft[..at])).collect();
        let asked = contexts.iter().map(|context| async move {
            let question = self.question(Context::Text(context), 1, ask);
            self.connection.complete(&Question { slot: None, ..question }, within).await
        });
        let completions = all_of(asked).await?;
        let (usage, times) = cost(&completions);
        let ends = places.iter().skip(1).copied().chain([draft.len()]);
        let (mut at, mut tokens) = (0, vec![]);
        for ((&place, end), completion) in places.iter().zip(ends).zip(&completions) {
            if place != at {
                continue;
            }
            if completion.full && completion.text.is_empty() {
                break;
            }
            // Half a character, or a token without text, is no end: a word is asked for there.
            let theirs = match completion.text.as_str() {
                "" if !completion.end => "\u{fffd}",
                text => text,
            };
            let same = !theirs.is_empty() && draft[at..].starts_with(theirs);
            let given = if same { theirs } else { &draft[at..end] };
            tokens.push(Judged { given: text(given), greedy: text(theirs) });
            if !same {
                break;
            }
            at += theirs.len();
        }
        if tokens.is_empty() {
            return Err(CloudError::ContextFull);
        }
        Ok(Judgement { tokens, usage, times })
    }

    /// How many places are judged at once: more would wait for each other.
    fn places(&self) -> usize {
        self.about.slots.unwrap_or(PLACES).max(1)
    }

    /// Where the edge's tokens begin in a draft, as far as characters do.
    fn places_in(&self, draft: &str) -> Vec<usize> {
        let Some(edge) = &self.opening.edge else { return vec![0] };
        let tokens = edge.vocabulary.encode(draft).into_iter();
        let mut end = 0;
        let ends = tokens.map(|token| {
            end += edge.vocabulary.piece(token).len();
            end
        });
        let inside = |at: &usize| *at < draft.len() && draft.is_char_boundary(*at);
        [0].into_iter().chain(ends.filter(inside)).collect()
    }
}

fn token(id: Token, logprob: Option<f32>) -> AnswerToken {
    AnswerToken { id: Some(id), text: String::new(), logprob }
}

fn text(text: &str) -> AnswerToken {
    AnswerToken { id: None, text: text.to_owned(), logprob: None }
}

/// What was read and written for all of them, and the time of the slowest.
fn cost(completions: &[Completion]) -> (Usage, Times) {
    let sum = |count: fn(&Usage) -> Option<usize>| {
        completions.iter().map(|c| count(&c.usage)).sum::<Option<usize>>()
    };
    let usage = Usage {
        prefilled: sum(|usage| usage.prefilled),
        cached: sum(|usage| usage.cached),
        decoded: completions.iter().map(|c| c.usage.decoded).sum(),
        ..Usage::default()
    };
    let slowest = completions.iter().map(|c| c.times);
    let slowest = slowest.max_by_key(|times| times.cloud_prefill + times.cloud_decode);
    (usage, slowest.unwrap_or_default())
}

/// Waits for all of them at once; fails with the first that fails.
async fn all_of<T>(
    futures: impl Iterator<Item: Future<Output = Result<T, CloudError>> + Send>,
) -> Result<Vec<T>, CloudError> {
    type Waiting<'a, T> = Pin<Box<dyn Future<Output = Result<T, CloudError>> + Send + 'a>>;
    let mut waiting: Vec<_> =
        futures.map(|future| (Box::pin(future) as Waiting<'_, T>, None)).collect();
    poll_fn(|context| {
        for (future, done) in waiting.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(one) = future.as_mut().poll(context) {
                *done = Some(one?);
            }
        }
        let done = waiting.iter().all(|(_, done)| done.is_some());
        if done { Poll::Ready(Ok::<_, CloudError>(())) } else { Poll::Pending }
    })
    .await?;
    Ok(waiting.into_iter().filter_map(|(_, done)| done).collect())
}
