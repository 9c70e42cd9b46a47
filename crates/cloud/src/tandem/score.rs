//! Judging a draft: one request, in which nothing is accepted.
//!
//! The cloud answers questions in their order, but a judgement has no number there: it may come before or
//! after a question that was sent at the same time. So as long as it is on its way the cloud may stand
//! behind either text, and afterwards it is known to have what both begin with.

use std::time::{Duration, Instant};

use decode::{Answer, Ask, CloudError, Exchange, Judged, Judgement, common_prefix};

use super::{ATTEMPTS, BUSY_DELAY, Session, SharedPrefix, TandemClient, read, shared_text};
use crate::{
    protocol::{NextRequest, NextResponse, Piece, ScoreRequest, ScoreResponse, ScoredToken, code},
    transport::SessionFailure,
};

/// A judgement that is on its way.
#[derive(Debug)]
pub(super) struct Judging {
    number: u64,
    /// The text behind which a draft is judged.
    pub behind: SharedPrefix,
    /// Whether nothing else was on its way when it was sent.
    alone: bool,
}

/// Takes account of a judgement, however it ends: answered, refused or given up.
struct Under<'a> {
    client: &'a TandemClient,
    session: String,
    number: u64,
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        let mut state = self.client.state();
        if let Some(session) = state.session.as_mut().filter(|session| session.id == self.session) {
            session.end_judging(self.number);
        }
    }
}

impl TandemClient {
    /// Whether one judgement costs less than an ask for each of its places. A cloud that collects learns
    /// from asks only.
    pub fn judges_asks(&self) -> bool {
        let state = self.state();
        state.session.as_ref().is_some_and(|s| s.exchange == Exchange::Ids && !s.collects)
    }

    /// What the cloud thinks of a continuation.
    pub async fn score(
        &self,
        accepted: &Ask<'_>,
        continuation: Piece,
        within: Duration,
    ) -> Result<ScoreResponse, CloudError> {
        self.try_score(accepted, continuation, within).await.map_err(|failure| failure.error)
    }

    async fn try_score(
        &self,
        accepted: &Ask<'_>,
        continuation: Piece,
        within: Duration,
    ) -> Result<ScoreResponse, SessionFailure> {
        let (under, request) = {
            let mut state = self.state();
            let session = state.session.as_mut().ok_or(CloudError::NotOpened)?;
            let (number, request) = session.begin_judging(accepted);
            (Under { client: self, session: session.id.clone(), number }, request)
        };
        let NextRequest { position, hash, append, .. } = request;
        for piece in [&append, &continuation] {
            match piece {
                Piece::Text(text) => self.transport.sent().note(text),
                Piece::Ids(ids) => self.transport.sent().note(&self.spelled(ids)),
            }
        }
        let score = ScoreRequest { position, hash, append, continuation };
        self.transport.score(&under.session, score, within).await
    }

    /// What the cloud thinks of a draft. A session that it lost is opened again.
    pub async fn judge(
        &self,
        ask: &Ask<'_>,
        draft: Piece,
        within: Duration,
    ) -> Result<Judgement, CloudError> {
        let started = Instant::now();
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            let known = self.state().session.as_ref().map(|session| session.id.clone());
            let Some(id) = known else {
                self.reopen_session(ask).await?;
                continue;
            };
            match self.try_score(ask, draft.clone(), within).await {
                Ok(scores) => return Ok(judgement(scores, started.elapsed())),
                Err(failure) => refused = Some(self.bring_back(&id, failure).await?),
            }
        }
        Err(refused.unwrap_or(CloudError::NotOpened))
    }

    /// Sees to it that the next try may succeed; gives back what it cannot mend.
    async fn bring_back(
        &self,
        id: &str,
        failure: SessionFailure,
    ) -> Result<CloudError, CloudError> {
        let SessionFailure { code, error } = failure;
        match code.as_deref() {
            Some(code::CONFLICT) => {
                let mut state = self.state();
                if let Some(session) = state.session.as_mut().filter(|session| session.id == id) {
                    session.held = SharedPrefix::default();
                }
            }
            Some(code::EVICTED | code::UNKNOWN_SESSION) => {
                let mut state = self.state();
                // Unless another request has opened it again meanwhile.
                state.session.take_if(|session| session.id == id);
            }
            Some(code::BUSY) => tokio::time::sleep(BUSY_DELAY).await,
            _ => return Err(error),
        }
        Ok(error)
    }
}

impl Session {
    /// Remembers a judgement as one that is on its way.
    fn begin_judging(&mut self, ask: &Ask<'_>) -> (u64, NextRequest) {
        let alone = self.sent.is_empty() && self.judging.is_empty();
        self.sequence += 1;
        let (number, request) = (self.sequence, self.request(ask));
        let behind = SharedPrefix { tokens: ask.tokens.to_vec(), text: ask.text.to_owned() };
        self.judging.push(Judging { number, behind, alone });
        (number, request)
    }

    fn end_judging(&mut self, number: u64) {
        let Some(at) = self.judging.iter().position(|judging| judging.number == number) else {
            return;
        };
        let Judging { behind, alone, .. } = self.judging.swap_remove(at);
        if alone && self.sequence == number {
            self.held = behind;
            return;
        }
        let held = &mut self.held;
        held.tokens.truncate(common_prefix(&behind.tokens, &held.tokens));
        held.text.truncate(shared_text(&behind.text, &held.text));
    }
}

fn judgement(scores: ScoreResponse, took: Duration) -> Judgement {
    let tokens = scores.tokens.into_iter();
    let tokens = tokens.map(|ScoredToken { given, greedy }| Judged { given, greedy }).collect();
    let nothing = NextResponse { tokens: vec![], finish_reason: None, cost: scores.cost };
    let Answer { usage, times, .. } = read(nothing, took);
    Judgement { tokens, usage, times }
}

#[cfg(test)]
mod tests {
    use decode::{AnswerLength, Sampling, Token};

    use super::*;
    use crate::ask::OwnedAsk;

    /// An ask behind these tokens.
    fn ask(tokens: &[u32]) -> OwnedAsk {
        let tokens: Vec<_> = tokens.iter().copied().map(Token).collect();
        let (text, want) = ("x".repeat(tokens.len()), AnswerLength::Tokens(1));
        OwnedAsk { tokens, text, want, sampling: Sampling::default(), seen: None }
    }

    fn position(session: &Session, tokens: &[u32]) -> usize {
        session.request(&ask(tokens).as_ask()).position
    }

    #[test]
    fn what_the_cloud_has_behind_a_judgement_is_what_it_has_for_certain() {
        let mut session = Session::new("s".into(), Exchange::Ids, false);
        // Alone: the cloud stands behind the text that was judged from.
        let (number, request) = session.begin_judging(&ask(&[1, 2, 3]).as_ask());
        assert_eq!(request.position, 0);
        session.end_judging(number);
        assert_eq!(position(&session, &[1, 2, 3, 4]), 3);
        // With a question on its way, it may read either of them last.
        let asked = ask(&[1, 2, 9]);
        let (_, question) = session.begin(&asked);
        let (number, _) = session.begin_judging(&ask(&[1, 2, 3, 4]).as_ask());
        assert_eq!(position(&session, &[1, 2, 3, 4, 5]), 2);
        session.answered(question.sequence, &asked, &Answer::default());
        assert_eq!(position(&session, &[1, 2, 9, 9]), 2);
        session.end_judging(number);
        assert_eq!(position(&session, &[1, 2, 9, 9]), 2);
        assert_eq!(position(&session, &[1, 2, 3, 4]), 2);
    }
}
