//! The program without the workshop says so where a command of the workshop is named.
//! `cargo test --package tandem-cli --no-default-features --test no_lab`
#![cfg(not(feature = "lab"))]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::process::{Command, Output};

fn tandem(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tandem")).args(arguments).output().unwrap()
}

#[test]
fn commands_of_the_workshop_are_refused_by_name() {
    let commands: [&[&str]; 10] = [
        &["eval", "builtin", "--budget", "7%"],
        &["report", "results.jsonl"],
        &["tune", "--prompts", "p.jsonl", "-o", "mine"],
        &["router", "train", "samples", "-o", "router.safetensors"],
        &["router", "--help"],
        &["onnx", "export", "-o", "folder"],
        &["bench", "agree"],
        &["bench", "budget", "--prompts", "p.jsonl"],
        &["bench", "network"],
        &["bench", "original", "--tokens", "8"],
    ];
    for command in commands {
        let output = tandem(command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("this build has no workshop"), "{command:?}: {said}");
        assert!(said.contains(&format!("`tandem {}", command[0])), "{command:?}: {said}");
    }
}

#[test]
fn the_help_lists_only_what_is_here() {
    let help = String::from_utf8(tandem(&["--help"]).stdout).unwrap();
    assert!(help.contains("  run ") && help.contains("  serve "), "{help}");
    for absent in ["  eval ", "  report ", "  router ", "  tune "] {
        assert!(!help.contains(absent), "{absent}: {help}");
    }
    // A typing mistake is still told as one.
    let mistyped = String::from_utf8(tandem(&["evla"]).stderr).unwrap();
    assert!(mistyped.contains("unrecognized subcommand"), "{mistyped}");
}
