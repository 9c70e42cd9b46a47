//! Tests that run one at a time (`scripts/test.sh` passes `--test-threads=1`), because they load real
//! models or measure times: two models on the same cores run at a third of their speed.

mod chaos;
mod chat;
#[cfg(target_os = "linux")]
mod chat_terminal;
mod cloud;
mod demo;
mod errors;
mod eval;
mod hub;
mod live;
mod onnx;
mod pairs;
mod query;
mod router;
mod run;
mod serve;
mod tune;
