//! ONNX repositories: the graph, its weights in other files, and what is read beside it.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use super::{
    machine::{Machine, files},
    server::{COMMIT, Hub},
};
use crate::common::sha256;

fn tiny(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/onnx_models");
    fs::read(PathBuf::from(folder).join(name)).unwrap()
}

/// A model as the hub's exporters lay it out: graphs below, the rest above.
pub fn published() -> Machine {
    let beside = ["tokenizer.json", "tokenizer_config.json", "config.json", "chat_template.jinja"];
    let beside: Vec<_> = beside.iter().map(|name| (*name, tiny(name))).collect();
    let (graph, data) = (tiny("external/model.onnx"), tiny("external/model.onnx.data"));
    let mut all: Vec<(&str, &[u8])> = beside.iter().map(|(n, b)| (*n, b.as_slice())).collect();
    all.extend([
        ("README.md", b"# tiny".as_slice()),
        ("pytorch_model.bin", b"not needed"),
        ("onnx/model.onnx", &graph),
        ("onnx/model.onnx.data", &data),
        ("onnx/model_fp16.onnx", b"another"),
    ]);
    let other = tiny("growing/model.onnx");
    let genai = br#"{"model": {"decoder": {"filename": "decoder.onnx"}}}"#;
    let tokenizer = tiny("tokenizer.json");
    let built: [(&str, &[u8]); 4] = [
        ("cpu/int4/genai_config.json", genai),
        ("cpu/int4/decoder.onnx", &other),
        ("cpu/int4/tokenizer.json", &tokenizer),
        ("gpu/model.onnx", &other),
    ];
    let torn: [(&str, &[u8]); 2] = [("model.onnx", &graph), ("tokenizer.json", &tokenizer)];
    let hub = Hub::start().with("test/onnx", &all).with("test/genai", &built);
    Machine::new(hub.with("test/torn", &torn))
}

fn names(machine: &Machine, repo: &str) -> Vec<String> {
    files(&machine.snapshot(repo, ""))
}

#[test]
fn a_graph_comes_with_its_weights_and_tokenizer_and_nothing_else() {
    let machine = published();
    machine.pulled("hf:test/onnx");
    let expected = [
        "chat_template.jinja",
        "config.json",
        "onnx/model.onnx",
        "onnx/model.onnx.data",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    assert_eq!(names(&machine, "test/onnx"), expected);
    let link = machine.snapshot("test/onnx", "onnx/model.onnx.data");
    // Not a link: ONNX Runtime would refuse it.
    assert!(!link.is_symlink());
    let data = tiny("external/model.onnx.data");
    assert_eq!(fs::metadata(&link).unwrap().ino(), blob(&machine, &data));
    assert_eq!(fs::read(link).unwrap(), data);
    let graph = fs::read_link(machine.snapshot("test/onnx", "onnx/model.onnx")).unwrap();
    assert!(graph.starts_with("../../../blobs"), "{graph:?}");
    let listed = machine.run(&["pull", "--list"]);
    assert!(listed.out.contains("hf:test/onnx:onnx/model.onnx"), "{}", listed.out);
}

fn blob(machine: &Machine, bytes: &[u8]) -> u64 {
    fs::metadata(machine.blob("test/onnx", &sha256(bytes))).unwrap().ino()
}

#[test]
fn a_model_of_another_program_is_made_usable_without_fetching_it_again() {
    let machine = published();
    for (path, file) in [
        ("onnx/model.onnx", "external/model.onnx"),
        ("onnx/model.onnx.data", "external/model.onnx.data"),
        ("tokenizer.json", "tokenizer.json"),
    ] {
        machine.fill_cache("test/onnx", path, &tiny(file));
    }
    let done = machine.run(&["run", "a", "--mode", "small", "--edge-model", "hf:test/onnx"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("`tandem pull hf:test/onnx`"), "{}", done.err);
    assert!(done.err.contains("its weights are links"), "{}", done.err);
    machine.pulled("hf:test/onnx");
    assert_eq!(machine.hub.take_log().1, 0);
    let data = machine.snapshot("test/onnx", "onnx/model.onnx.data");
    assert!(data.exists() && !data.is_symlink());
}

#[test]
fn a_folder_of_onnxruntime_genai_names_its_own_graph() {
    let machine = published();
    let done = machine.pull("hf:test/genai");
    assert!(done.err.contains("cpu/int4/decoder.onnx"), "{}", done.err);
    machine.pulled("hf:test/genai:cpu/int4");
    let expected =
        ["cpu/int4/decoder.onnx", "cpu/int4/genai_config.json", "cpu/int4/tokenizer.json"];
    assert_eq!(names(&machine, "test/genai"), expected);
    let done = machine.run(&["rm", "hf:test/genai:cpu/int4"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(names(&machine, "test/genai").is_empty());
}

#[test]
fn weights_that_the_hub_does_not_have_are_named() {
    let machine = published();
    let done = machine.pull("hf:test/torn");
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("model.onnx.data, which the hub does not have"), "{}", done.err);
    assert!(!machine.cache().join(format!("models--test--torn/snapshots/{COMMIT}")).exists());
}
