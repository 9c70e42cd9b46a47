//! One file a command.

use std::{io, process::ExitCode};

pub mod bench;
pub mod chat;
pub mod cloud;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
#[cfg(feature = "lab")]
pub mod eval;
#[cfg(feature = "lab")]
pub mod export;
pub mod manual;
pub mod onnx;
pub mod preset;
pub mod pull;
mod reload;
#[cfg(feature = "lab")]
pub mod report;
pub mod rm;
#[cfg(feature = "lab")]
pub mod router;
pub mod run;
pub mod serve;
#[cfg(feature = "lab")]
pub mod tune;

/// How a server ended: because it was told to, or because what it serves with cannot be used any more.
/// Whoever watches this process is told by its exit code, and can start it again.
pub fn ended(served: io::Result<()>, failure: Option<String>) -> anyhow::Result<ExitCode> {
    served?;
    match failure {
        Some(reason) => anyhow::bail!("the models cannot be used any more: {reason}"),
        None => Ok(ExitCode::SUCCESS),
    }
}
