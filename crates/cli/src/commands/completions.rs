//! `tandem completions`: a script for the user's shell.

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;

pub fn completions(shell: Shell) {
    clap_complete::generate(shell, &mut Args::command(), "tandem", &mut io::stdout());
}
