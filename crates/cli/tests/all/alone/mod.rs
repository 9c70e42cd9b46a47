//! With real weights, so one at a time: `scripts/test.sh` runs what is in here alone.

mod chat;
mod cloud;
mod demo;
mod errors;
mod eval;
mod hub;
mod live;
mod onnx;
mod router;
mod run;
mod serve;
