//! The simplest loop over an ONNX model, as a reference: every tensor is copied in and out, nothing
//! is bound or shared.
//!
//! Kernels of quantised weights differ from CPU to CPU, so the outputs cannot be recorded in a file.
//! In one process both loops use the same kernels and must have the same outputs.

use std::path::Path;

use ::onnx::expose;
use decode::Token;
use ort::{
    session::{Session, SessionInputValue},
    value::{DynValue, Tensor},
};

/// The number of key and value heads, and the size of one.
const HEADS: [usize; 2] = [1, 16];

/// Reads the parts in order; returns logits and hidden state after the last token of each.
pub fn run(
    library: &Path,
    model: &Path,
    hidden: &str,
    parts: &[&[Token]],
) -> Vec<(Vec<f32>, Vec<f32>)> {
    let folder = tempfile::tempdir().unwrap();
    let exposed = folder.path().join("model.onnx");
    expose(model, &exposed, Some(hidden)).unwrap();
    let environment = tandem_engine::onnx::runtime::environment(library).unwrap();
    let builder = Session::builder(&environment).unwrap().with_intra_threads(2).unwrap();
    let mut session = { builder }.commit_from_file(&exposed).unwrap();
    let names: Vec<String> = session.inputs().iter().map(|i| i.name().to_owned()).collect();
    let pasts: Vec<&String> = names.iter().filter(|name| name.starts_with("past")).collect();
    let empty = || -> DynValue {
        let shape = [1, HEADS[0], 0, HEADS[1]];
        Tensor::<f32>::new(&ort::memory::Allocator::default(), shape).unwrap().into_dyn()
    };
    let mut caches: Vec<DynValue> = pasts.iter().map(|_| empty()).collect();
    let (mut total, mut all) = (0, vec![]);
    for part in parts {
        total += part.len();
        let ids: Vec<i64> = part.iter().map(|token| i64::from(token.0)).collect();
        let whole = |numbers: Vec<i64>| Tensor::from_array(([1, numbers.len()], numbers)).unwrap();
        let mut inputs: Vec<(&str, SessionInputValue<'_>)> = vec![
            ("input_ids", whole(ids).into()),
            ("attention_mask", whole(vec![1; total]).into()),
        ];
        for (name, cache) in pasts.iter().zip(&caches) {
            inputs.push((name.as_str(), cache.into()));
        }
        let mut outputs = session.run(inputs).unwrap();
        let last = |name: &str, length: usize| -> Vec<f32> {
            let (_, numbers) = outputs[name].try_extract_tensor::<f32>().unwrap();
            numbers[numbers.len() - length..].to_vec()
        };
        all.push((last("logits", 64), last(hidden, 32)));
        let present = |past: &&String| past.replace("past_key_values", "present");
        let grown = pasts.iter().map(|past| outputs.remove(present(past)).unwrap()).collect();
        drop(outputs);
        caches = grown;
    }
    all
}
