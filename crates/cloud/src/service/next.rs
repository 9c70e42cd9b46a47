//! What comes next?

use std::time::Instant;

use super::{
    Service, ServiceError, collector,
    tokens::check_piece,
    writer::{self, Task, milliseconds},
};
use crate::protocol::{NextRequest, NextResponse, Prefix};

/// The most bytes that anything but the text itself may have in a question: a hash, and what the edge saw.
const MOST_BESIDES: usize = 512 << 10;

/// Refuses what nobody has to say, before anybody waits with it.
fn check_size(next: &NextRequest) -> Result<(), ServiceError> {
    let seen = next.edge.as_ref().map_or(0, |edge| {
        let piece = edge.piece.as_ref().map_or(0, String::len);
        edge.hidden.len() + piece + size_of_val(edge.features.as_slice())
    });
    match next.hash.len() + seen > MOST_BESIDES {
        true => Err(ServiceError::invalid(format!(
            "hash and edge have more than {} KiB",
            MOST_BESIDES >> 10
        ))),
        false => Ok(()),
    }
}

impl Service {
    /// Writes what comes next and accepts it. The same sequence number gets the same answer.
    pub async fn next(&self, id: &str, next: NextRequest) -> Result<NextResponse, ServiceError> {
        let started = Instant::now();
        check_size(&next)?;
        if let Some(model) = self.model.loaded() {
            check_piece(model, &next.append)?;
        }
        let mut guard = self.sessions.acquire(id).await?;
        let session = guard.as_mut().ok_or(ServiceError::Evicted)?;
        let waited = started.elapsed();
        match &session.last {
            Some((sequence, answer)) if *sequence == next.sequence => return Ok(answer.clone()),
            Some((sequence, _)) if *sequence > next.sequence => {
                let message = format!("question {sequence} was answered already");
                return Err(ServiceError::conflict(message, session.conversation.prefix()));
            }
            _ => {}
        }
        let seen = collector::read(session, next.edge.as_ref())?;
        let task = Task {
            want: next.want,
            sampling: next.sampling,
            reuse: self.config.reuse,
            // Whatever was drawn: a router learns from what the cloud holds likeliest.
            likeliest: seen.is_some(),
        };
        task.validate(session.conversation.exchange)?;
        let prefix = Prefix { position: next.position, hash: next.hash };
        self.advance(session, &prefix, &next.append).await?;
        let position = session.conversation.position();
        let (mut answer, likeliest) = writer::write(session, &self.sessions, &task).await?;
        answer.cost.queued_ms += milliseconds(waited);
        if let Some(observer) = &self.config.observer {
            observer.answered(&answer.cost);
        }
        session.last = Some((next.sequence, answer.clone()));
        if let (Some(collector), Some(seen), Some(likeliest)) =
            (&self.config.collector, &seen, likeliest)
        {
            collector::collect(collector.as_ref(), session, seen, position, likeliest);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Amount, EdgeState, Piece};

    #[test]
    fn nobody_waits_with_more_than_there_is_to_say() {
        let next = |hash: usize, hidden: usize| NextRequest {
            sequence: 1,
            position: 0,
            hash: "0".repeat(hash),
            append: Piece::Text("x".repeat(1 << 20)),
            want: Amount::Tokens(1),
            sampling: decode::Sampling::default(),
            edge: Some(EdgeState {
                proposed: decode::Token(1),
                piece: None,
                hidden: "A".repeat(hidden),
                features: vec![],
            }),
        };
        // The text is measured by the context. A hidden state of 65 536 numbers is more than any model has.
        assert!(check_size(&next(64, 65_536 * 2 * 4 / 3)).is_ok());
        for (hash, hidden) in [(1 << 20, 0), (64, 1 << 20)] {
            let refused = check_size(&next(hash, hidden)).unwrap_err();
            assert_eq!(refused.status(), 400, "{refused}");
        }
    }
}
