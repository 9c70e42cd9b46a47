//! `tandem router collect`: runs both models over worked answers and keeps what a router can learn
//! from.
//!
//! First every answer is read by the edge and scored by the cloud, shard by shard. Then the places
//! that neither model got right are rolled out, a seeded sample of them. With `--router` a second
//! round follows: the roll-outs are made by the joint decode itself, and states from joint decodes
//! are added.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context;
use cloud::protocol::{Judged, Piece};
use decode::{
    Ask, Cloud, CloudError, Edge, Exchange, Message, Router, Sampling, Threshold, Token,
    Vocabulary, Want,
};
use lab::{
    collect::{
        Collection, CollectionInfo, Label, LabelSource, Sample,
        collection::{Open, RollOut, Round, SampleSet},
    },
    eval::{Example, Worked},
    label::{Judgement, Labelled, Reading, label},
};
use sha2::{Digest, Sha256};

use tandem::{Mode, NamedRouter, Store};

use super::joint;
use crate::{
    args::CollectArgs,
    config::{self, UsageError},
    crew::{Way, Worker, Workers},
    progress::Progress,
    show::say,
};

/// What all workers share.
pub struct Job {
    pub crew: Workers,
    pub examples: Vec<Example>,
    pub collection: Collection,
    pub system: String,
    pub max_tokens: usize,
    /// The router of the second round, and its policy.
    pub second: Option<(NamedRouter, Threshold)>,
    /// Examples that did not fit one of the contexts.
    too_long: AtomicUsize,
}

impl Job {
    pub fn messages(&self, example: usize) -> anyhow::Result<[Message; 2]> {
        let example = self.examples.get(example).context("no such example")?;
        Ok([Message::system(&self.system), Message::user(example.prompt())])
    }

    /// The worked answer in the edge's tokens.
    fn worked(&self, example: usize) -> Vec<Token> {
        let worked = self.examples.get(example).and_then(|e| e.worked.as_deref());
        self.crew.edge().vocabulary().encode(worked.unwrap_or_default())
    }

    /// An example that does not fit has no labels, and is counted.
    fn pass_over(&self) -> Vec<Labelled> {
        self.too_long.fetch_add(1, Ordering::Relaxed);
        vec![]
    }
}

pub async fn collect(args: CollectArgs) -> anyhow::Result<()> {
    let job = Arc::new(prepare(&args).await?);
    if !args.rollouts_only {
        read_all(&job, args.parallel).await?;
        let too_long = job.too_long.load(Ordering::Relaxed);
        if too_long > 0 {
            say(&format!("{too_long} examples skipped: longer than a model's context"));
        }
    }
    roll_out_all(&job, &args).await?;
    if job.second.is_some() {
        joint::decode_all(&job, args.parallel).await?;
    }
    say(&summary(&job.collection.read_samples()?, &job.collection.samples()?));
    Ok(())
}

async fn prepare(args: &CollectArgs) -> anyhow::Result<Job> {
    let worked = if args.answer_first { Worked::AnswerFirst } else { Worked::AsGiven };
    let mut examples = vec![];
    for path in &args.data {
        examples.extend(Example::read(path, worked)?);
    }
    examples.retain(|example| example.worked.is_some());
    examples.truncate(args.limit.unwrap_or(usize::MAX));
    if args.cloud.place.offline {
        return Err(UsageError(
            "the cloud is part of what is collected: not with --offline".into(),
        )
        .into());
    }
    if examples.is_empty() {
        let reason = "the data holds no worked answers (cot, solution or response)";
        return Err(UsageError(reason.into()).into());
    }
    let mut builder = config::pair(&args.edge, &args.cloud, &args.machine)?.mode(Mode::Small);
    if let Some(preset) = &args.preset {
        builder = builder.preset(preset);
    }
    let crew = Workers::new(builder, args.parallel).await?;
    let options = crew.edge_options();
    let second = match &args.router {
        Some(router) => {
            let router = NamedRouter::choose(Some(router), &Store::open()?, options)?;
            Some((router, args.threshold))
        }
        None => None,
    };
    let mut worker = crew.worker().await?;
    let first = [Message::system(&args.system), Message::user(examples[0].prompt())];
    worker.introduce(&first, false)?;
    let exchange = worker.remote.open().await?.exchange;
    worker.remote.close().await;
    let about = CollectionInfo {
        format: CollectionInfo::FORMAT,
        model: options.fingerprint()?,
        model_name: options.name(),
        hidden: crew.edge().hidden_len(),
        cloud: crew.cloud_name()?,
        exchange,
        examples: digest(&examples),
        count: examples.len(),
        seed: args.seed,
    };
    let collection = Collection::begin(&args.output, about)?;
    let (system, max_tokens) = (args.system.clone(), args.max_tokens);
    let too_long = AtomicUsize::new(0);
    Ok(Job { crew, examples, collection, system, max_tokens, second, too_long })
}

fn digest(examples: &[Example]) -> String {
    let mut hash = Sha256::new();
    for example in examples {
        hash.update(format!("{}\0{:?}\0{:?}\0", example.id, example.task, example.worked));
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Reads every shard that is not there yet.
async fn read_all(job: &Arc<Job>, parallel: usize) -> anyhow::Result<()> {
    let missing: Vec<usize> = (0..job.collection.shards())
        .filter(|&shard| !job.collection.has(SampleSet::Forced, shard))
        .collect();
    let examples = missing.iter().map(|&shard| job.collection.examples(shard).len()).sum();
    let progress = Arc::new(Progress::new("reading", examples));
    run(job, parallel, missing, move |job, mut worker, shard| {
        let progress = progress.clone();
        async move {
            let (mut samples, mut open) = (vec![], vec![]);
            for example in job.collection.examples(shard) {
                for labelled in read(&job, &mut worker, example).await? {
                    let (sample, proposed) = (labelled.sample, labelled.proposed);
                    if sample.label_source != LabelSource::Edge {
                        let (example, position) = (sample.example, sample.position);
                        let ask = sample.label_source == LabelSource::Cloud;
                        open.push(Open { example, position, proposed: Some(proposed), ask });
                    }
                    samples.push(sample);
                }
                progress.step();
            }
            job.collection.write(SampleSet::Forced, shard, &samples, &open)?;
            Ok(worker)
        }
    })
    .await
}

/// One worked answer: the edge's states, the cloud's scores, the labels. There are none where it
/// does not fit.
async fn read(job: &Job, worker: &mut Worker, example: usize) -> anyhow::Result<Vec<Labelled>> {
    let messages = job.messages(example)?;
    let vocabulary = job.crew.edge().vocabulary().clone();
    let prompt = vocabulary.prompt(&messages)?;
    let tokens = job.worked(example);
    if tokens.is_empty() {
        return Ok(vec![]);
    }
    if prompt.len() + tokens.len() >= job.crew.edge().context() {
        return Ok(job.pass_over());
    }
    let (last, before) = prompt.split_last().context("the prompt is empty")?;
    // Both models begin every example afresh: tokens read in other batches are rounded otherwise, and
    // a run that goes on in the middle must compute the same numbers.
    worker.remote.close().await;
    read_alone(worker, before).await?;
    // The view before a token is the view behind the one before it.
    let fed: Vec<Token> =
        [*last].into_iter().chain(tokens[..tokens.len() - 1].iter().copied()).collect();
    let steps = worker.edge.steps(&fed).await?;

    worker.introduce(&messages, false)?;
    let exchange = match worker.remote.open().await {
        Err(CloudError::ContextFull) => return Ok(job.pass_over()),
        opened => opened?.exchange,
    };
    anyhow::ensure!(
        exchange == job.collection.about().exchange,
        "the cloud changed between ids and text; collect again in another folder"
    );
    let worked = job.examples[example].worked.clone().unwrap_or_default();
    let continuation = match exchange {
        Exchange::Ids => Piece::Ids(tokens.clone()),
        Exchange::Text => Piece::Text(worked),
    };
    let sampling = Sampling::default();
    let nothing = Ask { tokens: &[], text: "", want: Want::Tokens(1), sampling: &sampling };
    let judged = match worker.remote.score(nothing, continuation).await {
        Err(CloudError::ContextFull) => return Ok(job.pass_over()),
        judged => judged?,
    };
    let judged: Vec<Judgement> = judged.into_iter().map(judgement).collect();
    let example = u32::try_from(example)?;
    let reading = Reading { tokens: &tokens, steps: &steps, example };
    Ok(label(reading, vocabulary.as_ref(), exchange, &judged))
}

/// Has the edge hold these tokens and nothing else. They are read by themselves, or not at all if they
/// were before, so that what they were read with does not depend on what came earlier.
async fn read_alone(worker: &mut Worker, tokens: &[Token]) -> anyhow::Result<()> {
    if worker.edge.keep_common(tokens) < tokens.len() {
        worker.edge.truncate(0);
        worker.edge.read(tokens, false).await?;
    }
    Ok(())
}

fn judgement(judged: Judged) -> Judgement {
    Judgement {
        chosen: judged.given.id.is_some() && judged.given.id == judged.greedy.id,
        logprob: judged.given.logprob.unwrap_or(f32::NAN),
        text: judged.given.text,
        greedy: judged.greedy.text,
    }
}

/// Rolls out the drawn places that were not rolled out before, all of an example by one worker.
async fn roll_out_all(job: &Arc<Job>, args: &CollectArgs) -> anyhow::Result<()> {
    let round = if job.second.is_some() { Round::Two } else { Round::One };
    let done: HashSet<_> = job.collection.rolled_out(round)?.iter().map(place).collect();
    let drawn = job.collection.drawn(args.rollouts, args.roll_out_asks)?;
    let left: Vec<Open> = drawn
        .into_iter()
        .filter(|open| !done.contains(&(open.example, open.position)))
        // What has no right answer cannot be judged by it.
        .filter(|open| {
            let example = job.examples.get(open.example as usize);
            example.is_some_and(|e| e.is_right("").is_some())
        })
        .collect();
    let progress = Arc::new(Progress::new("rolling out", left.len()));
    let groups: Vec<Vec<Open>> =
        left.chunk_by(|a, b| a.example == b.example).map(<[Open]>::to_vec).collect();
    run(job, args.parallel, groups, move |job, mut worker, group| {
        let progress = progress.clone();
        async move {
            for open in group {
                let example = open.example as usize;
                let mut written = job.worked(example);
                written.truncate(open.position as usize);
                written.extend(open.proposed);
                let right = ends_right(&job, &mut worker, example, written).await?;
                let Open { example, position, .. } = open;
                job.collection.note(round, RollOut { example, position, right })?;
                progress.step();
            }
            Ok(worker)
        }
    })
    .await
}

fn place(rollout: &RollOut) -> (u32, u32) {
    (rollout.example, rollout.position)
}

/// Whether an answer that begins so comes out right.
pub async fn ends_right(
    job: &Job,
    worker: &mut Worker,
    example: usize,
    written: Vec<Token>,
) -> anyhow::Result<bool> {
    let vocabulary = job.crew.edge().vocabulary().clone();
    let ended = written.last().is_some_and(|&token| vocabulary.is_end(token));
    let text = if ended {
        // The edge would have ended the text here.
        let bytes: Vec<u8> = written.iter().flat_map(|&t| vocabulary.piece(t)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        let messages = job.messages(example)?;
        let prompt = vocabulary.prompt(&messages)?;
        read_alone(worker, &prompt[..prompt.len().saturating_sub(1)]).await?;
        let router = job.second.as_ref().map(|(judge, _)| judge.build(0));
        let never: Box<dyn Router> = Box::new(router::Constant::Never);
        let way = match (&router, &job.second) {
            (Some(router), Some((_, threshold))) => Way::Joint(router, (*threshold).into()),
            _ => Way::Small(&never),
        };
        let most = written.len() + job.max_tokens;
        worker.decode(&messages, written, way, most).await?.text()
    };
    Ok(job.examples[example].is_right(&text) == Some(true))
}

/// Lets workers take one piece of work after another until none is left; the first failure ends it.
pub async fn run<T, F, W>(
    job: &Arc<Job>,
    parallel: usize,
    work: Vec<T>,
    act: F,
) -> anyhow::Result<()>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(Arc<Job>, Worker, T) -> W + Clone + Send + 'static,
    W: Future<Output = anyhow::Result<Worker>> + Send,
{
    let work: Arc<[T]> = work.into();
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..parallel.min(work.len()) {
        let (job, work, next, act) = (job.clone(), work.clone(), next.clone(), act.clone());
        workers.spawn(async move {
            let mut worker = job.crew.worker().await?;
            while let Some(piece) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                worker = act(job.clone(), worker, piece.clone()).await?;
            }
            worker.remote.close().await;
            anyhow::Ok(())
        });
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    Ok(())
}

fn summary(read: &[Sample], rolled: &[Sample]) -> String {
    let found =
        |samples: &[Sample], f: LabelSource| samples.iter().filter(|s| s.label_source == f).count();
    let right = |s: &&Sample| s.label_source == LabelSource::RollOut && s.label == Label::Trust;
    format!(
        "{} positions: the edge is right at {}, only the cloud at {}, neither at {}; {} rolled out, \
         of which {} ended right; {} from joint decodes",
        read.len(),
        found(read, LabelSource::Edge),
        found(read, LabelSource::Cloud),
        found(read, LabelSource::Neither),
        found(rolled, LabelSource::RollOut),
        rolled.iter().filter(right).count(),
        found(read, LabelSource::Joint),
    )
}
