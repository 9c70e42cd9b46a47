//! With real weights, or with a clock in hand: `scripts/test.sh` runs what is in here alone.

mod bridge;
mod collect;
mod crowd;
mod engines;
mod http;
mod loop_llama;
mod loop_onnx;
mod models;
mod protocol;
mod transport;
