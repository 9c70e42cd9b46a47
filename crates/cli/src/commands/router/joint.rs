//! The second round's own states: those behind words the cloud wrote, which teacher forcing never
//! shows.

use std::sync::{Arc, Mutex, PoisonError};

use decode::{Router, Score, Source, Step, Token, sampling};
use half::f16;
use lab::collect::{Label, LabelSource, Sample, collection::SampleSet};
use router::features;

use super::collect::{Job, ends_right, run};
use crate::{
    crew::{Way, Worker},
    progress::Progress,
};

/// Positions of one joint text that are rolled out.
const PLACES: usize = 2;

/// Decodes every example jointly, shard by shard, and labels a few positions of each text.
pub async fn decode_all(job: &Arc<Job>, parallel: usize) -> anyhow::Result<()> {
    let missing: Vec<usize> = (0..job.collection.shards())
        .filter(|&shard| !job.collection.has(SampleSet::Joint, shard))
        .collect();
    let examples = missing.iter().map(|&shard| job.collection.examples(shard).len()).sum();
    let progress = Arc::new(Progress::new("decoding jointly", examples));
    run(job, parallel, missing, move |job, mut worker, shard| {
        let progress = progress.clone();
        async move {
            let mut samples = vec![];
            for example in job.collection.examples(shard) {
                samples.extend(decode(&job, &mut worker, example).await?);
                progress.step();
            }
            job.collection.write(SampleSet::Joint, shard, &samples, &[])?;
            Ok(worker)
        }
    })
    .await
}

/// What the edge thought at one position of a joint text.
struct Thought {
    hidden: Vec<f16>,
    features: [f32; router::FEATURES],
    proposed: Token,
}

/// A router that remembers what it judged.
struct Remembering<'a> {
    router: &'a dyn Router,
    thoughts: Mutex<Vec<Thought>>,
}

impl Router for Remembering<'_> {
    fn score(&self, step: &Step) -> Score {
        let thought = Thought {
            hidden: step.hidden.iter().map(|&x| f16::from_f32(x)).collect(),
            features: features(&step.logits),
            proposed: step.proposed,
        };
        self.thoughts.lock().unwrap_or_else(PoisonError::into_inner).push(thought);
        self.router.score(step)
    }
}

async fn decode(job: &Job, worker: &mut Worker, example: usize) -> anyhow::Result<Vec<Sample>> {
    let Some((judge, threshold)) = &job.second else { return Ok(vec![]) };
    if job.examples[example].is_right("").is_none() {
        return Ok(vec![]);
    }
    let router = judge.build(0);
    let watched = Remembering { router: &router, thoughts: Mutex::default() };
    let messages = job.messages(example)?;
    let way = Way::Joint(&watched, (*threshold).into());
    let transcript = worker.decode(&messages, vec![], way, job.max_tokens).await?;
    let text_right = job.examples[example].is_right(&transcript.text()) == Some(true);
    let thoughts = watched.thoughts.into_inner().unwrap_or_else(PoisonError::into_inner);

    // One thought a span: every kept token is a span of its own, and so is every word of the cloud's,
    // whose first token says what the ask cost.
    let shown = transcript.shown();
    let mut begins: Vec<usize> = vec![];
    for (at, token) in shown.iter().enumerate() {
        let word_goes_on = token.source == Source::Cloud && token.cloud.is_none();
        if !word_goes_on {
            begins.push(at);
        }
    }
    let inserted = shown.iter().position(|t| t.source == Source::Cloud);
    let Some(inserted) = inserted else { return Ok(vec![]) };
    let mut places: Vec<(usize, usize)> = begins
        .iter()
        .copied()
        .enumerate()
        .filter(|&(thought, at)| {
            thought < thoughts.len() && at > inserted && shown[at].eligible == Some(true)
        })
        .collect();
    let seed = job.collection.about().seed;
    places.sort_by_key(|&(_, at)| sampling::hash(seed ^ example as u64, at));
    places.truncate(PLACES);

    let mut samples = vec![];
    for (thought, at) in places {
        let mut written: Vec<Token> = transcript.tokens()[..at].to_vec();
        written.push(thoughts[thought].proposed);
        // Where the token was kept, the joint text is its roll-out.
        let kept_right = if shown[at].source == Source::Cloud {
            ends_right(job, worker, example, written).await?
        } else {
            text_right
        };
        let label = match (kept_right, text_right) {
            (true, _) => Label::Trust,
            (false, true) => Label::Ask,
            (false, false) => Label::Unknown,
        };
        samples.push(Sample {
            hidden: thoughts[thought].hidden.clone(),
            features: thoughts[thought].features,
            label,
            label_source: LabelSource::Joint,
            edge_logprob: f32::NAN,
            cloud_logprob: f32::NAN,
            agrees: None,
            example: u32::try_from(example)?,
            position: u32::try_from(at)?,
        });
    }
    Ok(samples)
}
