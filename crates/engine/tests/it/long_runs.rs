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

/// What this process has held at most, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

/// As large as the body of a request may be: as a whole it would take hundreds of megabytes.
#[test]
fn a_long_text_is_read_in_pieces_by_every_kind_of_vocabulary() {
    if child::argument().is_some() {
        return read_a_long_text();
    }
    let test = "long_runs::a_long_text_is_read_in_pieces_by_every_kind_of_vocabulary";
    let output = child::run(test, "yes");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

fn read_a_long_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spm.gguf");
    gguf::sentence_piece(&path);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options = LoadOptions::new(&path, 256, 1);
    let model = runtime.block_on(Model::load(&Compute::start().unwrap(), options)).unwrap();
    let vocabulary = model.vocabulary();
    let short = vocabulary.raw_prompt("ab ba").unwrap();
    let [start, first, second] = short[..] else { panic!("{short:?}") };
    let before = peak();
    let pairs = (4 << 20) / 6;
    let tokens = vocabulary.raw_prompt(&"ab ba ".repeat(pairs)).unwrap();
    let taken = peak() - before;
    // A beginning, every word with the space before it, and the space at the end: nothing shows where it
    // was cut.
    assert_eq!(tokens.len(), 2 * pairs + 2);
    assert_eq!(tokens[0], start);
    assert!(tokens[1..=2 * pairs].chunks(2).all(|pair| pair == [first, second]));
    assert!(taken < 96, "{taken} MiB for 4 MiB of text");
    // A word without end is cut too, and gets no spaces for it.
    let run = vocabulary.raw_prompt(&"a".repeat(100_000)).unwrap();
    let spelled: usize = run.iter().map(|&token| vocabulary.piece(token).len()).sum();
    assert_eq!(spelled, 100_001);
}
