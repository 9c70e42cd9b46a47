//! Results, written one by one as they come, so that an interrupted run loses nothing and resumes.
//!
//! A file of JSON lines. The first says what it is about; then come points of the sweep, questions
//! and outcomes, each written once and never changed; a second line of a question adds routers. A run that is about anything else is refused
//! before it writes.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use decode::PaceState;
use serde::{Deserialize, Serialize};
use tandem::Mode;
use thiserror::Error;

use crate::eval::costs::Costs;

#[derive(Debug, Error)]
pub enum ResultsError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} line {line}: not a line of results: {reason}", path.display())]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("{}: not a results file: its first line does not say what it is about", path.display())]
    NotResults { path: PathBuf },
    #[error(
        "{} is being written by another run: wait until it ends, or give another --results file",
        path.display()
    )]
    InUse { path: PathBuf },
    #[error(
        "{} holds results of another run: {what} was {there:?} and is {here:?} now; give another \
         --results file",
        path.display()
    )]
    Mismatch { path: PathBuf, what: String, there: String, here: String },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultsInfo {
    /// The form of the file; another one is refused.
    pub version: u32,
    pub task: String,
    /// The questions: files by name and hash.
    pub data: String,
    /// The edge model and its adapters: name and hash.
    pub edge: String,
    /// The cloud: name, and hash where it is known.
    pub cloud: String,
    pub system: String,
    pub max_tokens: usize,
    /// Where `random` asks, and how questions are redrawn.
    pub seed: u64,
}

impl ResultsInfo {
    pub const VERSION: u32 = 1;

    fn fields(&self) -> [(&'static str, String); 8] {
        [
            ("the form of the file", self.version.to_string()),
            ("the task", self.task.clone()),
            ("the data", self.data.clone()),
            ("the edge", self.edge.clone()),
            ("the cloud", self.cloud.clone()),
            ("the system message", self.system.clone()),
            ("--max-tokens", self.max_tokens.to_string()),
            ("--seed", self.seed.to_string()),
        ]
    }
}

/// One way to decode that is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub name: String,
    pub mode: Mode,
    /// Who judges the edge; `None` where nobody does.
    pub router: Option<String>,
    /// Hash of the router's file, if it has one.
    pub router_digest: Option<String>,
    /// The share of tokens that may come from the cloud.
    pub budget: Option<f32>,
    /// The threshold, where it is fixed.
    pub threshold: Option<f32>,
    /// For `random` beside a fixed threshold: the point whose share it keeps to.
    pub like: Option<String>,
    /// Simulated milliseconds to the cloud and back, on average; `None` where nothing is simulated.
    pub rtt_ms: Option<f64>,
    /// The simulated network as it was written, where the mean does not tell all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The milliseconds between tokens that are aimed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_ms: Option<f64>,
    /// Beside a pace, the least share of tokens from the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_share: Option<f32>,
    /// For an oracle in mode verify: how likely, beside the large model's own choice, a token of the
    /// small one has to be to stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<f32>,
}

/// A question, for those who read the results without its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub id: String,
    pub prompt: String,
    pub right: Option<String>,
    /// Each router's mean trust in the edge over the prompt: what a choice between whole answers
    /// goes by.
    pub trust: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRecord {
    pub text: String,
    /// `edge`, `cloud` or `fallback`.
    pub source: String,
    /// The router's trust in the edge's proposal.
    pub score: Option<f32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub id: String,
    pub point: String,
    /// Whether it was right; `None` where no answer is.
    pub right: Option<bool>,
    #[serde(rename = "said")]
    pub conclusion: Option<String>,
    /// Why it ended: `stop`, `length`, …
    pub finish: String,
    pub pieces: Vec<TokenRecord>,
    #[serde(rename = "figures")]
    pub costs: Costs,
    /// Log-likelihood a character under the large model, for open-ended texts.
    pub likelihood: Option<f64>,
    /// The budget's state behind it, so that a run that resumes has the same one.
    pub spent: Option<Spent>,
}

impl Outcome {
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    /// 1 for a right answer and 0 for a wrong one.
    pub fn accuracy(&self) -> Option<f64> {
        self.right.map(|right| f64::from(u8::from(right)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The share that is looked up.
    pub aim: f32,
    pub threshold: f32,
    pub tokens: usize,
    /// Of them, from the cloud.
    pub routed: usize,
    /// What a pace has seen, where one is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceState>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResultsLine {
    /// The first line; files have always called it so.
    #[serde(rename = "about")]
    Info(ResultsInfo),
    Point(Point),
    Question(Question),
    Outcome(Box<Outcome>),
}

#[derive(Clone, Debug, Default)]
pub struct Record {
    pub about: ResultsInfo,
    /// In the order of their first run.
    pub points: Vec<Point>,
    /// In the order of their first answer.
    pub questions: Vec<Question>,
    /// In the order in which they were made.
    pub outcomes: Vec<Outcome>,
}

impl Record {
    /// Reads a file. A last line that is not whole is left out: a run may still be writing it, or
    /// was killed there.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        let written = fs::read(path).map_err(|source| file_error(path, source))?;
        parse(path, whole_lines(&written))?
            .ok_or_else(|| ResultsError::NotResults { path: path.to_owned() })
    }

    /// Adds a question, or what more routers think of one that is there.
    pub(super) fn learn(&mut self, question: Question) {
        match self.questions.iter_mut().find(|known| known.id == question.id) {
            Some(known) => {
                for (router, trust) in question.trust {
                    known.trust.entry(router).or_insert(trust);
                }
            }
            None => self.questions.push(question),
        }
    }

    /// The lines of a file that holds all of it.
    pub fn lines(&self) -> io::Result<Vec<u8>> {
        let about = [ResultsLine::Info(self.about.clone())].into_iter();
        let points = self.points.iter().cloned().map(ResultsLine::Point);
        let questions = self.questions.iter().cloned().map(ResultsLine::Question);
        let outcomes = self.outcomes.iter().cloned().map(|o| ResultsLine::Outcome(Box::new(o)));
        let mut lines = vec![];
        for line in about.chain(points).chain(questions).chain(outcomes) {
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
        }
        Ok(lines)
    }
}

#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    record: Record,
}

impl Results {
    /// Opens a file, or begins one. A last line that a kill cut short is cut off; what the file is
    /// about, and the points it shares with this run, must be the same.
    pub fn open(path: &Path, about: ResultsInfo, points: Vec<Point>) -> Result<Self, ResultsError> {
        let failed = |source| file_error(path, source);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = claim(path)?;
        let written = fs::read(path).map_err(failed)?;
        let whole = whole_lines(&written);
        let there = parse(path, whole)?;
        let fresh = there.is_none();
        let record = there.unwrap_or_else(|| Record { about: about.clone(), ..Record::default() });
        compare(path, &record, &about, &points)?;
        file.set_len(whole.len() as u64).map_err(failed)?;
        let results = Self { path: path.to_owned(), state: Mutex::new(State { file, record }) };
        if fresh {
            results.write(&ResultsLine::Info(about))?;
        }
        for point in points {
            results.add_point(point)?;
        }
        Ok(results)
    }

    fn add_point(&self, point: Point) -> Result<(), ResultsError> {
        if self.look(|record| record.points.iter().any(|p| p.name == point.name)) {
            return Ok(());
        }
        self.write(&ResultsLine::Point(point.clone()))?;
        self.with(|state| state.record.points.push(point));
        Ok(())
    }

    /// Adds a question, on disk first; a second time it only adds what other routers think of it.
    pub fn add_question(&self, question: Question) -> Result<(), ResultsError> {
        let judged = self.judges_of(&question.id);
        let known = self.look(|record| record.questions.iter().any(|q| q.id == question.id));
        if known && question.trust.keys().all(|router| judged.contains(router)) {
            return Ok(());
        }
        self.write(&ResultsLine::Question(question.clone()))?;
        self.with(|state| state.record.learn(question));
        Ok(())
    }

    /// The routers whose trust in a question is known.
    pub fn judges_of(&self, id: &str) -> HashSet<String> {
        self.look(|record| {
            let question = record.questions.iter().find(|question| question.id == id);
            question.map(|question| question.trust.keys().cloned().collect()).unwrap_or_default()
        })
    }

    /// Adds an answer, on disk first.
    pub fn add_outcome(&self, outcome: Outcome) -> Result<(), ResultsError> {
        self.write(&ResultsLine::Outcome(Box::new(outcome.clone())))?;
        self.with(|state| state.record.outcomes.push(outcome));
        Ok(())
    }

    /// The points at which a question has an answer.
    pub fn points_of(&self, id: &str) -> HashSet<String> {
        self.look(|record| {
            let answers = record.outcomes.iter().filter(|outcome| outcome.id == id);
            answers.map(|outcome| outcome.point.clone()).collect()
        })
    }

    pub fn look<T>(&self, at: impl FnOnce(&Record) -> T) -> T {
        self.with(|state| at(&state.record))
    }

    fn with<T>(&self, job: impl FnOnce(&mut State) -> T) -> T {
        job(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, line: &ResultsLine) -> Result<(), ResultsError> {
        let text = serde_json::to_string(line)
            .map_err(|e| file_error(&self.path, io::Error::new(io::ErrorKind::InvalidData, e)))?;
        self.with(|state| state.file.write_all(format!("{text}\n").as_bytes()))
            .map_err(|source| file_error(&self.path, source))
    }
}

/// Opens a file to write, and keeps other runs from it for as long as it is open.
pub(super) fn claim(path: &Path) -> Result<File, ResultsError> {
    let failed = |source| file_error(path, source);
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ResultsError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Without a last line that was cut short.
fn whole_lines(written: &[u8]) -> &[u8] {
    let end = written.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    &written[..end]
}

pub(super) fn file_error(path: &Path, source: io::Error) -> ResultsError {
    ResultsError::File { path: path.to_owned(), source }
}

/// What whole lines say; `None` of an empty file.
fn parse(path: &Path, written: &[u8]) -> Result<Option<Record>, ResultsError> {
    let mut record: Option<Record> = None;
    for (number, line) in (1..).zip(written.split(|&byte| byte == b'\n')) {
        if line.is_empty() {
            continue;
        }
        let wrong = |e: serde_json::Error| ResultsError::Line {
            path: path.to_owned(),
            line: number,
            reason: e.to_string(),
        };
        match (serde_json::from_slice(line).map_err(wrong)?, &mut record) {
            (ResultsLine::Info(about), None) => {
                record = Some(Record { about, ..Record::default() })
            }
            (ResultsLine::Point(point), Some(record)) => record.points.push(point),
            (ResultsLine::Question(question), Some(record)) => record.learn(question),
            (ResultsLine::Outcome(outcome), Some(record)) => record.outcomes.push(*outcome),
            _ => return Err(ResultsError::NotResults { path: path.to_owned() }),
        }
    }
    Ok(record)
}

pub(super) fn compare(
    path: &Path,
    record: &Record,
    about: &ResultsInfo,
    points: &[Point],
) -> Result<(), ResultsError> {
    let another = |what: String, there: String, here: String| {
        Err(ResultsError::Mismatch { path: path.to_owned(), what, there, here })
    };
    for ((what, there), (_, here)) in record.about.fields().into_iter().zip(about.fields()) {
        if there != here {
            return another(what.to_owned(), there, here);
        }
    }
    for here in points {
        let Some(there) = record.points.iter().find(|p| p.name == here.name) else { continue };
        if there != here {
            let what = format!("the point {:?}", here.name);
            return another(what, format!("{there:?}"), format!("{here:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> ResultsInfo {
        let version = ResultsInfo::VERSION;
        ResultsInfo { version, cloud: "large 2".into(), ..ResultsInfo::default() }
    }

    fn point(name: &str, router_digest: Option<&str>) -> Point {
        let router_digest = router_digest.map(str::to_owned);
        Point { name: name.into(), router_digest, ..Point::default() }
    }

    fn outcome(id: &str, point: &str) -> Outcome {
        Outcome { id: id.into(), point: point.into(), ..Outcome::default() }
    }

    #[test]
    fn a_second_run_goes_on_where_a_kill_cut_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/r.jsonl");
        let results = Results::open(&path, about(), vec![point("p", None)]).unwrap();
        results.add_outcome(outcome("q", "small")).unwrap();
        drop(results);
        fs::write(&path, [fs::read(&path).unwrap(), b"{\"outcome\"".to_vec()].concat()).unwrap();
        let again = Results::open(&path, about(), vec![point("p", None)]).unwrap();
        assert!(again.points_of("q").contains("small"));
        again.add_outcome(outcome("q", "large")).unwrap();
        let record = Record::read(&path).unwrap();
        assert_eq!((record.outcomes.len(), record.points.len()), (2, 1));
    }

    #[test]
    fn two_runs_do_not_write_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let first = Results::open(&path, about(), vec![]).unwrap();
        first.add_outcome(outcome("q", "small")).unwrap();
        let error = Results::open(&path, about(), vec![]).unwrap_err().to_string();
        assert!(error.contains("is being written by another run"), "{error}");
        drop(first);
        assert!(Results::open(&path, about(), vec![]).unwrap().points_of("q").contains("small"));
    }

    #[test]
    fn damaged_results_are_refused_or_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let results = Results::open(&path, about(), vec![point("p", Some("x"))]).unwrap();
        let (id, prompt, trust) = ("q".to_owned(), "Where?".to_owned(), BTreeMap::default());
        results.add_question(Question { id, prompt, right: Some("A".into()), trust }).unwrap();
        results.add_outcome(outcome("q", "p")).unwrap();
        drop(results);
        let corpus = [fs::read(&path).unwrap()];
        let mut read = 0;
        decode::mutation::each(&corpus, 10_000, |bytes| {
            if let Ok(Some(record)) = parse(&path, whole_lines(bytes)) {
                read += 1;
                // What was read is written as it was.
                let lines = record.lines().unwrap();
                assert!(parse(&path, &lines).unwrap().is_some());
            }
        });
        assert!(read > 100, "{read}");
    }

    #[test]
    fn what_is_about_something_else_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        drop(Results::open(&path, about(), vec![point("p", Some("x"))]).unwrap());
        let before = fs::read(&path).unwrap();
        let other = ResultsInfo { cloud: "other 3".into(), ..about() };
        let error = Results::open(&path, other, vec![]).unwrap_err().to_string();
        assert!(error.contains("the cloud") && error.contains("other 3"), "{error}");
        let error = Results::open(&path, about(), vec![point("p", Some("y"))]).unwrap_err();
        assert!(error.to_string().contains("the point \"p\""), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
        // More points may come.
        drop(Results::open(&path, about(), vec![point("another", None)]).unwrap());
        for bad in ["nonsense\n", "{\"id\":1}\n"] {
            fs::write(&path, bad).unwrap();
            assert!(Results::open(&path, about(), vec![]).is_err());
        }
    }
}
