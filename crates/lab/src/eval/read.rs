//! Reading the data of a task: all of it is checked before anything runs.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::eval::{
    builtin,
    encoding::{self, NotText},
    example::Example,
    row::Row,
    task::TaskName,
};

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} line {line}: {looks}; save it as UTF-8", path.display())]
    Encoding { path: PathBuf, line: usize, looks: NotText },
    #[error("{} line 1: the file is empty; expected on each line {wanted}", path.display())]
    Empty { path: PathBuf, wanted: &'static str },
    #[error("{} line {line}: {reason}; expected {wanted}", path.display())]
    Line { path: PathBuf, line: usize, reason: String, wanted: &'static str },
    #[error(
        "{} line {line}: the id {id:?} is that of {} line {first_line} too; expected an id of its \
         own for each question",
        path.display(),
        first.display()
    )]
    DuplicateId { id: String, path: PathBuf, line: usize, first: PathBuf, first_line: usize },
    #[error("the task {task} wants a file of questions; each line is {}", task.wanted())]
    NoData { task: TaskName },
    #[error("the task {task} has questions of its own; {} is not read", path.display())]
    DataUnwanted { task: TaskName, path: PathBuf },
}

const ANY: &str = "a JSON object with question, choices and answerKey, or problem and answer, or \
    prompt and response";

/// The questions of a task, in order, from all its files.
pub fn read(task: TaskName, paths: &[PathBuf]) -> Result<Vec<Example>, ReadError> {
    let mut all = Questions { task, found: vec![], places: HashMap::new() };
    match (task, paths) {
        (TaskName::Builtin, []) => {
            all.add(Path::new(builtin::FILE), builtin::FILE, builtin::QUESTIONS)?;
        }
        (TaskName::Builtin, [path, ..]) => {
            return Err(ReadError::DataUnwanted { task, path: path.clone() });
        }
        (_, []) => return Err(ReadError::NoData { task }),
        (_, paths) => {
            for path in paths {
                // Where two files have the same name, the whole path says which.
                let stem = |path: &Path| path.file_stem().unwrap_or_default().to_owned();
                let alone = paths.iter().filter(|other| stem(other) == stem(path)).count() == 1;
                let name = if alone { stem(path) } else { path.clone().into_os_string() };
                all.add(path, &name.to_string_lossy(), &text(path)?)?;
            }
        }
    }
    Ok(all.found)
}

impl Example {
    /// Reads a file of JSON lines of any shape, to learn from; empty lines are skipped. What is
    /// measured is read by [`read`], which asks for more.
    pub fn read(path: &Path) -> Result<Vec<Self>, ReadError> {
        let text = text(path)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let example = |(line, text): (usize, &str)| {
            let example = Row::parse(text)
                .and_then(|row| row.example(row.shape()?, format!("{stem}:{line}")));
            let path = path.to_owned();
            example.map_err(|reason| ReadError::Line { path, line, reason, wanted: ANY })
        };
        lines(&text).map(example).collect()
    }
}

struct Questions {
    task: TaskName,
    found: Vec<Example>,
    places: HashMap<String, (PathBuf, usize)>,
}

impl Questions {
    fn add(&mut self, path: &Path, name: &str, text: &str) -> Result<(), ReadError> {
        let wanted = self.task.wanted();
        let before = self.found.len();
        for (line, text) in lines(text) {
            let place = format!("{name}:{line}");
            let example = Row::parse(text).and_then(|row| row.example(self.task, place));
            let failed = |reason| ReadError::Line { path: path.to_owned(), line, reason, wanted };
            let example = example.map_err(failed)?;
            let place = (path.to_owned(), line);
            if let Some((first, first_line)) = self.places.insert(example.id.clone(), place) {
                let (id, path) = (example.id, path.to_owned());
                return Err(ReadError::DuplicateId { id, path, line, first, first_line });
            }
            self.found.push(example);
        }
        if self.found.len() == before {
            return Err(ReadError::Empty { path: path.to_owned(), wanted });
        }
        Ok(())
    }
}

/// Lines with anything on them, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

fn text(path: &Path) -> Result<String, ReadError> {
    let bytes =
        fs::read(path).map_err(|source| ReadError::File { path: path.to_owned(), source })?;
    encoding::text(bytes).map_err(|(looks, line)| ReadError::Encoding {
        path: path.to_owned(),
        line,
        looks,
    })
}

#[cfg(test)]
mod tests;
