//! `tandem manual`: the help texts as manual pages.

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context;
use clap::CommandFactory;

use crate::args::Args;

pub fn manual(folder: &Path) -> anyhow::Result<ExitCode> {
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Args::command(), folder));
    written.with_context(|| format!("cannot write into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
