//! What edges see, kept for training where both sides want that: the cloud was started to collect,
//! and the edge offers its states.
//!
//! Samples pass through a bounded queue to a thread of their own, which writes a shard whenever
//! enough of them are there and the rest at the end. A disk that fails does not stop answers.

use std::{
    fs::File,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use cloud::{
    protocol::EdgeModel,
    service::{Collector, Observation, SampleCounts},
};
use decode::Exchange;

use super::{
    CollectionError, CollectionInfo, Label, LabelSource, Sample,
    traffic::{self, Traffic},
};
use crate::label::Choice;

/// How many samples a shard holds: a kill loses at most this many.
const SHARD: usize = 256;

/// How many samples may wait for the disk; those beyond are lost.
const QUEUE: usize = 1024;

/// The longest hidden state taken; the largest models have a quarter of it.
const LONGEST_STATE: usize = 65_536;

/// The longest name and fingerprint taken.
const LONGEST_NAME: usize = 1024;

/// Where samples of live use go.
#[derive(Debug)]
pub struct TrafficCollector {
    folder: PathBuf,
    cloud: String,
    /// `None` until the first edge has offered its states.
    traffic: Arc<Mutex<Option<Traffic>>>,
    examples: AtomicU32,
    queue: Mutex<Option<Queue>>,
    taken: AtomicU64,
    lost: Arc<AtomicU64>,
    /// Whether the log knows that the folder cannot be begun.
    failed: AtomicBool,
    /// Nobody else may fill the folder meanwhile.
    _claim: File,
}

#[derive(Debug)]
struct Queue {
    samples: SyncSender<Sample>,
    writer: JoinHandle<()>,
}

impl TrafficCollector {
    /// Begins in a folder, or resumes behind what is there. The folder must be this cloud's.
    pub fn start(folder: PathBuf, cloud: String) -> Result<Self, CollectionError> {
        let claim = traffic::claim(&folder)?;
        let traffic = Traffic::resume(&folder, &cloud)?;
        let count = traffic.as_ref().map_or(0, |traffic| traffic.info().count);
        let examples = AtomicU32::new(u32::try_from(count).unwrap_or(u32::MAX));
        let traffic = Arc::new(Mutex::new(traffic));
        let (taken, lost) = (AtomicU64::new(0), Arc::<AtomicU64>::default());
        let (samples, received) = sync_channel(QUEUE);
        let writer = Writer { traffic: traffic.clone(), lost: lost.clone(), logged: false };
        let writer = thread::Builder::new()
            .name("collect".into())
            .spawn(move || writer.run(&received))
            .map_err(|source| CollectionError::Io { path: folder.clone(), source })?;
        let queue = Mutex::new(Some(Queue { samples, writer }));
        let failed = AtomicBool::new(false);
        Ok(Self { folder, cloud, traffic, examples, queue, taken, lost, failed, _claim: claim })
    }

    fn info(&self, edge: EdgeModel, exchange: Exchange) -> Result<CollectionInfo, String> {
        let EdgeModel { name, fingerprint, hidden } = edge;
        if !(1..=LONGEST_STATE).contains(&hidden) {
            return Err(format!("a hidden state has from 1 to {LONGEST_STATE} numbers"));
        }
        let odd = |text: &str| text.len() > LONGEST_NAME || text.contains(char::is_control);
        if odd(&name) || odd(&fingerprint) {
            return Err("that is not the name of a model".into());
        }
        Ok(CollectionInfo {
            format: CollectionInfo::FORMAT,
            model: fingerprint,
            model_name: name,
            hidden,
            cloud: self.cloud.clone(),
            exchange,
            examples: traffic::EXAMPLES.into(),
            count: 0,
            seed: 0,
        })
    }
}

impl Collector for TrafficCollector {
    /// The first edge that offers its states begins the folder.
    fn accepts(&self, edge: EdgeModel, exchange: Exchange) -> Result<(), String> {
        let info = self.info(edge, exchange)?;
        let mut traffic = lock(&self.traffic);
        let checked = match &*traffic {
            Some(traffic) => traffic.check(&info),
            None => Traffic::begin(&self.folder, info).map(|begun| *traffic = Some(begun)),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(CollectionError::Mismatch { what, there, here, .. }) => {
                tracing::info!(what, there, here, "an edge's states do not belong here");
                Err(format!("{what} differs: {there} is collected here, not {here}"))
            }
            Err(error) => {
                if !self.failed.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "nothing can be collected; answers are not affected");
                }
                // Paths of this machine stay on this machine.
                Err("it cannot write; its log says why".into())
            }
        }
    }

    fn next_conversation(&self) -> u32 {
        self.examples.fetch_add(1, Ordering::Relaxed)
    }

    fn take(&self, observed: Observation<'_>) {
        let sample = sample(observed);
        let queue = lock(&self.queue);
        let count = match queue.as_ref().map(|queue| queue.samples.try_send(sample)) {
            Some(Ok(())) => &self.taken,
            // The disk does not keep up, or the end has come.
            Some(Err(_)) | None => &*self.lost,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> SampleCounts {
        let (taken, lost) = (&self.taken, &self.lost);
        SampleCounts { taken: taken.load(Ordering::Relaxed), lost: lost.load(Ordering::Relaxed) }
    }

    fn finish(&self) {
        let queue = lock(&self.queue).take();
        if let Some(Queue { samples, writer }) = queue {
            drop(samples);
            if writer.join().is_err() {
                tracing::error!("the last samples were not written");
            }
        }
    }
}

impl Drop for TrafficCollector {
    fn drop(&mut self) {
        self.finish();
    }
}

fn sample(observed: Observation<'_>) -> Sample {
    let Observation { vocabulary, exchange, edge: seen, likeliest, conversation, position } =
        observed;
    let piece = vocabulary.piece(likeliest);
    let cloud = match exchange {
        _ if vocabulary.is_end(likeliest) => Choice::End,
        Exchange::Ids => Choice::Id(likeliest),
        Exchange::Text => Choice::Piece(&piece),
    };
    let edge = match exchange {
        Exchange::Ids if vocabulary.is_end(seen.proposed) => Choice::End,
        Exchange::Ids => Choice::Id(seen.proposed),
        Exchange::Text if seen.piece.is_empty() => Choice::End,
        Exchange::Text => Choice::Piece(&seen.piece),
    };
    Sample {
        label: Label::Unknown,
        label_source: LabelSource::Traffic,
        edge_logprob: f32::NAN,
        cloud_logprob: f32::NAN,
        agrees: Some(edge.agrees(cloud)),
        example: conversation,
        position: u32::try_from(position).unwrap_or(u32::MAX),
        hidden: seen.hidden.clone(),
        features: seen.features,
    }
}

struct Writer {
    traffic: Arc<Mutex<Option<Traffic>>>,
    lost: Arc<AtomicU64>,
    /// Whether the log knows that the disk fails.
    logged: bool,
}

impl Writer {
    fn run(mut self, samples: &Receiver<Sample>) {
        let mut shard = vec![];
        for sample in samples {
            shard.push(sample);
            if shard.len() == SHARD {
                self.write(&shard);
                shard.clear();
            }
        }
        if !shard.is_empty() {
            self.write(&shard);
        }
    }

    fn write(&mut self, shard: &[Sample]) {
        let mut traffic = lock(&self.traffic);
        let Some(traffic) = traffic.as_mut() else { return };
        match traffic.write(shard) {
            Ok(()) => self.logged = false,
            Err(error) => {
                self.lost.fetch_add(shard.len() as u64, Ordering::Relaxed);
                if !self.logged {
                    tracing::error!(%error, "samples are lost; answers are not affected");
                    self.logged = true;
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
