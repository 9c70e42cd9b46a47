//! Results files of several runs as one: other questions of the same data, or other points.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use router::atomic;

use super::results::{Record, ResultsError, compare, file_error};

#[derive(Clone, Debug)]
pub struct Merged {
    pub record: Record,
    /// Answers that several files had; the first one's counts.
    pub repeated: usize,
}

/// Joins files. All of them must be about the same, and points of the same name the same points.
pub fn merge(paths: &[PathBuf]) -> Result<Merged, ResultsError> {
    let mut merged: Option<Merged> = None;
    for path in paths {
        let record = Record::read(path)?;
        match &mut merged {
            None => merged = Some(Merged { record, repeated: 0 }),
            Some(merged) => merged.add(path, record)?,
        }
    }
    let none = || ResultsError::NotResults { path: PathBuf::new() };
    merged.ok_or_else(none)
}

impl Merged {
    fn add(&mut self, path: &Path, other: Record) -> Result<(), ResultsError> {
        let Self { record, repeated } = self;
        compare(path, &other, &record.about, &record.points)?;
        let names: HashSet<_> = record.points.iter().map(|p| p.name.clone()).collect();
        record.points.extend(other.points.into_iter().filter(|p| !names.contains(&p.name)));
        other.questions.into_iter().for_each(|question| record.learn(question));
        let there: HashSet<_> =
            record.outcomes.iter().map(|o| (o.id.clone(), o.point.clone())).collect();
        for outcome in other.outcomes {
            if there.contains(&(outcome.id.clone(), outcome.point.clone())) {
                *repeated += 1;
            } else {
                record.outcomes.push(outcome);
            }
        }
        Ok(())
    }
}

/// Writes a file that `report` reads and `eval` resumes. A file that is there is left alone.
pub fn write(record: &Record, path: &Path) -> Result<(), ResultsError> {
    if path.exists() {
        let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(file_error(path, source));
    }
    let lines = record.lines().map_err(|source| file_error(path, source))?;
    atomic::write(path, &lines).map_err(|source| file_error(path, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::results::{Outcome, Point, Question, Results, ResultsInfo};

    fn results(path: &Path, about: ResultsInfo, points: &[&str], ids: &[&str]) {
        let point = |name: &&str| Point { name: (*name).into(), ..Point::default() };
        let results = Results::open(path, about, points.iter().map(point).collect()).unwrap();
        for id in ids {
            let (id, prompt) = (id.to_string(), "?".into());
            let question = Question { id: id.clone(), prompt, right: None, trust: [].into() };
            results.add_question(question).unwrap();
            for point in points {
                let (id, point) = (id.clone(), point.to_string());
                results.add_outcome(Outcome { id, point, ..Outcome::default() }).unwrap();
            }
        }
    }

    #[test]
    fn questions_and_points_of_several_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let about = || ResultsInfo { version: ResultsInfo::VERSION, ..ResultsInfo::default() };
        results(&file("a"), about(), &["small", "large"], &["1", "2"]);
        results(&file("b"), about(), &["small", "top1 7%"], &["2", "3"]);
        let merged = merge(&[file("a"), file("b")]).unwrap();
        assert_eq!((merged.record.points.len(), merged.record.questions.len()), (3, 3));
        assert_eq!((merged.record.outcomes.len(), merged.repeated), (7, 1));
        write(&merged.record, &file("all")).unwrap();
        let again = Record::read(&file("all")).unwrap();
        assert_eq!(again.outcomes, merged.record.outcomes);
        assert!(write(&merged.record, &file("a")).is_err(), "results are never overwritten");

        let other = ResultsInfo { task: "other".into(), ..about() };
        results(&file("c"), other, &["small"], &["1"]);
        let error = merge(&[file("a"), file("c")]).unwrap_err().to_string();
        assert!(error.contains("the task"), "{error}");
    }
}
