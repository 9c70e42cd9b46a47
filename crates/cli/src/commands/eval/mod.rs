//! `tandem eval`: is it worth it, and at which budget?
//!
//! - [`points`]: what is measured, from the arguments
//! - [`decoder`]: one worker's models as a sweep sees them
//! - [`mod@print`]: the table

mod decoder;
mod points;
mod print;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use lab::eval::{Example, Outcome, ReadError, Record, Results, ResultsInfo, Sweep, Table};
use models::{Environment, Home};
use sha2::{Digest, Sha256};

use self::decoder::Bench;
use crate::{
    args::EvalArgs,
    config::{self, UsageError},
    crew::Workers,
    progress::Progress,
    show::say,
};

/// How long the answers took together, and the whole run.
#[derive(Clone, Copy, Default)]
pub struct Clock {
    decoding: Duration,
    wall: Duration,
    parallel: usize,
}

pub async fn eval(mut args: EvalArgs) -> anyhow::Result<ExitCode> {
    let all = lab::eval::read(args.task, &args.data).map_err(|error| match error {
        ReadError::NoData { .. } => UsageError(error.to_string()).into(),
        other => anyhow::Error::from(other),
    })?;
    let data = digest(&all);
    let most = args.limit.unwrap_or(usize::MAX);
    let examples: Vec<Example> = all.into_iter().skip(args.skip).take(most).collect();
    if examples.is_empty() {
        return Err(UsageError("--skip leaves no questions".into()).into());
    }
    if args.cloud.place.offline {
        let reason = "the cloud is part of what is measured: not with --offline";
        return Err(UsageError(reason.into()).into());
    }
    // The delay is a point's own.
    let delays = std::mem::take(&mut args.cloud.place.simulate_rtt);
    let mut builder = config::pair(&args.edge, &args.cloud, &args.machine)?;
    if let Some(preset) = &args.preset {
        builder = builder.preset(preset);
    }
    // The first of those that were named, so that no other has to fit this edge.
    if let Some(router) = args.router.first() {
        builder = builder.router(router.clone());
    }
    let crew = Workers::new(builder, args.parallel).await?;
    let runs = points::points(&args, &delays, crew.router(), crew.edge_options())?;
    let about = ResultsInfo {
        version: ResultsInfo::VERSION,
        task: args.task.to_string(),
        data,
        edge: format!("{} {}", crew.edge_options().name(), crew.edge_options().fingerprint()?),
        cloud: crew.cloud_description()?,
        system: args.system.clone(),
        max_tokens: args.max_tokens,
        seed: args.seed,
    };
    let path = match &args.results {
        Some(path) => path.clone(),
        None => default_results(&about)?,
    };
    if args.fresh && path.exists() {
        std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    let points: Vec<_> = runs.iter().map(|run| run.point.clone()).collect();
    let results = Results::open(&path, about, points)?;
    let names: HashSet<String> = runs.iter().map(|run| run.point.name.clone()).collect();
    let ids: HashSet<String> = examples.iter().map(|e| e.id.clone()).collect();
    let there = results.look(|record| part(record, &names, &ids).outcomes.len());
    if there > 0 {
        say(&format!(
            "{there} answers of an earlier run are in {}; --fresh begins anew",
            path.display()
        ));
    }
    let sweep = Arc::new(Sweep::new(examples, runs, results, args.seed));
    let shared = Arc::new(Shared { crew, delays, args });
    let clock = tokio::select! {
        clock = answer_all(&shared, &sweep) => clock?,
        _ = tokio::signal::ctrl_c() => {
            say(&format!("stopped; the answers so far are in {}, and the same command resumes",
                path.display()));
            return Ok(ExitCode::from(130));
        }
    };
    let record = sweep.results().look(|record| part(record, &names, &ids));
    print::print(&Table::of(&record), clock, shared.args.json)?;
    say(&format!("results: {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// Only these points, and only these questions.
fn part(record: &Record, points: &HashSet<String>, ids: &HashSet<String>) -> Record {
    let mut record = record.clone();
    record.points.retain(|point| points.contains(&point.name));
    record.questions.retain(|question| ids.contains(&question.id));
    record.outcomes.retain(|o| points.contains(&o.point) && ids.contains(&o.id));
    record
}

/// The questions by their hash: the same under another name, another under the same.
fn digest(examples: &[Example]) -> String {
    let mut hash = Sha256::new();
    for example in examples {
        hash.update(format!("{}\0{:?}\0", example.id, example.task));
    }
    let digest: String = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("{} questions {digest}", examples.len())
}

/// One file for each thing a run can be about.
fn default_results(about: &ResultsInfo) -> anyhow::Result<PathBuf> {
    let hash = Sha256::digest(serde_json::to_string(about)?);
    let name: String = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let home = Home::find(Environment::read())?;
    Ok(home.file("results").join(format!("{}-{name}.jsonl", about.task)))
}

struct Shared {
    crew: Workers,
    delays: Vec<cloud::Delay>,
    args: EvalArgs,
}

async fn answer_all(shared: &Arc<Shared>, sweep: &Arc<Sweep>) -> anyhow::Result<Clock> {
    let next = Arc::new(AtomicUsize::new(0));
    let progress = Arc::new(Progress::new("answering", sweep.len()));
    let tally: Arc<Mutex<Tally>> = Arc::default();
    let parallel = shared.args.parallel.min(sweep.len());
    let mut benches = vec![];
    for _ in 0..parallel {
        benches.push(Bench::new(&shared.crew, &shared.args, &shared.delays).await?);
    }
    let started = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for mut bench in benches {
        let (sweep, next) = (sweep.clone(), next.clone());
        let (progress, tally) = (progress.clone(), tally.clone());
        workers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= sweep.len() {
                    break;
                }
                let outcomes = sweep.answer(&mut bench, number).await?;
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                outcomes.iter().for_each(|outcome| tally.count(outcome));
                progress.step();
                progress.note(tally.so_far());
            }
            bench.close().await;
            anyhow::Ok(bench.decoding())
        });
    }
    let mut decoding = Duration::ZERO;
    while let Some(done) = workers.join_next().await {
        decoding += done??;
    }
    Ok(Clock { decoding, wall: started.elapsed(), parallel })
}

/// Right answers and all, by point.
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
