//! When a server is to stop.

use crate::show::say;

/// Ctrl-C, or a service manager's request to stop.
pub async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
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
