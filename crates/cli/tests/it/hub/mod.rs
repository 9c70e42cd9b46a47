//! `tandem pull hf:…` against a hub on loopback.

mod faults;
pub mod machine;
pub mod onnx;
mod remove;
pub mod server;

use std::{fs, process::Command};

use self::{
    machine::Machine,
    server::{Hub, Request, fake_gguf},
};
use crate::common::{Done, sha256};

pub const REPO: &str = "test/tiny-GGUF";

/// A repository as people publish them.
pub fn published() -> Machine {
    let hub = Hub::start().with(
        REPO,
        &[
            ("README.md", b"# tiny"),
            ("tiny-Q8_0.gguf", &fake_gguf(8, 500_000)),
            ("tiny-Q4_K_M.gguf", &fake_gguf(4, 300_000)),
            ("mmproj-tiny-Q4_K_M.gguf", &fake_gguf(1, 1000)),
        ],
    );
    Machine::new(hub)
}

fn fetched(log: &[Request]) -> usize {
    log.iter().filter(|r| r.from_cdn).count()
}

#[test]
fn the_preferred_file_is_pulled_into_the_hubs_cache_and_listed() {
    let machine = published();
    machine.pulled("hf:test/tiny-GGUF");
    let bytes = fake_gguf(4, 300_000);
    // As the hub's own tools lay it out: a link that is relative, a blob, a reference.
    let link = machine.snapshot(REPO, "tiny-Q4_K_M.gguf");
    assert_eq!(
        fs::read_link(&link).unwrap().to_str(),
        Some(&*format!("../../blobs/{}", sha256(&bytes)))
    );
    assert_eq!(fs::read(&link).unwrap(), bytes);
    let reference = machine.cache().join("models--test--tiny-GGUF/refs/main");
    assert_eq!(fs::read_to_string(reference).unwrap(), server::COMMIT);
    let (log, sent) = machine.hub.take_log();
    assert_eq!((fetched(&log), sent), (1, 300_000));

    let listed = machine.run(&["pull", "--list", "--json"]).json();
    let models = listed["models"].as_array().unwrap();
    assert_eq!(models.len(), 1, "{listed}");
    assert_eq!(models[0]["name"], "hf:test/tiny-GGUF:tiny-Q4_K_M.gguf");
    assert_eq!(models[0]["bytes"], 300_000);
    assert_eq!(models[0]["sha256"], sha256(&bytes));
    assert_eq!(models[0]["path"].as_str(), link.to_str());

    // The second time there is nothing to fetch.
    let again = machine.pull("hf:test/tiny-GGUF");
    assert!(again.err.contains("hf:test/tiny-GGUF:tiny-Q4_K_M.gguf is here"), "{}", again.err);
    assert_eq!(fetched(&machine.hub.take_log().0), 0);
}

#[test]
fn a_quantisation_or_a_file_can_be_named() {
    let machine = published();
    machine.pulled("hf:test/tiny-GGUF:q8_0");
    assert!(machine.snapshot(REPO, "tiny-Q8_0.gguf").exists());
    machine.pulled("hf:test/tiny-GGUF:tiny-Q4_K_M.gguf");
    assert!(machine.snapshot(REPO, "tiny-Q4_K_M.gguf").exists());
    let done = machine.pull("hf:test/tiny-GGUF:Q2_K");
    assert_eq!(done.code, Some(1));
    for there in ["has no Q2_K", "tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf"] {
        assert!(done.err.contains(there), "{}", done.err);
    }
    assert!(!done.err.contains("mmproj"), "{}", done.err);
}

#[test]
fn a_model_in_parts_is_pulled_whole_or_refused() {
    let parts: Vec<_> = (1..=3).map(|i| fake_gguf(i, 50_000)).collect();
    let name = |i: usize| format!("Q4_K_M/big-Q4_K_M-{i:05}-of-00003.gguf");
    let names: Vec<_> = (1..=3).map(name).collect();
    let files: Vec<_> = names.iter().zip(&parts).map(|(n, p)| (n.as_str(), p.as_slice())).collect();
    let machine =
        Machine::new(Hub::start().with("test/big", &files).with("test/torn", &files[1..]));
    machine.pulled("hf:test/big");
    for (name, bytes) in &files {
        assert_eq!(fs::read(machine.snapshot("test/big", name)).unwrap(), *bytes);
    }
    let listed = machine.run(&["pull", "--list", "--json"]).json();
    assert_eq!(listed["models"][0]["bytes"], 150_000);
    assert_eq!(
        listed["models"][0]["path"].as_str(),
        machine.snapshot("test/big", &names[0]).to_str()
    );
    let done = machine.pull("hf:test/torn");
    assert!(done.err.contains("only 2 of the 3 parts"), "{}", done.err);
}

#[test]
fn what_is_in_the_users_cache_already_is_used() {
    let machine = published();
    machine.fill_cache(REPO, "tiny-Q4_K_M.gguf", &fake_gguf(4, 300_000));
    machine.pulled("hf:test/tiny-GGUF");
    assert_eq!(fetched(&machine.hub.take_log().0), 0);
    let listed = machine.run(&["pull", "--list"]);
    assert!(listed.out.contains("hf:test/tiny-GGUF:tiny-Q4_K_M.gguf  0 MB"), "{}", listed.out);
    // It is another program's, and stays.
    let done = machine.run(&["rm", "hf:test/tiny-GGUF"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("another program downloaded it"), "{}", done.err);
    assert!(machine.snapshot(REPO, "tiny-Q4_K_M.gguf").exists());
}

#[test]
fn the_caches_place_can_be_set_by_itself() {
    let machine = published();
    let elsewhere = machine.path("elsewhere");
    let mut command = machine.command(&["pull", "hf:test/tiny-GGUF"]);
    let done: Done = command.env("HF_HUB_CACHE", &elsewhere).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(elsewhere.join("models--test--tiny-GGUF/refs/main").exists());
    assert!(!machine.cache().exists());
}

#[test]
fn a_run_fetches_nothing_and_names_the_command_that_would() {
    let machine = published();
    for option in ["--edge-model", "--cloud-model"] {
        let mode = if option == "--edge-model" { "small" } else { "large" };
        let run = ["run", "hi", "--mode", mode, option, "hf:test/tiny-GGUF:Q8_0"];
        let done = machine.run(&run);
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert!(done.err.contains("`tandem pull hf:test/tiny-GGUF:Q8_0`"), "{}", done.err);
    }
    assert!(machine.hub.take_log().0.is_empty());
    let done = machine.run(&["run", "hi", "--edge-model", "hf:nonsense"]);
    assert_eq!(done.code, Some(2), "{}", done.err);
    // The same without any socket: the guard kills a program that opens one.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/no_sockets.py");
    let mut command = machine.guard(Command::new("python3"));
    command.args([script, env!("CARGO_BIN_EXE_tandem"), "run", "hi", "--offline"]);
    let done: Done = command.args(["--edge-model", "hf:test/tiny-GGUF"]).output().unwrap().into();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("`tandem pull hf:test/tiny-GGUF`"), "{}", done.err);
}

#[test]
fn names_that_are_none_are_wrong_usage() {
    let machine = published();
    for name in ["hf:", "hf:gpt2", "hf:a/b/c", "hf:a/b:../../x.gguf", "hf:../b", "something"] {
        let done = machine.pull(name);
        assert_eq!(done.code, Some(2), "{name}: {}", done.err);
        assert!(done.err.contains(name), "{}", done.err);
    }
}
