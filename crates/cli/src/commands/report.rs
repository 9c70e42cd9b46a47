//! `tandem report`: results as a page and a summary.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use lab::{
    eval::Record,
    report::{Report, Summary},
};
use serde::Serialize;

use crate::{args::ReportArgs, config::UsageError, show::say};

/// What `--json` prints.
#[derive(Serialize)]
struct Told<'a> {
    html: &'a Path,
    markdown: Option<&'a Path>,
    #[serde(flatten)]
    summary: Summary<'a>,
}

pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let html = page(args)?;
    let markdown = args.markdown.as_deref();
    keep_apart(&args.results, &html, markdown)?;
    let records =
        args.results.iter().map(|path| Record::read(path)).collect::<Result<Vec<_>, _>>()?;
    let report = Report::of(&records)?;
    write(&html, &report.html()?)?;
    let summary = report.markdown()?;
    if let Some(path) = markdown {
        write(path, &summary)?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let told = Told { html: &html, markdown, summary: report.summary() };
        writeln!(out, "{}", serde_json::to_string(&told)?)?;
    } else if markdown.is_none() {
        write!(out, "{summary}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(args: &ReportArgs) -> anyhow::Result<PathBuf> {
    match (&args.output, args.results.first()) {
        (Some(given), _) => Ok(given.clone()),
        (None, Some(first)) => Ok(first.with_extension("html")),
        (None, None) => Err(UsageError("no results are named".into()).into()),
    }
}

/// Hours of measuring must not be overwritten by their own report.
fn keep_apart(results: &[PathBuf], html: &Path, markdown: Option<&Path>) -> Result<(), UsageError> {
    let same = |one: &Path, other: &Path| {
        one == other
            || fs::canonicalize(one)
                .ok()
                .is_some_and(|p| fs::canonicalize(other).is_ok_and(|q| p == q))
    };
    for written in [Some(html), markdown].into_iter().flatten() {
        if results.iter().any(|read| same(read, written)) {
            let reason = format!("{} holds results: write the report elsewhere", written.display());
            return Err(UsageError(reason));
        }
    }
    if markdown.is_some_and(|markdown| same(markdown, html)) {
        return Err(UsageError("the page and the summary need a file each".into()));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    say(&format!("wrote {}", path.display()));
    Ok(())
}
