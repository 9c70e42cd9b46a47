//! Reports from files of results to files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::Report;
use crate::{Error, eval::Record};

#[derive(Clone, Debug)]
pub struct ReportFiles {
    /// Results, a section each.
    pub results: Vec<PathBuf>,
    pub html: PathBuf,
    /// The summary, if it goes to a file.
    pub markdown: Option<PathBuf>,
}

impl ReportFiles {
    /// Writes the page beside the first results unless another place is named.
    pub fn new(
        results: Vec<PathBuf>,
        html: Option<PathBuf>,
        markdown: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let beside = || results.first().map(|first| first.with_extension("html"));
        let html = html.or_else(beside).ok_or_else(|| Error::usage("no results are named"))?;
        let files = Self { results, html, markdown };
        files.keep_apart()?;
        Ok(files)
    }

    /// Hours of measuring must not be overwritten by their own report.
    fn keep_apart(&self) -> Result<(), Error> {
        for written in [Some(&self.html), self.markdown.as_ref()].into_iter().flatten() {
            if self.results.iter().any(|read| same(read, written)) {
                let written = written.display();
                let reason = format!("{written} holds results: write the report elsewhere");
                return Err(Error::Usage(reason));
            }
        }
        if self.markdown.as_ref().is_some_and(|markdown| same(markdown, &self.html)) {
            return Err(Error::usage("the page and the summary need a file each"));
        }
        Ok(())
    }

    pub fn write(&self) -> Result<Report, Error> {
        let records: Result<Vec<_>, _> = self.results.iter().map(|p| Record::read(p)).collect();
        let report = Report::of(&records?)?;
        write(&self.html, &report.html()?)?;
        if let Some(path) = &self.markdown {
            write(path, &report.markdown()?)?;
        }
        Ok(report)
    }
}

fn same(one: &Path, other: &Path) -> bool {
    let canonical = |path| fs::canonicalize(path).ok();
    one == other || canonical(one).is_some_and(|one| canonical(other) == Some(one))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    fs::write(path, text).map_err(failed)
}
