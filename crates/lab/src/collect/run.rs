//! Runs both models over worked answers and keeps what a router can learn from.
//!
//! First every answer is read by the edge and scored by the cloud, shard by shard. Then positions
//! that neither model got right are rolled out, a seeded sample of them. With a router another round
//! follows: the roll-outs are made by the joint decode itself, and states from joint decodes are
//! added.

use std::{
    fmt,
    fs::File,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use decode::{Message, Threshold, Token, Vocabulary};
use tandem::{Mode, NamedRouter, Tandem};

use super::{
    Collection, CollectionInfo, Label, LabelSource, Round, RoundInfo, Sample, joint,
    labels::read_all, rollout::roll_out_all, traffic::claim,
};
use crate::{
    Error,
    eval::{Example, example::worked_digest},
    progress::Progress,
    worker::{Decoding, Worker, share_work},
};

#[derive(Clone, Debug)]
pub struct CollectConfig {
    /// Those without a worked answer are left out.
    pub examples: Vec<Example>,
    /// What makes the edge's token right or wrong.
    pub labels: LabelRule,
    pub output: PathBuf,
    pub rollouts: usize,
    /// Whether positions that only the cloud got right are rolled out too, before the others.
    pub roll_out_asks: bool,
    /// The router of another round, and its threshold.
    pub joint: Option<(NamedRouter, Threshold)>,
    /// Examples at work at the same time.
    pub parallel: usize,
    /// Which positions are rolled out.
    pub seed: u64,
    pub max_tokens: usize,
    pub system: String,
}

/// What makes the edge's token at a position right or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelRule {
    /// Whether it is the worked answer's.
    Reference,
    /// How likely the cloud finds it beside its own: another word for the same does no harm. The
    /// answers are examples of texts, and need not be right.
    Likelihood {
        /// Whether the cloud wrote the answers itself, so that its own choice is known.
        own: bool,
    },
}

/// What all workers share.
pub(super) struct Job {
    pub tandem: Tandem,
    pub config: CollectConfig,
    pub examples: Vec<Example>,
    pub collection: Collection,
    pub round: Round,
    /// Keeps others from filling the folder meanwhile.
    _claim: File,
    pub progress: Arc<dyn Progress>,
    /// Examples that did not fit one of the contexts.
    pub too_long: AtomicUsize,
    /// Whether the cloud has said that it gives no likelihoods.
    pub no_likelihoods: AtomicBool,
}

/// What a collection holds when a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Examples this run skipped because they are longer than a model's context.
    pub too_long: usize,
    pub positions: usize,
    /// Of them, where the edge is right.
    pub edge: usize,
    /// Where only the cloud is.
    pub cloud: usize,
    pub neither: usize,
    /// Where the two part, labelled by the cloud's likelihoods.
    pub parted: usize,
    pub joint: usize,
    pub rolled_out: usize,
    pub ended_right: usize,
}

/// Collects. A run that was interrupted resumes where it was.
pub async fn collect(
    tandem: &Tandem,
    config: CollectConfig,
    progress: Arc<dyn Progress>,
) -> Result<Collected, Error> {
    let job = Arc::new(prepare(tandem, config, progress).await?);
    read_all(&job).await?;
    roll_out_all(&job).await?;
    if job.config.joint.is_some() {
        joint::decode_all(&job).await?;
    }
    let too_long = job.too_long.load(Ordering::Relaxed);
    let (read, rolled) = (job.collection.read_samples()?, job.collection.samples()?);
    Ok(Collected::count(too_long, &read, &rolled))
}

async fn prepare(
    tandem: &Tandem,
    config: CollectConfig,
    progress: Arc<dyn Progress>,
) -> Result<Job, Error> {
    let mut config = config;
    let mut examples = std::mem::take(&mut config.examples);
    examples.retain(|example| example.worked.is_some());
    let Some(first) = examples.first() else {
        return Err(Error::usage("the data holds no worked answers (cot, solution or response)"));
    };
    let mut worker = Worker::new(tandem).await?;
    let messages = [Message::system(&config.system), Message::user(first.prompt())];
    let cloud = worker.introduce(&messages, false).await?;
    let exchange = decode::Cloud::open(cloud).await?.exchange;
    cloud.close().await;
    let (pair, options) = (tandem.pair(), tandem.pair().edge_options()?);
    let info = CollectionInfo {
        format: CollectionInfo::FORMAT,
        model: options.fingerprint()?,
        model_name: options.name(),
        hidden: pair.edge().await?.hidden_len(),
        cloud: pair.cloud_name()?,
        exchange,
        examples: worked_digest(&examples),
        count: examples.len(),
        seed: config.seed,
    };
    let claim = claim(&config.output)?;
    let collection = Collection::begin(&config.output, info)?;
    let round = match &config.joint {
        None => Round::FIRST,
        Some((router, threshold)) => collection.begin_round(&RoundInfo::new(router, *threshold))?,
    };
    Ok(Job {
        tandem: tandem.clone(),
        config,
        examples,
        collection,
        round,
        _claim: claim,
        progress,
        too_long: AtomicUsize::new(0),
        no_likelihoods: AtomicBool::new(false),
    })
}

impl Job {
    pub fn example(&self, number: usize) -> Result<&Example, Error> {
        self.examples.get(number).ok_or_else(|| Error::internal("no such example"))
    }

    /// Lets workers side by side take one piece of work after another.
    pub async fn share<T, F, A>(
        self: &Arc<Self>,
        what: &str,
        steps: usize,
        work: Vec<T>,
        act: F,
    ) -> Result<(), Error>
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(Arc<Self>, Worker, T) -> A + Clone + Send + 'static,
        A: Future<Output = Result<Worker, Error>> + Send,
    {
        self.progress.begin(what, steps);
        let mut workers = vec![];
        for _ in 0..self.config.parallel.min(work.len()) {
            workers.push(Worker::new(&self.tandem).await?);
        }
        let job = self.clone();
        let act = move |worker, piece| act(job.clone(), worker, piece);
        for mut worker in share_work(workers, work, act).await? {
            worker.close().await?;
        }
        self.progress.end();
        Ok(())
    }

    pub fn messages(&self, number: usize) -> Result<[Message; 2], Error> {
        let example = self.example(number)?;
        Ok([Message::system(&self.config.system), Message::user(example.prompt())])
    }

    /// How roll-outs and joint texts are decoded: by the edge alone, or as a later round does.
    pub fn decoding(&self, max_tokens: usize) -> Decoding {
        match &self.config.joint {
            None => Decoding::edge_alone(Arc::new(router::Constant::Never), max_tokens),
            Some((router, threshold)) => {
                let (router, policy) = (Arc::from(router.build(0)), (*threshold).into());
                Decoding { mode: Mode::Joint, router, policy, max_tokens }
            }
        }
    }

    /// Whether an answer that begins so comes out right.
    pub async fn ends_right(
        &self,
        worker: &mut Worker,
        number: usize,
        written: Vec<Token>,
    ) -> Result<bool, Error> {
        let vocabulary = self.tandem.pair().edge().await?.vocabulary().clone();
        let ended = written.last().is_some_and(|&token| vocabulary.is_end(token));
        let text = if ended {
            // The edge would have ended the text here.
            let bytes: Vec<u8> = written.iter().flat_map(|&t| vocabulary.piece(t)).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            let messages = self.messages(number)?;
            let prompt = worker.tokens(&messages).await?;
            worker.read_alone(&prompt[..prompt.len().saturating_sub(1)]).await?;
            let decoding = self.decoding(written.len() + self.config.max_tokens);
            worker.decode(&messages, written, decoding).await?.text()
        };
        Ok(self.example(number)?.is_right(&text) == Some(true))
    }
}

impl Collected {
    fn count(too_long: usize, read: &[Sample], rolled: &[Sample]) -> Self {
        let from = |samples: &[Sample], source: LabelSource| {
            samples.iter().filter(|s| s.label_source == source).count()
        };
        let right = |s: &&Sample| s.label_source == LabelSource::RollOut && s.label == Label::Trust;
        Self {
            too_long,
            positions: read.len(),
            edge: from(read, LabelSource::Edge),
            cloud: from(read, LabelSource::Cloud),
            neither: from(read, LabelSource::Neither),
            parted: from(read, LabelSource::Likelihood),
            joint: from(read, LabelSource::Joint),
            rolled_out: from(rolled, LabelSource::RollOut),
            ended_right: rolled.iter().filter(right).count(),
        }
    }
}

impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            positions, edge, cloud, neither, parted, joint, rolled_out, ended_right, ..
        } = self;
        if *parted > 0 {
            return write!(
                f,
                "{positions} positions: the two agree at {edge} and part at {}; {rolled_out} rolled \
                 out, of which {ended_right} ended right",
                positions - edge
            );
        }
        write!(
            f,
            "{positions} positions: the edge is right at {edge}, only the cloud at {cloud}, neither \
             at {neither}; {rolled_out} rolled out, of which {ended_right} ended right; {joint} from \
             joint decodes"
        )
    }
}
