//! A folder of collected samples, filled little by little and never spoilt by a kill.
//!
//! | file | holds |
//! |---|---|
//! | `collection.json` | what is collected: models, data, seed. Another run must agree with it |
//! | `shard-00007.safetensors` | the samples of some examples; written whole or not at all |
//! | `shard-00007.open.jsonl` | of them, the positions that may be rolled out |
//! | `rollouts-1.jsonl`, `rollouts-2.jsonl`, … | how roll-outs ended, a line each, by round |
//! | `round-2.json`, … | the router and the threshold of a later round |
//! | `joint-00007.safetensors` | samples from joint decodes, of the second round; `joint-3-00007` of the third |
//! | `traffic-00007.safetensors` | samples of live use; such a folder holds nothing else |

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use decode::{Exchange, Token, sampling};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use thiserror::Error;

use router::atomic;

use super::{
    rounds::Round,
    sample::{Label, LabelSource, Sample, SampleError, read_shard, write_shard},
    traffic,
};

/// How many examples a shard holds: a kill loses at most this much work a worker.
pub const SHARD: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionInfo {
    pub format: u32,
    /// The fingerprint of the edge and its adapters.
    pub model: String,
    pub model_name: String,
    /// The length of its hidden state.
    pub hidden: usize,
    pub cloud: String,
    pub exchange: Exchange,
    /// A digest of the examples.
    pub examples: String,
    /// How many there are; of live use, how many there were so far.
    pub count: usize,
    /// Which roll-outs are made.
    pub seed: u64,
}

/// The most examples that a collection may say it has.
const MOST_EXAMPLES: usize = 10_000_000;

impl CollectionInfo {
    pub const FORMAT: u32 = 1;
}

/// A position where the edge did not choose what the reference has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPosition {
    pub example: u32,
    /// How many tokens of its answer stand before it.
    pub position: u32,
    /// The token to continue with; `None` for whatever the edge proposes there.
    pub proposed: Option<Token>,
    /// Whether the cloud chose what the reference has: then there is a label already, though the
    /// edge's token may do no harm.
    #[serde(default)]
    pub ask: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollOut {
    pub example: u32,
    pub position: u32,
    pub right: bool,
}

#[derive(Debug, Error)]
pub enum CollectionError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not part of a collection: {reason}; delete the file to collect it again", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error(
        "{} holds another collection ({what} differs: {there} there, {here} here): give another \
         folder, or delete this one", path.display()
    )]
    Mismatch { path: PathBuf, what: &'static str, there: String, here: String },
    #[error("another process collects into {}: give another folder, or end that one", path.display())]
    InUse { path: PathBuf },
    #[error(transparent)]
    Sample(#[from] SampleError),
}

#[derive(Clone, Debug)]
pub struct Collection {
    pub(super) folder: PathBuf,
    pub(super) info: CollectionInfo,
}

impl Collection {
    /// Begins a collection, or resumes one.
    pub fn begin(folder: &Path, info: CollectionInfo) -> Result<Self, CollectionError> {
        let path = folder.join("collection.json");
        let here = Self { folder: folder.to_owned(), info };
        if !path.exists() {
            fs::create_dir_all(folder).map_err(|source| io_error(folder, source))?;
            here.write_info()?;
            return Ok(here);
        }
        Self::read(folder)?.check(&here.info)?;
        for round in here.rounds() {
            let path = here.rollouts_path(round);
            repair(&path).map_err(|source| io_error(&path, source))?;
        }
        Ok(here)
    }

    /// Says what differs where something else is to be collected.
    pub(super) fn check(&self, other: &CollectionInfo) -> Result<(), CollectionError> {
        let compared = |what, same: bool, shown: fn(&CollectionInfo) -> String| {
            if same {
                return Ok(());
            }
            let (path, there, here) = (self.folder.clone(), shown(&self.info), shown(other));
            Err(CollectionError::Mismatch { path, what, there, here })
        };
        let (a, b) = (&self.info, other);
        compared("the edge", a.model == b.model, |info| info.model_name.clone())?;
        let hidden = a.hidden == b.hidden;
        compared("the length of hidden states", hidden, |info| info.hidden.to_string())?;
        compared("the cloud", a.cloud == b.cloud, |info| info.cloud.clone())?;
        compared("the data", a.examples == b.examples, |info| info.examples.clone())?;
        compared("what travels", a.exchange == b.exchange, |info| {
            format!("{:?}", info.exchange).to_lowercase()
        })?;
        compared("the seed", a.seed == b.seed, |info| info.seed.to_string())
    }

    pub fn read(folder: &Path) -> Result<Self, CollectionError> {
        let path = folder.join("collection.json");
        let json = fs::read(&path).map_err(|source| io_error(&path, source))?;
        let info: CollectionInfo =
            serde_json::from_slice(&json).map_err(|e| malformed(&path, e.to_string()))?;
        if info.format > CollectionInfo::FORMAT {
            let reason =
                format!("format {}, this program reads {}", info.format, CollectionInfo::FORMAT);
            return Err(malformed(&path, reason));
        }
        // Every shard there could be is looked for.
        if info.count > MOST_EXAMPLES {
            let reason = format!("{} examples, above {MOST_EXAMPLES}", info.count);
            return Err(malformed(&path, reason));
        }
        Ok(Self { folder: folder.to_owned(), info })
    }

    pub(super) fn write_info(&self) -> Result<(), CollectionError> {
        let path = self.folder.join("collection.json");
        let json = serde_json::to_vec_pretty(&self.info);
        let json = json.map_err(|e| malformed(&path, e.to_string()))?;
        atomic::write(&path, &json).map_err(|source| io_error(&path, source))
    }

    pub fn info(&self) -> &CollectionInfo {
        &self.info
    }

    /// How many shards there are to be.
    pub fn shards(&self) -> usize {
        self.info.count.div_ceil(SHARD)
    }

    pub fn examples(&self, shard: usize) -> std::ops::Range<usize> {
        shard * SHARD..((shard + 1) * SHARD).min(self.info.count)
    }

    pub fn missing(&self, kind: SampleSet) -> Vec<usize> {
        (0..self.shards()).filter(|&shard| !self.has(kind, shard)).collect()
    }

    pub fn count(&self, shards: &[usize]) -> usize {
        shards.iter().map(|&shard| self.examples(shard).len()).sum()
    }

    pub fn has(&self, kind: SampleSet, shard: usize) -> bool {
        self.path(kind, shard).exists()
            && (kind != SampleSet::Forced || self.open_path(shard).exists())
    }

    /// Writes a shard; what only a roll-out can label goes beside it.
    pub fn write(
        &self,
        kind: SampleSet,
        shard: usize,
        samples: &[Sample],
        open: &[OpenPosition],
    ) -> Result<(), CollectionError> {
        if kind == SampleSet::Forced {
            let path = self.open_path(shard);
            let mut lines = vec![];
            for place in open {
                lines.extend(json_line(&path, place)?);
            }
            atomic::write(&path, &lines).map_err(|source| io_error(&path, source))?;
        }
        // The shard comes last: where it is, everything is.
        Ok(write_shard(&self.path(kind, shard), self.info.hidden, samples)?)
    }

    /// The positions to roll out: all that neither model got right, or as many as wanted, drawn by
    /// the seed. With `asks`, those that the cloud got right come first.
    pub fn drawn(&self, most: usize, asks: bool) -> Result<Vec<OpenPosition>, CollectionError> {
        let mut open: Vec<OpenPosition> = vec![];
        for shard in (0..self.shards()).filter(|&s| self.has(SampleSet::Forced, s)) {
            open.extend(read_lines::<OpenPosition>(&self.open_path(shard))?);
        }
        open.retain(|o| asks || !o.ask);
        let order = |o: &OpenPosition| {
            let place = u64::from(o.example) << 32 | u64::from(o.position);
            let drawn = sampling::hash(self.info.seed, usize::try_from(place).unwrap_or(0));
            (!o.ask, drawn, place)
        };
        open.sort_by_key(order);
        open.truncate(most);
        // Neighbours share a context.
        open.sort_by_key(|o| (o.example, o.position));
        Ok(open)
    }

    pub fn rolled_out(&self, round: Round) -> Result<Vec<RollOut>, CollectionError> {
        read_lines(&self.rollouts_path(round))
    }

    pub fn add_rollout(&self, round: Round, rollout: RollOut) -> Result<(), CollectionError> {
        let path = self.rollouts_path(round);
        let line = json_line(&path, &rollout)?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(&line));
        written.map_err(|source| io_error(&path, source))
    }

    /// Everything, with what roll-outs found; the later round has the last word.
    pub fn samples(&self) -> Result<Vec<Sample>, CollectionError> {
        let mut rolled = HashMap::new();
        for round in self.rounds() {
            for r in self.rolled_out(round)? {
                rolled.insert((r.example, r.position), r.right);
            }
        }
        let mut samples = self.read_samples()?;
        let disagree = |s: &&mut Sample| {
            use LabelSource::{Cloud, Likelihood, Neither};
            matches!(s.label_source, Neither | Cloud | Likelihood)
        };
        for sample in samples.iter_mut().filter(disagree) {
            if let Some(right) = rolled.get(&(sample.example, sample.position)) {
                sample.label = if *right { Label::Trust } else { Label::Ask };
                sample.label_source = LabelSource::RollOut;
            }
        }
        Ok(samples)
    }

    /// Everything as it was read, without any roll-out.
    pub fn read_samples(&self) -> Result<Vec<Sample>, CollectionError> {
        let mut samples = vec![];
        for path in self.files() {
            samples.extend(read_shard(&path)?);
        }
        Ok(samples)
    }

    /// The shards that are there, in order.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let joint = self.rounds().skip(1).map(SampleSet::Joint);
        let kinds: Vec<SampleSet> = [SampleSet::Forced].into_iter().chain(joint).collect();
        let all =
            (0..self.shards()).flat_map(move |n| kinds.clone().into_iter().map(move |k| (k, n)));
        let collected = all.filter(|&(kind, n)| self.has(kind, n));
        collected.map(|(kind, n)| self.path(kind, n)).chain(traffic::files(&self.folder))
    }

    pub fn digest(&self) -> Result<String, CollectionError> {
        let mut hash = Sha256::new();
        for path in self.files() {
            hash.update(fs::read(&path).map_err(|source| io_error(&path, source))?);
        }
        for round in self.rounds() {
            let mut all = self.rolled_out(round)?;
            all.sort_by_key(|r| (r.example, r.position));
            for r in all {
                hash.update(format!("{} {} {}\n", r.example, r.position, r.right));
            }
        }
        Ok(decode::hex(&hash.finalize()[..8]))
    }

    fn path(&self, kind: SampleSet, shard: usize) -> PathBuf {
        let name = match kind {
            SampleSet::Forced => "shard".to_owned(),
            SampleSet::Joint(round) if round.number() == 2 => "joint".to_owned(),
            SampleSet::Joint(round) => format!("joint-{}", round.number()),
        };
        self.folder.join(format!("{name}-{shard:05}.safetensors"))
    }

    fn open_path(&self, shard: usize) -> PathBuf {
        self.folder.join(format!("shard-{shard:05}.open.jsonl"))
    }

    pub(super) fn rollouts_path(&self, round: Round) -> PathBuf {
        self.folder.join(format!("rollouts-{}.jsonl", round.number()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSet {
    /// Worked answers, read with teacher forcing.
    Forced,
    /// Joint decodes of a round.
    Joint(Round),
}

pub(crate) fn json_line(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, CollectionError> {
    let mut line = serde_json::to_vec(value).map_err(|e| malformed(path, e.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

/// Cuts off a last line that a kill cut short.
pub(crate) fn repair(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let written = fs::read(path)?;
    let whole = written.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if whole < written.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    Ok(())
}

/// Whole lines only: somebody may be writing the last one.
pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CollectionError> {
    let written = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
        written => written.map_err(|source| io_error(path, source))?,
    };
    let lines = written.split_inclusive(|&byte| byte == b'\n');
    let whole = lines.filter(|line| line.len() > 1 && line.ends_with(b"\n"));
    let parse =
        |line: &[u8]| serde_json::from_slice(line).map_err(|e| malformed(path, e.to_string()));
    whole.map(parse).collect()
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> CollectionError {
    CollectionError::Io { path: path.to_owned(), source }
}

pub(crate) fn malformed(path: &Path, reason: String) -> CollectionError {
    CollectionError::Malformed { path: path.to_owned(), reason }
}

#[cfg(test)]
pub(super) mod tests;
