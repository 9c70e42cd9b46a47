//! How likely is a continuation?

use std::time::Instant;

use decode::{AnswerToken, Edge, Token, Vocabulary, text::TextStream};
use engine::EngineError;

use super::{Service, ServiceError, sessions::Session, tokens::check_piece, writer::milliseconds};
use crate::protocol::{Cost, Prefix, ScoreRequest, ScoreResponse, ScoredToken};

/// Bytes of the hash of a prefix; more are no hash, and would be kept while the call waits.
const LONGEST_HASH: usize = 128;

/// So many unread tokens of the context are scored along with the continuation: one pass costs less than
/// two.
const SCORED_ALONG: usize = 8;

impl Service {
    /// Judges every token of a continuation in one prefill; none of it is accepted.
    pub async fn score(
        &self,
        id: &str,
        score: ScoreRequest,
    ) -> Result<ScoreResponse, ServiceError> {
        let started = Instant::now();
        if let Some(model) = self.model.loaded() {
            check_piece(model, &score.append)?;
            check_piece(model, &score.continuation)?;
        }
        if score.hash.len() > LONGEST_HASH {
            return Err(ServiceError::invalid("that is no hash"));
        }
        let mut guard = self.sessions.acquire(id).await?;
        let session = guard.as_mut().ok_or(ServiceError::Evicted)?;
        let prefix = Prefix { position: score.position, hash: score.hash };
        self.advance(session, &prefix, &score.append).await?;
        let model = session.sequence.model();
        let vocabulary = model.vocabulary().clone();
        let given = self.continuation(model, &session.conversation, score.continuation).await?;
        if given.is_empty() {
            return Err(ServiceError::invalid("the continuation is empty"));
        }
        let context = session.conversation.context();
        let (tokens, limit) = (context.len() + given.len(), session.sequence.model().context());
        if tokens > limit {
            return Err(ServiceError::ContextFull { tokens, context: limit });
        }
        let (scores, read) = self.judge(session, &context, &given).await?;
        let prefill = scores.reading.prefill + scores.reading.decode;
        let cost = Cost {
            prefilled: read,
            cached: tokens - read.min(tokens),
            prefill_ms: milliseconds(prefill),
            queued_ms: milliseconds(started.elapsed().saturating_sub(prefill)),
            ..Cost::default()
        };
        let mut stream = TextStream::default();
        let tokens = given.iter().zip(&scores.tokens).map(|(&id, scored)| ScoredToken {
            given: AnswerToken {
                id: Some(id),
                text: stream.push(&vocabulary.piece(id)),
                logprob: Some(scored.logprob),
            },
            greedy: greedy(vocabulary.as_ref(), scored.greedy, scored.greedy_logprob),
        });
        Ok(ScoreResponse { tokens: tokens.collect(), cost })
    }

    /// Reads the context as far as it is not cached, and the continuation. That is no part of the
    /// conversation, but stays in the cache: much of it is mostly accepted.
    async fn judge(
        &self,
        session: &mut Session,
        context: &[Token],
        given: &[Token],
    ) -> Result<(engine::Scores, usize), ServiceError> {
        let mut read = 0;
        loop {
            let cached = session.sequence.keep_common(context);
            let mut unread = &context[cached..];
            if cached == 0 || unread.len() > SCORED_ALONG {
                let output = self.sessions.read(&mut session.sequence, unread).await?;
                read += output.reading.tokens;
                unread = &[];
            }
            match session.sequence.score_and_keep(&[unread, given].concat()).await {
                Err(EngineError::Full { .. }) if self.sessions.evict_one() => {}
                other => {
                    let mut scores = other?;
                    scores.tokens.drain(..unread.len().min(scores.tokens.len()));
                    read += scores.reading.tokens;
                    return Ok((scores, read));
                }
            }
        }
    }
}

fn greedy(vocabulary: &dyn Vocabulary, id: Token, logprob: f32) -> AnswerToken {
    let text = String::from_utf8_lossy(&vocabulary.piece(id)).into_owned();
    AnswerToken { id: Some(id), text, logprob: Some(logprob) }
}
