//! The later rounds' own states: those behind words the cloud wrote, which teacher forcing never
//! shows.

use std::sync::Arc;

use decode::{Score, Source, Step, Token, sampling};
use half::f16;
use router::{FEATURES, features};
use tandem::Mode;

use super::{Label, LabelSource, Sample, collection::SampleSet, run::Job};
use crate::{
    Error,
    record::Recorder,
    worker::{Decoding, Worker},
};

/// Positions of one joint text that are labelled.
const POSITIONS: usize = 2;

/// Decodes every example jointly, shard by shard, and labels a few positions of each text.
pub(super) async fn decode_all(job: &Arc<Job>) -> Result<(), Error> {
    let missing = job.collection.missing(SampleSet::Joint(job.round));
    job.share("decoding jointly", job.collection.count(&missing), missing, decode_shard).await
}

async fn decode_shard(job: Arc<Job>, mut worker: Worker, shard: usize) -> Result<Worker, Error> {
    let mut samples = vec![];
    for example in job.collection.examples(shard) {
        samples.extend(decode(&job, &mut worker, example).await?);
        job.progress.step();
    }
    job.collection.write(SampleSet::Joint(job.round), shard, &samples, &[])?;
    Ok(worker)
}

/// What the edge showed at one position of a joint text.
struct EdgeView {
    hidden: Vec<f16>,
    features: [f32; FEATURES],
    proposed: Token,
}

impl EdgeView {
    fn new(step: &Step, _: Score) -> Self {
        Self {
            hidden: step.hidden.iter().map(|&x| f16::from_f32(x)).collect(),
            features: features(&step.logits),
            proposed: step.proposed,
        }
    }
}

async fn decode(job: &Job, worker: &mut Worker, number: usize) -> Result<Vec<Sample>, Error> {
    let Some((router, threshold)) = &job.config.joint else { return Ok(vec![]) };
    let example = job.example(number)?;
    if example.is_right("").is_none() {
        return Ok(vec![]);
    }
    let recorder = Recorder::new(router.build(0), EdgeView::new);
    let (policy, max_tokens) = ((*threshold).into(), job.config.max_tokens);
    let decoding = Decoding { mode: Mode::Joint, router: recorder.clone(), policy, max_tokens };
    let transcript = worker.decode(&job.messages(number)?, vec![], decoding).await?;
    let text_right = example.is_right(&transcript.text()) == Some(true);
    let views = recorder.take();

    // One view a span: every kept token is a span of its own, and so is every word of the cloud's,
    // whose first token says what the ask cost.
    let shown = transcript.shown();
    let begins = shown.iter().enumerate().filter(|(_, token)| {
        let word_goes_on = token.source == Source::Cloud && token.cloud.is_none();
        !word_goes_on
    });
    let inserted = shown.iter().position(|t| t.source == Source::Cloud);
    let Some(inserted) = inserted else { return Ok(vec![]) };
    let mut positions: Vec<(&EdgeView, usize)> = views
        .iter()
        .zip(begins.map(|(at, _)| at))
        .filter(|&(_, at)| at > inserted && shown[at].eligible == Some(true))
        .collect();
    let seed = job.collection.info().seed;
    positions.sort_by_key(|&(_, at)| sampling::hash(seed ^ number as u64, at));
    positions.truncate(POSITIONS);

    let mut samples = vec![];
    for (view, at) in positions {
        let mut written: Vec<Token> = transcript.tokens()[..at].to_vec();
        written.push(view.proposed);
        // Where the token was kept, the joint text is its roll-out.
        let kept_right = if shown[at].source == Source::Cloud {
            job.ends_right(worker, number, written).await?
        } else {
            text_right
        };
        let label = match (kept_right, text_right) {
            (true, _) => Label::Trust,
            (false, true) => Label::Ask,
            (false, false) => Label::Unknown,
        };
        samples.push(Sample {
            hidden: view.hidden.clone(),
            features: view.features,
            label,
            label_source: LabelSource::Joint,
            edge_logprob: f32::NAN,
            cloud_logprob: f32::NAN,
            agrees: None,
            example: u32::try_from(number).map_err(Error::internal)?,
            position: u32::try_from(at).map_err(Error::internal)?,
        });
    }
    Ok(samples)
}
