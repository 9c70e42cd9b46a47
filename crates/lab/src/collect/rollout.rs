//! Positions at which only carrying the edge's own token on to the end of the answer tells whether it
//! does harm.

use std::{collections::HashSet, sync::Arc};

use decode::Vocabulary;

use super::{
    collection::{OpenPosition, RollOut},
    run::Job,
};
use crate::{Error, worker::Worker};

/// Rolls out the drawn positions that were not rolled out before, all of an example by one worker.
pub(super) async fn roll_out_all(job: &Arc<Job>) -> Result<(), Error> {
    let done = job.collection.rolled_out(job.round)?;
    let done: HashSet<_> = done.iter().map(|r| (r.example, r.position)).collect();
    let mut left = job.collection.drawn(job.config.rollouts, job.config.roll_out_asks)?;
    left.retain(|open| {
        // What has no right answer cannot be judged by it.
        let example = job.examples.get(open.example as usize);
        let judged = example.is_some_and(|e| e.is_right("").is_some());
        judged && !done.contains(&(open.example, open.position))
    });
    let by_example: Vec<Vec<OpenPosition>> =
        left.chunk_by(|a, b| a.example == b.example).map(<[_]>::to_vec).collect();
    job.share("rolling out", left.len(), by_example, roll_out).await
}

async fn roll_out(
    job: Arc<Job>,
    mut worker: Worker,
    positions: Vec<OpenPosition>,
) -> Result<Worker, Error> {
    for OpenPosition { example, position, proposed, .. } in positions {
        let number = example as usize;
        let worked = job.example(number)?.worked.as_deref().unwrap_or_default();
        let mut written = job.tandem.pair().edge().await?.vocabulary().encode(worked);
        written.truncate(position as usize);
        written.extend(proposed);
        let right = job.ends_right(&mut worker, number, written).await?;
        job.collection.add_rollout(job.round, RollOut { example, position, right })?;
        job.progress.step();
    }
    Ok(worker)
}
