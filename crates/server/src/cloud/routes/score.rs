//! `POST /v1/sessions/{id}/score`: how likely is this continuation?

use std::{sync::Arc, time::Instant};

use ::cloud::protocol::{Cost, Judged, Place, Score, Scores};
use axum::{
    Json,
    extract::{Path, State},
};
use decode::{Answered, Edge, Token, Vocabulary, text::TextStream};
use engine::EngineError;

use super::{advance, refuse};
use crate::cloud::{Server, body::Body, error::ApiError, sessions::Session, writer::milliseconds};

pub async fn score(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Body(score): Body<Score>,
) -> Result<Json<Scores>, ApiError> {
    let started = Instant::now();
    let mut held = server.sessions.hold(&id).await?;
    let session = held.session()?;
    advance(session, &Place { position: score.position, hash: score.hash }, &score.append)?;
    let vocabulary = session.sequence.model().vocabulary().clone();
    let given = session.conversation.encode(vocabulary.as_ref(), &score.continuation);
    let given = given.map_err(|refusal| refuse(refusal, session))?;
    if given.is_empty() {
        return Err(ApiError::invalid("the continuation is empty"));
    }
    let context = session.conversation.context();
    let (wanted, limit) = (context.len() + given.len(), session.sequence.model().context());
    if wanted > limit {
        return Err(ApiError::context_full(wanted, limit));
    }
    let (scores, read) = judge(session, &server, &context, &given).await?;
    let prefill = scores.reading.prefill + scores.reading.decode;
    let cost = Cost {
        prefilled: read,
        cached: wanted - read.min(wanted),
        prefill_ms: milliseconds(prefill),
        queued_ms: milliseconds(started.elapsed().saturating_sub(prefill)),
        ..Cost::default()
    };
    let mut stream = TextStream::default();
    let tokens = given.iter().zip(&scores.tokens).map(|(&id, scored)| Judged {
        given: Answered {
            id: Some(id),
            text: stream.push(&vocabulary.piece(id)),
            logprob: Some(scored.logprob),
        },
        greedy: greedy(vocabulary.as_ref(), scored.greedy, scored.greedy_logprob),
    });
    Ok(Json(Scores { tokens: tokens.collect(), cost }))
}

/// Reads the context as far as it is not cached, then the continuation; the latter does not stay.
async fn judge(
    session: &mut Session,
    server: &Server,
    context: &[Token],
    given: &[Token],
) -> Result<(engine::Scores, usize), ApiError> {
    let mut read = 0;
    loop {
        let cached = session.sequence.keep_common(context);
        if cached < context.len() {
            let output = server.sessions.read(&mut session.sequence, &context[cached..]).await?;
            read += output.reading.tokens;
        }
        match session.sequence.score(given).await {
            Err(EngineError::Full { .. }) if server.sessions.evict_one() => {}
            other => {
                let scores = other?;
                read += scores.reading.tokens;
                return Ok((scores, read));
            }
        }
    }
}

fn greedy(vocabulary: &dyn Vocabulary, id: Token, logprob: f32) -> Answered {
    let text = String::from_utf8_lossy(&vocabulary.piece(id)).into_owned();
    Answered { id: Some(id), text, logprob: Some(logprob) }
}
