//! One file a command.

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
