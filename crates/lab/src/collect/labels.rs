//! Worked answers, read by the edge with teacher forcing and scored by the cloud in one prefill.
//!
//! Where labels go by likelihood, the cloud is asked once more at every position where the two part:
//! how likely does it find the edge's token beside its own?

use std::sync::{Arc, atomic::Ordering};

use cloud::protocol::{Piece, ScoredToken};
use decode::{Cloud, CloudError, Edge, Exchange, Token, Vocabulary};

use super::{
    Label, LabelSource,
    collection::{OpenPosition, SampleSet},
    run::{Job, LabelRule},
};
use crate::{
    Error,
    label::{EdgeReading, Judgement, Labelled, label, own_choice},
    worker::Worker,
};

/// A token that the cloud finds at least this many times as likely as its own does no harm: mostly it
/// is another word for the same.
const HARMLESS: f32 = 0.25;

/// Reads every shard that is not there yet.
pub(super) async fn read_all(job: &Arc<Job>) -> Result<(), Error> {
    let missing = job.collection.missing(SampleSet::Forced);
    job.share("reading", job.collection.count(&missing), missing, read_shard).await
}

async fn read_shard(job: Arc<Job>, mut worker: Worker, shard: usize) -> Result<Worker, Error> {
    let (mut samples, mut open) = (vec![], vec![]);
    for example in job.collection.examples(shard) {
        for Labelled { sample, proposed } in read(&job, &mut worker, example).await? {
            if sample.label_source != LabelSource::Edge && sample.label != Label::Trust {
                let (example, position) = (sample.example, sample.position);
                let (proposed, ask) = (Some(proposed), sample.label == Label::Ask);
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
    let own = job.config.labels == LabelRule::Likelihood { own: true };
    let judged = if own {
        own_choice(&tokens, vocabulary.as_ref(), exchange)
    } else {
        match worker.score(exchange, &worked).await {
            Err(Error::Cloud(CloudError::ContextFull)) => return too_long(),
            judged => judged?.into_iter().map(judgement).collect(),
        }
    };
    let example = u32::try_from(number).map_err(Error::internal)?;
    let reading = EdgeReading { tokens: &tokens, steps: &steps, example };
    let mut labelled = label(reading, vocabulary.as_ref(), exchange, &judged);
    if job.config.labels == LabelRule::Reference {
        return Ok(labelled);
    }
    // The last first: what stands before an earlier position is in the cloud's cache already.
    for at in labelled.iter_mut().rev() {
        if at.sample.agrees != Some(false) {
            (at.sample.label, at.sample.label_source) = (Label::Trust, LabelSource::Edge);
            continue;
        }
        let before = &tokens[..at.sample.position as usize];
        let ratio = likelihood_ratio(job, worker, before, at.proposed, exchange).await?;
        let harmless = ratio.is_some_and(|ratio| ratio >= HARMLESS);
        at.sample.label = if harmless { Label::Trust } else { Label::Ask };
        at.sample.label_source = LabelSource::Likelihood;
    }
    Ok(labelled)
}

/// How many times as likely as its own next token the cloud finds the edge's; `None` where it cannot
/// say, because it gives no likelihoods, or because the edge would end a text of words here.
async fn likelihood_ratio(
    job: &Job,
    worker: &mut Worker,
    before: &[Token],
    proposed: Token,
    exchange: Exchange,
) -> Result<Option<f32>, Error> {
    let vocabulary = job.tandem.pair().edge().await?.vocabulary().clone();
    let proposal = match exchange {
        Exchange::Ids => Piece::Ids(vec![proposed]),
        Exchange::Text => match String::from_utf8(vocabulary.piece(proposed)) {
            Ok(piece) if !piece.is_empty() => Piece::Text(piece),
            _ => return Ok(None),
        },
    };
    if job.no_likelihoods.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let scored = match worker.score_behind(before, proposal).await {
        Err(Error::Cloud(CloudError::Unsupported { .. })) => {
            job.no_likelihoods.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        Err(Error::Cloud(CloudError::ContextFull)) => return Ok(None),
        scored => scored?,
    };
    let first = scored.first();
    let pair = first.and_then(|first| Some((first.given.logprob?, first.greedy.logprob?)));
    Ok(pair.map(|(given, greedy)| (given - greedy).exp()))
}

fn judgement(judged: ScoredToken) -> Judgement {
    Judgement {
        chosen: judged.given.id.is_some() && judged.given.id == judged.greedy.id,
        logprob: judged.given.logprob.unwrap_or(f32::NAN),
        text: judged.given.text,
        greedy: judged.greedy.text,
        greedy_id: judged.greedy.id,
    }
}
