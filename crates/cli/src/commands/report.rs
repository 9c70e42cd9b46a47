//! `tandem report`: results as a page and a summary.

use std::{io::Write, path::Path, process::ExitCode};

use lab::report::{ReportFiles, Summary};
use serde::Serialize;

use crate::{
    args::ReportArgs,
    show::{print_json, say},
};

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
    if args.json {
        print_json(&Output { html, markdown, summary: report.summary() })?;
    } else if markdown.is_none() {
        write!(std::io::stdout(), "{}", report.markdown()?)?;
    }
    Ok(ExitCode::SUCCESS)
}
