//! With real weights, so one at a time: `scripts/test.sh` runs what is in here alone.

mod llama;
mod onnx_real;
