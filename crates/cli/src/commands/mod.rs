//! One file a command.

pub mod bench;
pub mod chat;
pub mod cloud;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod eval;
pub mod manual;
pub mod onnx;
pub mod preset;
pub mod pull;
pub mod report;
pub mod rm;
pub mod router;
pub mod run;
pub mod serve;
pub mod version;
