//! GGUF files whose numbers make no sense, exported to ONNX.

use std::path::Path;

use decode::mutation;
use tandem_lab::export::{Export, Weights, export};

use crate::gguf::{self, Value};

fn try_export(model: &Path) -> Result<(), String> {
    let out = model.with_file_name("out");
    let weights = Weights::Int8;
    let options = Export { model: model.to_owned(), adapters: vec![], weights, force: true };
    export(&options, &out).map(drop).map_err(|error| error.to_string())
}

#[test]
fn numbers_without_sense_are_named() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("tiny.gguf");
    gguf::model(&path, "smollm");
    try_export(&path).unwrap();
    for (key, value, says) in [
        ("llama.attention.key_length", Value::Long(1 << 40), "key_length is 1099511627776"),
        ("llama.embedding_length", Value::Long(1 << 40), "embedding_length is 1099511627776"),
        ("llama.block_count", Value::Long(1 << 62), "block_count is 4611686018427387904"),
        ("llama.attention.head_count", Value::Count(0), "head_count"),
        ("llama.rope.dimension_count", Value::Count(7), "are rotated"),
    ] {
        let mut metadata = gguf::metadata("smollm");
        metadata.retain(|(name, _)| *name != key);
        metadata.push((key, value));
        gguf::write(&path, &metadata, &gguf::weights());
        let error = try_export(&path).unwrap_err();
        assert!(error.contains(says), "{key}: {error}");
    }
    // A bias of another length than what it is added to.
    for length in [1, gguf::WIDTH - 1, gguf::WIDTH + 1] {
        let mut tensors = gguf::weights();
        let (name, data) = ("blk.0.attn_k.bias".to_owned(), vec![0.5; length as usize]);
        tensors.push(gguf::Tensor { name, shape: vec![length], data });
        gguf::write(&path, &gguf::metadata("smollm"), &tensors);
        let error = try_export(&path).unwrap_err();
        assert!(error.contains(&format!("{length} numbers, not {}", gguf::WIDTH)), "{error}");
    }
}

#[test]
fn damaged_headers_are_refused_or_exported() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("tiny.gguf");
    gguf::model(&path, "smollm");
    let whole = std::fs::read(&path).unwrap();
    // The header: weights can have any value.
    let (header, weights) = whole.split_at(7000.min(whole.len()));
    let corpus = [header.to_vec()];
    let mut refused = 0;
    mutation::each(&corpus, 400, |header| {
        std::fs::write(&path, [header, weights].concat()).unwrap();
        refused += usize::from(try_export(&path).is_err());
    });
    assert!(refused > 100, "{refused}");
}
