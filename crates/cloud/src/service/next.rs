//! What comes next?

use std::time::Instant;

use super::{
    Service, ServiceError, collector,
    tokens::check_piece,
    writer::{self, Task, milliseconds},
};
use crate::protocol::{NextRequest, NextResponse, Prefix};

impl Service {
    /// Writes what comes next and accepts it. The same sequence number gets the same answer.
    pub async fn next(&self, id: &str, next: NextRequest) -> Result<NextResponse, ServiceError> {
        let started = Instant::now();
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
