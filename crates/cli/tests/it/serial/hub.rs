//! Models of a hub on loopback, run by the real engines.

use std::{
    fs,
    process::{Command, Stdio},
};

use models::{Catalog, Environment, Home};

use crate::{
    common::Done,
    hub::{machine::Machine, onnx, server::Hub},
};

fn home() -> Home {
    Home::find(Environment::read()).unwrap()
}

#[test]
fn a_pulled_gguf_model_runs_by_its_name_without_a_socket() {
    let catalog = Catalog::built_in().unwrap();
    let small = home().require(catalog.find("smollm2-135m-instruct").unwrap()).unwrap();
    let bytes = fs::read(&small).unwrap();
    let machine = Machine::new(Hub::start().with("test/smol", &[("smol-Q4_1.gguf", &bytes)]));
    machine.pulled("hf:test/smol");
    let run = ["run", "--mode", "small", "--max-tokens", "4", "--json", "--edge-model"];
    let pulled = machine.run(&[&run[..], &["hf:test/smol", "hi"]].concat()).json();
    let named = machine.run(&[&run[..], &[small.to_str().unwrap(), "hi"]].concat()).json();
    assert_eq!(pulled["tokens"].as_array().unwrap().len(), 4);
    assert_eq!(pulled["text"], named["text"]);
    let cloud = ["run", "--mode", "large", "--max-tokens", "4", "--json", "--cloud-model"];
    let large = machine.run(&[&cloud[..], &["hf:test/smol", "hi"]].concat()).json();
    assert_eq!(large["stats"]["cloud_tokens"], 4, "{large}");

    machine.hub.take_log();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/no_sockets.py");
    let mut command = machine.guard(Command::new("python3"));
    command.args([script, env!("CARGO_BIN_EXE_tandem")]).args(run);
    command.args(["hf:test/smol:Q4_1", "hi", "--offline"]).stdin(Stdio::null());
    let offline = Done::from(command.output().unwrap()).json();
    assert_eq!(offline["text"], pulled["text"]);
    assert!(machine.hub.take_log().0.is_empty());
}

#[test]
fn a_pulled_onnx_model_with_weights_in_another_file_runs_by_its_name() {
    let machine = onnx::published();
    machine.pulled("hf:test/onnx");
    machine.pulled("hf:test/genai:cpu/int4");
    let library = home().library(Catalog::built_in().unwrap().library("onnxruntime").unwrap());
    for name in ["hf:test/onnx", "hf:test/genai:cpu/int4"] {
        let run = ["run", "a", "--mode", "small", "--max-tokens", "2", "--edge-model", name];
        let mut command = machine.command(&run);
        let done: Done = command.env("ORT_DYLIB_PATH", &library).output().unwrap().into();
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
    }
}
