//! Worked answers, read by the edge with teacher forcing and scored by the cloud in one prefill.

use std::sync::{Arc, atomic::Ordering};

use cloud::protocol::ScoredToken;
use decode::{Cloud, CloudError, Edge, Token, Vocabulary};

use super::{
    LabelSource,
    collection::{OpenPosition, SampleSet},
    run::Job,
};
use crate::{
    Error,
    label::{EdgeReading, Judgement, Labelled, label},
    worker::Worker,
};

/// Reads every shard that is not there yet.
pub(super) async fn read_all(job: &Arc<Job>) -> Result<(), Error> {
    let missing = job.collection.missing(SampleSet::Forced);
    job.share("reading", job.collection.count(&missing), missing, read_shard).await
}

async fn read_shard(job: Arc<Job>, mut worker: Worker, shard: usize) -> Result<Worker, Error> {
    let (mut samples, mut open) = (vec![], vec![]);
    for example in job.collection.examples(shard) {
        for Labelled { sample, proposed } in read(&job, &mut worker, example).await? {
            if sample.label_source != LabelSource::Edge {
                let (example, position) = (sample.example, sample.position);
                let (proposed, ask) = (Some(proposed), sample.label_source == LabelSource::Cloud);
                open.push(OpenPosition { example, position, proposed, ask });
            }
            samples.push(sample);
        }
        job.progress.step();
    }
    job.collection.write(SampleSet::Forced, shard, &samples, &open)?;
    Ok(worker)
}

/// One worked answer: the edge's states, the cloud's scores, the labels. There are none where it does
/// not fit.
async fn read(job: &Job, worker: &mut Worker, number: usize) -> Result<Vec<Labelled>, Error> {
    let messages = job.messages(number)?;
    let worked = job.example(number)?.worked.clone().unwrap_or_default();
    let edge = job.tandem.pair().edge().await?;
    let vocabulary = edge.vocabulary().clone();
    // Not `Worker::tokens`: a prompt that does not fit is skipped and counted, not an error.
    let prompt = vocabulary.prompt(&messages)?;
    let tokens = vocabulary.encode(&worked);
    let Some((last, before)) = prompt.split_last().filter(|_| !tokens.is_empty()) else {
        return Ok(vec![]);
    };
    let too_long = || {
        job.too_long.fetch_add(1, Ordering::Relaxed);
        Ok(vec![])
    };
    if prompt.len() + tokens.len() >= edge.context() {
        return too_long();
    }
    // Both models begin every example with nothing read: tokens read in other batches are rounded
    // otherwise, and a run that resumes in the middle must compute the same numbers.
    worker.close().await?;
    worker.read_alone(before).await?;
    // The view before a token is the view behind the one before it.
    let fed: Vec<Token> =
        [*last].into_iter().chain(tokens[..tokens.len() - 1].iter().copied()).collect();
    let steps = worker.edge().await?.steps(&fed).await?;

    let exchange = match worker.introduce(&messages, false).await?.open().await {
        Err(CloudError::ContextFull) => return too_long(),
        opened => opened?.exchange,
    };
    if exchange != job.collection.info().exchange {
        let reason = "the cloud changed between ids and text; collect again in another folder";
        return Err(Error::usage(reason));
    }
    let judged = match worker.score(exchange, &worked).await {
        Err(Error::Cloud(CloudError::ContextFull)) => return too_long(),
        judged => judged?,
    };
    let judged: Vec<Judgement> = judged.into_iter().map(judgement).collect();
    let example = u32::try_from(number).map_err(Error::internal)?;
    let reading = EdgeReading { tokens: &tokens, steps: &steps, example };
    Ok(label(reading, vocabulary.as_ref(), exchange, &judged))
}

fn judgement(judged: ScoredToken) -> Judgement {
    Judgement {
        chosen: judged.given.id.is_some() && judged.given.id == judged.greedy.id,
        logprob: judged.given.logprob.unwrap_or(f32::NAN),
        text: judged.given.text,
        greedy: judged.greedy.text,
    }
}
