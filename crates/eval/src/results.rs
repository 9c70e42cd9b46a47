//! Results, written one by one as they come, so that nothing is lost and a second run goes on.

use std::{
    collections::HashSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// One answer to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which question.
    pub id: String,
    /// Which point of the sweep: mode, router and budget, as named in the table.
    pub point: String,
    /// Whether it was right.
    pub right: bool,
    /// What it concluded.
    pub said: Option<String>,
    /// Accepted tokens.
    pub tokens: usize,
    /// Of them, from the cloud.
    pub cloud_tokens: usize,
    /// Times the cloud answered.
    pub asks: usize,
    /// Tokens the cloud wrote, look-ahead included.
    pub cloud_decoded: usize,
    /// Milliseconds from the prompt to the end.
    pub total_ms: f64,
    /// The answer.
    pub text: String,
}

/// A file of outcomes.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    outcomes: Mutex<Vec<Outcome>>,
}

impl Results {
    /// Opens a file, or begins one. A last line that a kill cut short is cut off.
    pub fn open(path: &Path) -> io::Result<Self> {
        let written = match fs::read(path) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
            Err(error) => return Err(error),
        };
        let whole = written.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < written.len() {
            OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
        }
        let lines = written[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let outcomes: Result<Vec<Outcome>, _> = lines.map(serde_json::from_slice).collect();
        let outcomes = outcomes.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Self { path: path.to_owned(), outcomes: Mutex::new(outcomes) })
    }

    /// Takes note of an answer, on disk first.
    pub fn note(&self, outcome: Outcome) -> io::Result<()> {
        let line = serde_json::to_string(&outcome)?;
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        outcomes.push(outcome);
        Ok(())
    }

    /// The points a question already has.
    pub fn points_of(&self, id: &str) -> HashSet<String> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.iter().filter(|o| o.id == id).map(|o| o.point.clone()).collect()
    }

    /// Everything so far.
    pub fn all(&self) -> Vec<Outcome> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(id: &str, point: &str) -> Outcome {
        Outcome {
            id: id.into(),
            point: point.into(),
            right: true,
            said: Some("A".into()),
            tokens: 10,
            cloud_tokens: 1,
            asks: 1,
            cloud_decoded: 2,
            total_ms: 1.5,
            text: "x".into(),
        }
    }

    #[test]
    fn a_second_run_goes_on_where_a_kill_cut_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let results = Results::open(&path).unwrap();
        results.note(outcome("q", "small")).unwrap();
        fs::write(&path, [fs::read(&path).unwrap(), b"{\"id\"".to_vec()].concat()).unwrap();
        let again = Results::open(&path).unwrap();
        assert!(again.points_of("q").contains("small"));
        again.note(outcome("q", "large")).unwrap();
        assert_eq!(Results::open(&path).unwrap().all().len(), 2);
        fs::write(&path, "nonsense\n").unwrap();
        assert!(Results::open(&path).is_err());
    }
}
