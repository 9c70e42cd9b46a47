//! GGUF files, as a model or as a LoRA adapter of a good one: the header that is read before a model is loaded,
//! and the export to ONNX, which checks both. What llama.cpp itself reads is tried in processes of their own
//! (`crates/engine/tests/it/damage.rs`): where it cannot go on it ends the process with a line, which libFuzzer
//! would take for a finding. The first byte says what the file is.
#![no_main]

#[path = "../../crates/engine/tests/it/gguf/mod.rs"]
mod gguf;

use std::{fs, path::PathBuf, sync::OnceLock};

use lab::export::{Export, Lora, Weights, export};
use libfuzzer_sys::fuzz_target;

fn good() -> &'static PathBuf {
    static GOOD: OnceLock<PathBuf> = OnceLock::new();
    GOOD.get_or_init(|| {
        let path = fuzz::folder().join("good.gguf");
        gguf::model(&path, "smollm");
        path
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let path = fuzz::file("fuzz.gguf", bytes);
    let layers = engine::fuzzing::layers(&path, 8 << 30);
    assert!(layers.is_none_or(|layers| layers <= 8 << 30));
    let weights = match kind % 4 {
        0 => Weights::Int8,
        1 => Weights::Int4,
        2 => Weights::Fp16,
        _ => Weights::Fp32,
    };
    let (model, adapters) = match kind.wrapping_sub(b'0') % 8 {
        0..4 => (path, vec![]),
        _ => (good().clone(), vec![Lora { path, scale: 0.5 }]),
    };
    let out = fuzz::folder().join("exported");
    if export(&Export { model, adapters, weights, force: true }, &out).is_ok() {
        assert!(out.join("model.onnx").exists());
        fs::remove_dir_all(out).expect("a folder of ours");
    } else {
        // Nothing half-made is left where an export would be.
        assert!(!out.exists());
    }
});
