//! `tandem report`: results as a page and a summary.

use std::{io::Write, path::Path, process::ExitCode};

use lab::report::{ReportFiles, Summary};
use serde::Serialize;

use crate::{args::ReportArgs, show::say};

/// What `--json` prints.
#[derive(Serialize)]
struct Output<'a> {
    html: &'a Path,
    markdown: Option<&'a Path>,
    #[serde(flatten)]
    summary: Summary<'a>,
}

pub fn report(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let files = ReportFiles::new(args.results, args.output, args.markdown)?;
    let report = files.write()?;
    let (html, markdown) = (&files.html, files.markdown.as_deref());
    for path in [Some(html.as_path()), markdown].into_iter().flatten() {
        say(&format!("wrote {}", path.display()));
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let output = Output { html, markdown, summary: report.summary() };
        writeln!(out, "{}", serde_json::to_string(&output)?)?;
    } else if markdown.is_none() {
        write!(out, "{}", report.markdown()?)?;
    }
    Ok(ExitCode::SUCCESS)
}
