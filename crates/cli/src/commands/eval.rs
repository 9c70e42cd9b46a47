//! `tandem eval`: how good is the pair, at which budget, with which router?
//!
//! For every question all points are run by one worker, one after the other, so that they share the
//! prompt's cache on both sides. Small and large are always among them.

use std::{
    collections::{HashMap, HashSet},
    io::Write,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context;
use decode::{Bar, Budget, Cloud, Message, Router, Transcript};
use eval::{
    Example, Outcome, Results, Worked,
    figures::{Estimate, estimate, gap_recovered},
};
use serde::Serialize;

use super::router::{PROMPTS, Watch};
use crate::{
    args::EvalArgs,
    config::UsageError,
    crew::{Crew, Way, Worker},
    judge::{Judge, RouterArg, Share, pairs},
    progress::Progress,
    show::say,
};

const SMALL: &str = "small";
const LARGE: &str = "large";

/// A joint decode that is measured.
struct Point {
    name: String,
    judge: Judge,
    share: Share,
    bar: Bar,
}

struct Job {
    crew: Crew,
    examples: Vec<Example>,
    points: Vec<Point>,
    results: Results,
    system: String,
    max_tokens: usize,
    seed: u64,
    large: bool,
}

pub async fn eval(mut args: EvalArgs) -> anyhow::Result<ExitCode> {
    if let Some(preset) = args.preset {
        let mut own = None;
        preset.apply(Some(&mut args.edge), Some(&mut args.cloud), Some(&mut own))?;
        if args.router.is_empty() {
            args.router.extend(own);
        }
    }
    let mut examples = vec![];
    for path in &args.data {
        examples.extend(Example::read(path, Worked::AsGiven)?);
    }
    let examples: Vec<Example> =
        examples.into_iter().skip(args.skip).take(args.limit.unwrap_or(usize::MAX)).collect();
    let mut ids = HashSet::new();
    if let Some(twice) = examples.iter().find(|e| !ids.insert(e.id.as_str())) {
        return Err(UsageError(format!("two questions have the id {:?}", twice.id)).into());
    }
    if args.cloud.place.offline {
        return Err(
            UsageError("the cloud is part of what is measured: not with --offline".into()).into()
        );
    }
    if examples.iter().any(|e| e.is_right("").is_none()) || examples.is_empty() {
        let reason = "the data holds no questions, or some without a right answer";
        return Err(UsageError(reason.into()).into());
    }
    let crew = Crew::new(&args.edge, Some(&args.cloud), &args.machine, args.parallel).await?;
    let mut job = Job {
        points: vec![],
        results: Results::open(&args.results)
            .with_context(|| args.results.display().to_string())?,
        crew,
        examples,
        system: args.system.clone(),
        max_tokens: args.max_tokens,
        seed: args.seed,
        large: !args.no_large,
    };
    job.points = points(&args, &job).await?;
    let job = Arc::new(job);
    answer_all(&job, args.parallel).await?;
    report(&args, &job)?;
    Ok(ExitCode::SUCCESS)
}

/// Every router at every budget. Routers without a table of their own get one from the first
/// questions, whose answers nobody looks at.
async fn points(args: &EvalArgs, job: &Job) -> anyhow::Result<Vec<Point>> {
    let options = job.crew.edge_options();
    let given: Vec<Option<&RouterArg>> = match args.router.as_slice() {
        [] => vec![None],
        some => some.iter().map(Some).collect(),
    };
    let judges: Result<Vec<Judge>, _> =
        given.into_iter().map(|router| Judge::choose(router, options)).collect();
    let judges = judges?;
    let built: Vec<Box<dyn Router>> = judges.iter().map(|j| j.build(args.seed)).collect();
    let uncalibrated = judges.iter().any(|judge| judge.table().is_empty());
    let mut tables: Vec<Vec<(f32, f32)>> = judges.iter().map(Judge::table).collect();
    if uncalibrated {
        let mut worker = job.crew.worker().await?;
        let mut watch = Watch::new(built.iter().map(|r| &**r).collect());
        let count = job.examples.len().min(PROMPTS);
        let progress = Progress::new("calibrating", count);
        let first = messages(job, 0)?;
        worker.introduce(&first, false)?;
        let exchange = worker.remote.open().await?.exchange;
        for example in 0..count {
            let messages = messages(job, example)?;
            watch.watch(&mut worker, &messages, exchange, job.max_tokens).await?;
            progress.step();
        }
        for (own, found) in tables.iter_mut().zip(watch.tables()) {
            if own.is_empty() {
                *own = pairs(&found);
            }
        }
        worker.remote.close().await;
    }
    let mut points = vec![];
    for (judge, table) in judges.iter().zip(&tables) {
        for &share in &args.budget {
            points.push(Point {
                name: format!("{judge} {share}"),
                judge: judge.clone(),
                share,
                bar: Bar::budget(Budget::new(share.0, table.iter().copied())),
            });
        }
    }
    let mut names = HashSet::new();
    if let Some(twice) = points.iter().find(|p| !names.insert(p.name.as_str())) {
        let reason = format!("{:?} is named twice: give router files different names", twice.name);
        return Err(UsageError(reason).into());
    }
    Ok(points)
}

fn messages(job: &Job, example: usize) -> anyhow::Result<[Message; 2]> {
    let example = job.examples.get(example).context("no such question")?;
    Ok([Message::system(&job.system), Message::user(example.prompt())])
}

async fn answer_all(job: &Arc<Job>, parallel: usize) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let progress = Arc::new(Progress::new("answering", job.examples.len()));
    let tally: Arc<Mutex<HashMap<String, (usize, usize)>>> = Arc::default();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..parallel.min(job.examples.len()) {
        let (job, next) = (job.clone(), next.clone());
        let (progress, tally) = (progress.clone(), tally.clone());
        workers.spawn(async move {
            let mut worker = job.crew.worker().await?;
            loop {
                let example = next.fetch_add(1, Ordering::Relaxed);
                if example >= job.examples.len() {
                    break;
                }
                for (point, right) in answer(&job, &mut worker, example).await? {
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    let (all, good) = tally.entry(point).or_default();
                    (*all, *good) = (*all + 1, *good + usize::from(right));
                }
                progress.step();
                progress.note(so_far(&tally.lock().unwrap_or_else(PoisonError::into_inner)));
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

fn so_far(tally: &HashMap<String, (usize, usize)>) -> String {
    let mut parts: Vec<_> = tally
        .iter()
        .map(|(point, (all, right))| format!("{point} {:.3}", *right as f64 / *all as f64))
        .collect();
    parts.sort();
    parts.join(", ")
}

/// All points of one question that are not answered yet.
async fn answer(
    job: &Job,
    worker: &mut Worker,
    example: usize,
) -> anyhow::Result<Vec<(String, bool)>> {
    let question = &job.examples[example];
    let messages = messages(job, example)?;
    let done = job.results.points_of(&question.id);
    let mut outcomes = vec![];
    let mut note = |point: &str, transcript: &Transcript| -> anyhow::Result<()> {
        let outcome = outcome(question, point, transcript);
        outcomes.push((point.to_owned(), outcome.right));
        Ok(job.results.note(outcome)?)
    };
    if !done.contains(SMALL) {
        let never = router::Constant::Never;
        let way = Way::Small(&never);
        note(SMALL, &worker.decode(&messages, vec![], way, job.max_tokens).await?)?;
    }
    for point in job.points.iter().filter(|p| !done.contains(&p.name)) {
        // Another question, another lot.
        let router = point.judge.build(job.seed.wrapping_add(example as u64));
        let way = Way::Joint(&router, point.bar.clone());
        note(&point.name, &worker.decode(&messages, vec![], way, job.max_tokens).await?)?;
    }
    if job.large && !done.contains(LARGE) {
        note(LARGE, &worker.decode(&messages, vec![], Way::Large, job.max_tokens).await?)?;
    }
    Ok(outcomes)
}

fn outcome(question: &Example, point: &str, transcript: &Transcript) -> Outcome {
    let (text, stats) = (transcript.text(), transcript.stats());
    Outcome {
        id: question.id.clone(),
        point: point.to_owned(),
        right: question.is_right(&text) == Some(true),
        said: question.conclusion(&text),
        tokens: stats.tokens,
        cloud_tokens: stats.cloud_tokens,
        asks: stats.asks,
        cloud_decoded: stats.cloud_decoded,
        total_ms: stats.total.as_secs_f64() * 1000.0,
        text,
    }
}

/// One row of the table.
#[derive(Serialize)]
struct Row {
    mode: &'static str,
    router: Option<String>,
    budget: Option<f32>,
    threshold: Option<f32>,
    questions: usize,
    accuracy: f64,
    accuracy_low: f64,
    accuracy_high: f64,
    gap_recovered: Option<f64>,
    routed_share: f64,
    asks_per_question: f64,
    tokens_per_question: f64,
    cloud_tokens_decoded: usize,
    #[serde(skip)]
    name: String,
}

fn report(args: &EvalArgs, job: &Job) -> anyhow::Result<()> {
    let wanted: HashSet<&str> = job.examples.iter().map(|e| e.id.as_str()).collect();
    let mut outcomes = job.results.all();
    outcomes.retain(|o| wanted.contains(o.id.as_str()));
    let of =
        |point: &str| -> Vec<&Outcome> { outcomes.iter().filter(|o| o.point == point).collect() };
    let accuracy = |outcomes: &[&Outcome]| {
        let right: Vec<f64> = outcomes.iter().map(|o| f64::from(u8::from(o.right))).collect();
        estimate(&right, args.seed)
    };
    let mean = |point: &str| accuracy(&of(point)).map(|e| e.mean);
    let (small, large) = (mean(SMALL), mean(LARGE));
    let mut rows = vec![];
    let joint = job.points.iter().map(|p| (p.name.as_str(), Some(p)));
    for (name, point) in [(SMALL, None)].into_iter().chain(joint).chain([(LARGE, None)]) {
        let outcomes = of(name);
        let Some(Estimate { mean, low, high }) = accuracy(&outcomes) else { continue };
        let sum = |f: fn(&Outcome) -> usize| outcomes.iter().map(|o| f(o)).sum::<usize>();
        let each = |total: usize| total as f64 / outcomes.len() as f64;
        let gap = small.zip(large).and_then(|(small, large)| gap_recovered(small, mean, large));
        rows.push(Row {
            mode: match name {
                SMALL => "small",
                LARGE => "large",
                _ => "joint",
            },
            router: point.map(|p| p.judge.to_string()),
            budget: point.map(|p| p.share.0),
            threshold: point.map(|p| p.bar.threshold().value()),
            questions: outcomes.len(),
            accuracy: mean,
            accuracy_low: low,
            accuracy_high: high,
            gap_recovered: gap,
            routed_share: sum(|o| o.cloud_tokens) as f64 / sum(|o| o.tokens).max(1) as f64,
            asks_per_question: each(sum(|o| o.asks)),
            tokens_per_question: each(sum(|o| o.tokens)),
            cloud_tokens_decoded: sum(|o| o.cloud_decoded),
            name: name.to_owned(),
        });
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::json!({ "points": rows }))?;
        return Ok(());
    }
    writeln!(out, "{:28} {:>5}  accuracy  95 % interval   gap   from the cloud  asks", "", "n")?;
    for row in &rows {
        writeln!(
            out,
            "{:28} {:5}  {:.3}     {:.3}..{:.3}  {:>6}  {:5.1} %         {:.1}",
            row.name,
            row.questions,
            row.accuracy,
            row.accuracy_low,
            row.accuracy_high,
            row.gap_recovered.map_or("".into(), |g| format!("{:.0} %", g * 100.0)),
            row.routed_share * 100.0,
            row.asks_per_question,
        )?;
    }
    differences(&mut out, job, &outcomes, args.seed)?;
    if rows.iter().any(|row| row.questions < job.examples.len()) {
        say("note: some points are not answered for every question");
    }
    Ok(())
}

/// The first router against the others at the same budget, on the same questions.
fn differences(
    out: &mut impl Write,
    job: &Job,
    outcomes: &[Outcome],
    seed: u64,
) -> anyhow::Result<()> {
    let right = |point: &str| -> HashMap<&str, f64> {
        let of = outcomes.iter().filter(|o| o.point == point);
        of.map(|o| (o.id.as_str(), f64::from(u8::from(o.right)))).collect()
    };
    let Some(first) = job.points.first().map(|p| p.judge.to_string()) else { return Ok(()) };
    for one in job.points.iter().filter(|p| p.judge.to_string() == first) {
        let ours = right(&one.name);
        for other in job.points.iter().filter(|p| p.share == one.share && p.name != one.name) {
            let theirs = right(&other.name);
            let mut both: Vec<_> =
                ours.iter().filter_map(|(id, a)| Some((*id, a - theirs.get(id)?))).collect();
            both.sort_by(|a, b| a.0.cmp(b.0));
            let both: Vec<f64> = both.into_iter().map(|(_, difference)| difference).collect();
            if let Some(Estimate { mean, low, high }) = estimate(&both, seed) {
                let (one, other) = (&one.name, &other.name);
                writeln!(out, "{one} − {other}: {mean:+.3} ({low:+.3}..{high:+.3})")?;
            }
        }
    }
    Ok(())
}
