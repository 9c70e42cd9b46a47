//! `tandem report`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub struct ReportArgs {
    /// Results of `tandem eval`; each becomes a section of the report
    #[arg(value_name = "RESULTS", required = true)]
    pub results: Vec<PathBuf>,

    /// The page to write; without it, beside the first results and named like them
    #[arg(short, long, value_name = "FILE.html")]
    pub output: Option<PathBuf>,

    /// The summary in Markdown; without it, to stdout
    #[arg(long, value_name = "FILE.md")]
    pub markdown: Option<PathBuf>,

    /// The numbers as JSON on stdout, instead of the summary
    #[arg(long)]
    pub json: bool,
}
