//! What stands for the commands of the workshop in a build without it.

use std::{ffi::OsString, process::ExitCode};

use clap::Args;

use crate::config::UsageError;

/// Takes whatever is written: a command that is not here must not complain about its arguments.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct NoLabArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

impl NoLabArgs {
    pub fn refuse(self, command: &str) -> anyhow::Result<ExitCode> {
        tracing::debug!(arguments = ?self.arguments, "not in this build");
        Err(no_lab(command))
    }
}

pub fn no_lab(command: &str) -> anyhow::Error {
    let reason = format!(
        "this build has no workshop: `tandem {command}` needs one made with the feature lab, which \
         is on by default (docs/build.md)"
    );
    UsageError(reason).into()
}
