//! `tandem rm`: what was pulled goes, what was not stays.

use std::fs;

use super::{
    REPO,
    machine::files,
    onnx, published,
    server::{Fault, fake_gguf},
};

#[test]
fn a_model_goes_and_the_others_stay() {
    let machine = published();
    machine.pulled("hf:test/tiny-GGUF:Q4_K_M");
    machine.pulled("hf:test/tiny-GGUF:Q8_0");
    // Two were pulled, so one must be named.
    let done = machine.run(&["rm", "hf:test/tiny-GGUF"]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.err.contains("tiny-Q8_0.gguf") && done.err.contains("tiny-Q4_K_M.gguf"),
        "{}",
        done.err
    );
    let done = machine.run(&["rm", "hf:test/tiny-GGUF:q8_0"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("tiny-Q8_0.gguf: 500.00 kB freed"), "{}", done.err);
    assert!(!machine.snapshot(REPO, "tiny-Q8_0.gguf").is_symlink());
    assert!(machine.snapshot(REPO, "tiny-Q4_K_M.gguf").exists());

    let done = machine.run(&["rm", "hf:test/tiny-GGUF"]);
    assert!(done.err.contains("300.00 kB freed"), "{}", done.err);
    // Nothing of the repository is left, and it can be pulled again.
    assert_eq!(files(&machine.cache()), Vec::<String>::new());
    let done = machine.run(&["rm", "hf:test/tiny-GGUF"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("tandem pulled no hf:test/tiny-GGUF"), "{}", done.err);
    machine.pulled("hf:test/tiny-GGUF");
}

#[test]
fn files_of_other_programs_stay() {
    let machine = published();
    machine.fill_cache(REPO, "tiny-Q8_0.gguf", &fake_gguf(8, 500_000));
    machine.pulled("hf:test/tiny-GGUF:Q4_K_M");
    let done = machine.run(&["rm", "hf:test/tiny-GGUF:Q8_0"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("another program downloaded it"), "{}", done.err);
    assert_eq!(machine.run(&["rm", "hf:test/tiny-GGUF"]).code, Some(0));
    let left = files(&machine.cache());
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(machine.snapshot(REPO, "tiny-Q8_0.gguf").exists());
}

#[test]
fn what_an_interrupted_pull_left_goes_too() {
    let machine = published();
    machine.hub.fault(Fault::Cut(100_000));
    machine.refused("hf:test/tiny-GGUF", &[]);
    let done = machine.run(&["rm", "hf:test/tiny-GGUF"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("100.00 kB freed"), "{}", done.err);
    assert_eq!(files(&machine.cache()), Vec::<String>::new());
}

#[test]
fn files_that_two_models_share_stay_until_the_last_goes() {
    let machine = onnx::published();
    machine.pulled("hf:test/onnx");
    // Another graph of the same repository, with the same tokenizer.
    let done = machine.pull("hf:test/onnx:fp16");
    assert!(done.err.contains("onnx/model_fp16.onnx cannot be used"), "{}", done.err);
    let done = machine.run(&["rm", "hf:test/onnx:onnx/model.onnx"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(machine.snapshot("test/onnx", "tokenizer.json").exists());
    assert!(!machine.snapshot("test/onnx", "onnx/model.onnx").exists());
    assert_eq!(machine.run(&["rm", "hf:test/onnx"]).code, Some(0));
    assert_eq!(files(&machine.cache().join("models--test--onnx")), Vec::<String>::new());
}

#[test]
fn a_model_of_the_catalog_goes_and_unknown_names_are_refused() {
    let machine = published();
    let home = machine.path("home");
    fs::create_dir_all(home.join("models")).unwrap();
    fs::create_dir_all(home.join("partial")).unwrap();
    fs::write(home.join("models/smollm2-135m-instruct-q4_1.gguf"), vec![0; 2000]).unwrap();
    fs::write(home.join("partial/smollm2-135m-instruct-q4_1.gguf"), vec![0; 1000]).unwrap();
    fs::write(home.join("models/mine.gguf"), "mine").unwrap();
    let rm = |name: &str| machine.run(&["rm", name]);
    let done = rm("smollm2-135m-instruct");
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("removed smollm2-135m-instruct: 3.00 kB freed"), "{}", done.err);
    for (name, words) in [
        ("smollm2-135m-instruct", "is not here"),
        ("onnxruntime", "is not here"),
        ("mine.gguf", "a file of your own"),
        ("nothing", "`tandem pull --list` lists the models here"),
        (env!("CARGO_MANIFEST_DIR"), "a file of your own"),
    ] {
        let done = rm(name);
        assert_eq!(done.code, Some(1), "{name}");
        assert!(done.err.contains(words), "{}", done.err);
    }
    assert_eq!(files(&home.join("models")), ["mine.gguf"]);
}
