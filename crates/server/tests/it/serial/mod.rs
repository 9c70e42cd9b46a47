//! Tests that run one at a time (`scripts/test.sh` passes `--test-threads=1`), because they load real
//! models or measure times: two models on the same cores run at a third of their speed.

mod bridge;
mod collect;
mod crowd;
mod engines;
mod http;
mod loop_llama;
mod loop_onnx;
mod models;
mod protocol;
mod several;
mod transport;
