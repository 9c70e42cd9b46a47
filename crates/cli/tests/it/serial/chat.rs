//! `tandem chat`, driven through a pipe.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use serde_json::Value;

use crate::common::{SMALL, interrupt, run_with_input, tandem};

#[test]
fn a_conversation_with_commands() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("chat.json");
    let file = saved.display();
    let lines = format!(
        "What is the capital of France?\nAnd of \\\nItaly?\n/save {file}\n/mode small\n/threshold 7\n\
         /nonsense\n/help\n/reset\nAnd of Italy?\n/load {file}\n/quit\nnever read\n"
    );
    let arguments = ["chat", "--max-tokens", "30", "--cloud-model", SMALL, "--threshold", "0.5"];
    let done = run_with_input(&[&arguments[..], &["--json"]].concat(), lines.as_bytes());
    let kept: Value = serde_json::from_slice(&std::fs::read(&saved).unwrap()).unwrap();
    assert_eq!(kept["messages"].as_array().unwrap().len(), 4, "{kept}");
    assert_eq!(kept["messages"][2]["content"], "And of \nItaly?");
    assert!(done.err.contains("4 messages from"), "{}", done.err);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let answers: Vec<Value> =
        done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [first, second, third] = &answers[..] else { panic!("{}", done.out) };
    let count = |answer: &Value, name: &str| answer["stats"][name].as_u64().unwrap();
    let prompt = |answer| count(answer, "edge_prefilled") + count(answer, "edge_cached");
    // The second question comes with the first and its answer; behind /reset it is alone.
    assert!(prompt(second) > prompt(first) + count(first, "tokens"), "the history is lost");
    assert!(prompt(third) < prompt(first), "the history is still there");
    assert_eq!(done.err.matches("tokens/s").count(), 3, "{}", done.err);
    assert!(done.err.contains("the threshold must be a number"), "{}", done.err);
    assert!(done.err.contains("there is no command /nonsense"), "{}", done.err);
    assert!(done.err.contains("/model small|joint|large|verify "), "{}", done.err);
    assert!(!done.out.contains("never read"));
}

#[test]
fn ctrl_c_stops_the_answer_and_not_the_program() {
    let mut child = tandem(&["chat", "--mode", "small", "--max-tokens", "3000"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    writeln!(input, "Write a very long story.").unwrap();
    let mut some = [0; 10];
    out.read_exact(&mut some).unwrap();
    interrupt(&child);
    let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut summary = || err.find(|l| l.as_ref().unwrap().contains("tokens/s")).unwrap().unwrap();
    let first = summary();
    assert!(first.contains("cancelled"), "{first}");
    writeln!(input, "What is the capital of France?\n/quit").unwrap();
    drop(input);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let second = summary();
    assert!(!second.contains("cancelled") && !second.contains("[0 tokens"), "{second}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
