//! Tests that run one at a time (`scripts/test.sh` passes `--test-threads=1`), because they load real
//! models or measure times: two models on the same cores run at a third of their speed.

mod grammar;
mod llama;
mod onnx_real;
