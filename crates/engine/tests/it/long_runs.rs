//! A run of one character without end: llama.cpp's regular expressions recurse once a character.

use decode::Vocabulary;
use tandem_engine::{Compute, LoadOptions, Model};

use crate::{child, gguf};

/// Each splits a text in another way.
const KINDS: [&str; 16] = [
    "default",
    "gpt-2",
    "llama-bpe",
    "qwen2",
    "gpt-4o",
    "tekken",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "falcon",
    "poro-chat",
    "chameleon",
    "superbpe",
    "bailingmoe",
    "exaone-moe",
    "seed-coder",
];

/// Far more than a thread's usual stack is good for, and more than one piece.
const RUN: usize = 20_000;

#[test]
fn no_run_of_characters_ends_the_process() {
    if child::argument().is_some() {
        return tokenize_runs();
    }
    let output = child::run("long_runs::no_run_of_characters_ends_the_process", "yes");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

fn tokenize_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let compute = Compute::start().unwrap();
    for kind in KINDS {
        let path = folder.path().join(format!("{kind}.gguf"));
        gguf::model(&path, kind);
        let options = LoadOptions::new(&path, 256, 1);
        let model = runtime.block_on(Model::load(&compute, options)).unwrap();
        for run in ["a", "A", "7", "!", " ", "\n", "é", "中"] {
            let started = std::time::Instant::now();
            let tokens = model.vocabulary().raw_prompt(&run.repeat(RUN)).unwrap();
            // One may be the beginning of a text.
            let piece = |&token| model.vocabulary().piece(token).len();
            let spelled: usize = tokens.iter().map(piece).sum();
            assert!(spelled.abs_diff(run.len() * RUN) <= 1, "{kind} {run:?}: {spelled}");
            eprintln!("{kind} {run:?}: {} tokens in {:?}", tokens.len(), started.elapsed());
        }
    }
}
