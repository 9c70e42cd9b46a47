//! When a server is to stop, or to read its configuration again.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::show::say;

/// Ctrl-C, or a service manager's request to stop.
pub async fn interrupted() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
    say("finishing what is under way; press Ctrl-C again to stop at once");
    tokio::spawn(async {
        drop(tokio::signal::ctrl_c().await);
        std::process::exit(1);
    });
}

/// What `SIGHUP` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangup {
    /// Somebody changed the configuration.
    Reload,
    /// The terminal that the program was started in is closed.
    TerminalGone,
}

/// The hang-ups of this process. From the first moment on they no longer end it.
#[derive(Debug)]
pub struct Hangups {
    signals: Signal,
    /// Whether the program was started in a terminal.
    in_terminal: bool,
}

impl Hangups {
    pub fn listen() -> io::Result<Self> {
        Ok(Self { signals: signal(SignalKind::hangup())?, in_terminal: has_terminal() })
    }

    pub async fn next(&mut self) -> Hangup {
        if self.signals.recv().await.is_none() {
            return std::future::pending().await;
        }
        // A terminal that is closed is none any more.
        match self.in_terminal && !has_terminal() {
            true => Hangup::TerminalGone,
            false => Hangup::Reload,
        }
    }
}

/// Whether this process has a terminal, of which some of its output may be kept in a file.
fn has_terminal() -> bool {
    io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal()
}
