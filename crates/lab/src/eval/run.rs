//! An evaluation, from its configuration to its table.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};
use tandem::Tandem;

use super::{
    Example, Outcome, Record, Results, ResultsInfo, Sweep, Table, Task, TaskName, confine,
    example::questions_digest, models::PairDecoder, points::Points, read, results::claim,
};
use crate::{Error, energy::EnergyMeter, progress::Progress, worker::share_work};

/// What is asked, of whom, and where the answers go.
#[derive(Clone, Debug)]
pub struct EvalConfig {
    pub task: TaskName,
    pub data: Vec<PathBuf>,
    pub skip: usize,
    pub limit: Option<usize>,
    pub points: Points,
    pub results: ResultsFile,
    /// Questions at work at the same time.
    pub parallel: usize,
    pub max_tokens: usize,
    /// Where the random router asks, and which questions are redrawn for the intervals.
    pub seed: u64,
    pub system: String,
}

#[derive(Clone, Debug)]
pub struct ResultsFile {
    /// The file, or the folder in which each kind of run has a file of its own.
    pub path: ResultsPath,
    /// Whether answers of an earlier run are forgotten.
    pub fresh: bool,
}

/// A file of results, named by the user or by what is measured.
#[derive(Clone, Debug)]
pub enum ResultsPath {
    File(PathBuf),
    In(PathBuf),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RunTime {
    /// The models at work on answers, all workers together.
    pub decoding: Duration,
    /// From the first answer to the last.
    pub wall: Duration,
    pub parallel: usize,
}

pub struct Evaluation {
    tandem: Tandem,
    config: EvalConfig,
    sweep: Arc<Sweep>,
    path: PathBuf,
    /// What of the results file belongs to this evaluation.
    points: HashSet<String>,
    questions: HashSet<String>,
}

/// Those of all questions that a configuration wants, with a digest of all there are.
fn questions(config: &EvalConfig, all: Vec<Example>) -> Result<(Vec<Example>, String), Error> {
    let digest = format!("{} questions {}", all.len(), questions_digest(&all));
    let most = config.limit.unwrap_or(usize::MAX);
    let examples: Vec<Example> = all.into_iter().skip(config.skip).take(most).collect();
    if examples.is_empty() {
        return Err(Error::usage("--skip leaves no questions"));
    }
    Ok((examples, digest))
}

impl ResultsFile {
    /// One file for each thing a run can be about.
    fn resolve(&self, info: &ResultsInfo) -> Result<PathBuf, Error> {
        let path = match &self.path {
            ResultsPath::File(path) => path.clone(),
            ResultsPath::In(folder) => {
                let json = serde_json::to_string(info).map_err(Error::internal)?;
                let name = decode::hex(&Sha256::digest(json)[..4]);
                folder.join(format!("{}-{name}.jsonl", info.task))
            }
        };
        if self.fresh && path.exists() {
            drop(claim(&path)?);
            let failed = |source| Error::Write { path: path.clone(), source };
            fs::remove_file(&path).map_err(failed)?;
        }
        Ok(path)
    }
}

impl Evaluation {
    /// Reads the questions from the files of the configuration.
    pub fn new(tandem: &Tandem, config: EvalConfig) -> Result<Self, Error> {
        let all = read(config.task, &config.data)?;
        Self::of(tandem, config, all)
    }

    /// With these questions.
    pub fn of(tandem: &Tandem, config: EvalConfig, all: Vec<Example>) -> Result<Self, Error> {
        let (examples, data) = questions(&config, all)?;
        if examples.iter().any(|example| matches!(example.task, Task::Code(_))) {
            confine::check()?;
        }
        let (pair, options) = (tandem.pair(), tandem.pair().edge_options()?);
        let info = ResultsInfo {
            version: ResultsInfo::VERSION,
            task: config.task.to_string(),
            data,
            edge: format!("{} {}", options.name(), options.fingerprint()?),
            cloud: pair.cloud_description()?,
            system: config.system.clone(),
            max_tokens: config.max_tokens,
            seed: config.seed,
        };
        let runs = config.points.runs()?;
        let path = config.results.resolve(&info)?;
        let points: Vec<_> = runs.iter().map(|run| run.point.clone()).collect();
        let names = points.iter().map(|point| point.name.clone()).collect();
        let questions = examples.iter().map(|e| e.id.clone()).collect();
        let results = Results::open(&path, info, points)?;
        let sweep = Sweep::new(examples, runs, results, config.seed);
        let sweep = Arc::new(sweep.with_query_routers(&config.points.query_routers));
        Ok(Self { tandem: tandem.clone(), config, sweep, path, points: names, questions })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its answers so far, of these points and questions.
    pub fn record(&self) -> Record {
        let mut record = self.sweep.results().look(Record::clone);
        record.points.retain(|point| self.points.contains(&point.name));
        record.questions.retain(|question| self.questions.contains(&question.id));
        let ours = |o: &Outcome| self.points.contains(&o.point) && self.questions.contains(&o.id);
        record.outcomes.retain(ours);
        record
    }

    pub fn table(&self) -> Table {
        Table::of(&self.record())
    }

    /// Answers what has no answer yet. May be dropped at any time: another run resumes.
    pub async fn run(&self, progress: Arc<dyn Progress>) -> Result<RunTime, Error> {
        let EvalConfig { system, max_tokens, points, parallel, .. } = &self.config;
        let parallel = (*parallel).min(self.sweep.questions());
        progress.begin("answering", self.sweep.questions());
        let mut decoders = vec![];
        for _ in 0..parallel {
            let meter = if parallel == 1 { EnergyMeter::find() } else { None };
            let decoder = PairDecoder::new(&self.tandem, system, *max_tokens, meter);
            decoders.push(decoder.await?);
        }
        if let (false, Some(decoder)) = (points.oracles.is_empty(), decoders.first_mut()) {
            decoder.check_oracle().await?;
        }
        let started = Instant::now();
        let tally: Arc<Mutex<Tally>> = Arc::default();
        let (sweep, shown) = (self.sweep.clone(), progress.clone());
        let answer = move |mut decoder: PairDecoder, number: usize| {
            let (sweep, progress, tally) = (sweep.clone(), shown.clone(), tally.clone());
            async move {
                let outcomes = sweep.answer(&mut decoder, number).await?;
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                outcomes.iter().for_each(|outcome| tally.count(outcome));
                progress.step();
                progress.note(tally.so_far());
                Ok::<_, Error>(decoder)
            }
        };
        let mut decoding = Duration::ZERO;
        let questions = (0..self.sweep.questions()).collect();
        for mut decoder in share_work(decoders, questions, answer).await? {
            decoder.worker.close().await?;
            decoding += decoder.decoding;
        }
        progress.end();
        Ok(RunTime { decoding, wall: started.elapsed(), parallel })
    }
}

/// All answers and right ones, by point.
#[derive(Default)]
struct Tally(HashMap<String, (usize, usize)>);

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        let (all, right) = self.0.entry(outcome.point.clone()).or_default();
        *all += 1;
        *right += usize::from(outcome.right == Some(true));
    }

    fn so_far(&self) -> String {
        let part =
            |(point, (all, right)): (&String, &(usize, usize))| format!("{point} {right}/{all}");
        let mut parts: Vec<_> = self.0.iter().map(part).collect();
        parts.sort();
        parts.join(", ")
    }
}
