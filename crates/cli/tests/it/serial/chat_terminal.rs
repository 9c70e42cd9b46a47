//! `tandem chat` in a terminal: keys, colours, signals. What needs none of them is in `chat.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{os::unix::fs::symlink, path::Path, process::Command};

use models::{Environment, Home};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{
    SMALL, run_with_input, tandem,
    terminal::{CTRL_C, CTRL_D, Terminal, UP},
};

const QUESTION: &str = "What is the capital of France?";
/// The colour of the cloud's words.
const CLOUD: &str = "\x1b[36m";
const ALL_FROM_THE_CLOUD: &[&str] =
    &["chat", "--max-tokens", "12", "--cloud-model", SMALL, "--threshold", "1"];

/// A folder with the models of this machine and a history of its own.
fn home() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let models = Home::find(Environment::read()).unwrap().models();
    symlink(models, folder.path().join("models")).unwrap();
    folder
}

fn chat(home: &TempDir, arguments: &[&str]) -> Command {
    let mut command = tandem(arguments);
    command.env("TANDEM_HOME", home.path());
    command
}

/// Asks, and gives what appears from the question on to the end of the status line.
fn ask(terminal: &mut Terminal, question: &str) -> String {
    terminal.line(question);
    let answer = terminal.wait_for("tokens/s");
    answer + &terminal.prompt("> ")
}

fn command(terminal: &mut Terminal, line: &str) -> String {
    terminal.line(line);
    terminal.prompt("> ")
}

fn saved(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn questions(saved: &Value) -> Vec<&str> {
    let messages = saved["messages"].as_array().unwrap();
    let asked = messages.iter().filter(|message| message["role"] == "user");
    asked.map(|message| message["content"].as_str().unwrap()).collect()
}

#[test]
fn a_person_edits_lines_gives_commands_and_leaves() {
    let home = home();
    let file = home.path().join("chat.json");
    let mut terminal = Terminal::start(&chat(&home, ALL_FROM_THE_CLOUD));
    terminal.prompt("> ");
    let answer = ask(&mut terminal, QUESTION);
    assert!(answer.contains(CLOUD), "the cloud's words have no colour: {answer:?}");
    assert!(answer.contains("100.0 % from the cloud"), "{answer:?}");

    // The line before comes back and can be changed.
    terminal.press(UP);
    terminal.wait_for(QUESTION);
    ask(&mut terminal, " Be brief.");
    // Several lines are one question; the second mark asks for more.
    terminal.line("\"\"\"one");
    terminal.prompt("… ");
    ask(&mut terminal, "two\"\"\"");
    // Ctrl-C takes back what is not sent yet, and the chat goes on.
    terminal.press("never sent");
    terminal.press(CTRL_C);
    terminal.prompt("> ");
    terminal.line("\"\"\"never sent");
    terminal.prompt("… ");
    terminal.press(CTRL_C);
    terminal.prompt("> ");

    command(&mut terminal, "/budget 50%");
    command(&mut terminal, "/system Say only yes.");
    let answer = ask(&mut terminal, "Is snow white?");
    assert!(answer.contains("budget 50%"), "the status line does not tell: {answer:?}");
    let said = command(&mut terminal, &format!("/save {}", file.display()));
    assert!(said.contains("saved to"), "{said:?}");
    let kept = saved(&file);
    let brief = format!("{QUESTION} Be brief.");
    assert_eq!(questions(&kept), [QUESTION, &brief, "one\ntwo", "Is snow white?"]);
    assert_eq!(kept["system"], "Say only yes.");
    terminal.press(CTRL_D);
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen:?}");

    // Another chat knows the lines of this one, and goes on with what was saved.
    let mut terminal = Terminal::start(&chat(&home, ALL_FROM_THE_CLOUD));
    terminal.prompt("> ");
    terminal.press(UP);
    terminal.wait_for("/save");
    terminal.press(UP);
    terminal.wait_for("Is snow white?");
    terminal.press(CTRL_C);
    terminal.prompt("> ");
    let said = command(&mut terminal, &format!("/load {}", file.display()));
    assert!(said.contains("8 messages from"), "{said:?}");
    ask(&mut terminal, "And coal?");
    command(&mut terminal, &format!("/save {}", file.display()));
    let kept = saved(&file);
    assert_eq!(questions(&kept).last(), Some(&"And coal?"));
    assert_eq!(kept["messages"].as_array().unwrap().len(), 10);
    assert_eq!(kept["system"], "Say only yes.");
    command(&mut terminal, "/system");
    terminal.line("/quit");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn ctrl_c_at_the_keyboard_stops_the_answer_and_keeps_the_chat() {
    let home = home();
    let long = ["chat", "--mode", "small", "--max-tokens", "3000", "--context", "4096"];
    let mut terminal = Terminal::start(&chat(&home, &long));
    terminal.prompt("> ");
    terminal.line("Write a very long story.");
    terminal.wait_for("\n");
    terminal.wait_for_more(20);
    terminal.press(CTRL_C);
    terminal.wait_for("cancelled");
    terminal.prompt("> ");
    let answer = ask(&mut terminal, QUESTION);
    assert!(!answer.contains("cancelled") && !answer.contains("[0 tokens"), "{answer:?}");
    assert!(!answer.contains(CLOUD), "no word came from the cloud: {answer:?}");
    terminal.press(CTRL_D);
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen:?}");
}

#[test]
fn colour_is_for_terminals_whose_owner_wants_it() {
    let home = home();
    let mut refused = chat(&home, ALL_FROM_THE_CLOUD);
    refused.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(&refused);
    terminal.prompt("> ");
    let answer = ask(&mut terminal, QUESTION);
    assert!(answer.contains("100.0 % from the cloud") && !answer.contains(CLOUD), "{answer:?}");
    terminal.line("/quit");
    assert_eq!(terminal.end().0, Some(0));

    let piped = run_with_input(ALL_FROM_THE_CLOUD, format!("{QUESTION}\n").as_bytes());
    assert_eq!(piped.code, Some(0), "{}", piped.err);
    assert!(piped.err.contains("100.0 % from the cloud"), "{}", piped.err);
    assert!(!piped.out.trim().is_empty(), "{}", piped.err);
    assert!(!piped.out.contains('\x1b') && !piped.err.contains('\x1b'), "{piped:?}");
}
