//! Reading the configuration again while a server runs.

use tandem::error::describe;

use crate::{
    args::Command,
    interrupt::{Hangup, Hangups},
    settings,
    show::say,
};

/// Has the configuration file read again with every hang-up, and what changed in it applied, until the
/// terminal is gone that the program was started in. A file that cannot be used changes nothing.
pub async fn reload_until_gone(
    mut hangups: Hangups,
    apply: impl Fn(Command) -> anyhow::Result<()>,
) {
    while hangups.next().await == Hangup::Reload {
        match read_again().and_then(&apply) {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(error) => {
                let reason = describe(error.as_ref());
                tracing::error!("the configuration stays as it was: {reason}");
            }
        }
    }
    say("the terminal is gone: finishing what is under way");
}

fn read_again() -> anyhow::Result<Command> {
    Ok(settings::parse(std::env::args_os())?.command)
}
