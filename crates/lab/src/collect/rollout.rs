//! Positions at which only carrying the edge's own token on to the end of the answer tells whether it
//! does harm.

use std::{collections::HashSet, sync::Arc};

use decode::Vocabulary;

use super::{
    collection::{OpenPosition, RollOut, Round},
    run::Job,
};
use crate::{
    Error,
    worker::{Worker, share_work},
};

/// Rolls out the drawn positions that were not rolled out before, all of an example by one worker.
pub(super) async fn roll_out_all(job: &Arc<Job>) -> Result<(), Error> {
    let round = if job.config.second_round.is_some() { Round::Two } else { Round::One };
    let done = job.collection.rolled_out(round)?;
    let done: HashSet<_> = done.iter().map(|r| (r.example, r.position)).collect();
    let (most, asks) = (job.config.rollouts, job.config.roll_out_asks);
    let left: Vec<OpenPosition> = job
        .collection
        .drawn(most, asks)?
        .into_iter()
        .filter(|open| !done.contains(&(open.example, open.position)))
        // What has no right answer cannot be judged by it.
        .filter(|open| {
            let example = job.examples.get(open.example as usize);
            example.is_some_and(|e| e.is_right("").is_some())
        })
        .collect();
    job.progress.begin("rolling out", left.len());
    let groups: Vec<Vec<OpenPosition>> =
        left.chunk_by(|a, b| a.example == b.example).map(<[_]>::to_vec).collect();
    let (tandem, parallel) = (&job.tandem, job.config.parallel);
    let job = job.clone();
    let progress = job.progress.clone();
    let roll_out = move |mut worker: Worker, group: Vec<OpenPosition>| {
        let job = job.clone();
        async move {
            for open in group {
                let number = open.example as usize;
                let worked = job.example(number)?.worked.as_deref().unwrap_or_default();
                let mut written = job.tandem.pair().edge().await?.vocabulary().encode(worked);
                written.truncate(open.position as usize);
                written.extend(open.proposed);
                let right = job.ends_right(&mut worker, number, written).await?;
                let OpenPosition { example, position, .. } = open;
                job.collection.add_rollout(round, RollOut { example, position, right })?;
                job.progress.step();
            }
            Ok::<_, Error>(worker)
        }
    };
    share_work(tandem, parallel, groups, roll_out).await?;
    progress.end();
    Ok(())
}
