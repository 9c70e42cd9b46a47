//! `tandem completions`: a script for the user's shell.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;

pub fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    // Into memory first: the generator panics where nobody reads.
    let mut script = vec![];
    clap_complete::generate(shell, &mut Args::command(), "tandem", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
