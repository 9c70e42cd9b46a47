//! Every number of the command line has a range, and the message says which.

use clap::{Arg, Command, CommandFactory};

use super::Args;

/// Larger than any number that somebody means.
const HUGE: &str = "99999999999999999999";

/// Numbers of which every one is meant: the same seed gives the same text.
const ANY: [&str; 1] = ["seed"];

/// What a command says of an option with this value. What else it misses is not looked at before.
fn said(path: &str, argument: &Arg, value: &str) -> String {
    let option = format!("--{}={value}", argument.get_long().unwrap_or_default());
    let words = path.split_whitespace().chain([option.as_str()]);
    let read = Args::command().try_get_matches_from(words);
    read.map_or_else(|error| error.to_string(), |_| String::new())
}

fn takes_whole_numbers(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| ["N", "N,…", "K"].contains(&name.as_str()))
}

/// Every command with its arguments, those inside of others too.
fn each(command: &Command, path: &str, visit: &mut impl FnMut(&str, &Arg)) {
    let path = format!("{path} {}", command.get_name());
    command.get_arguments().for_each(|argument| visit(&path, argument));
    command.get_subcommands().for_each(|inner| each(inner, &path, visit));
}

#[test]
fn no_whole_number_is_without_a_range() {
    let mut tried = 0;
    each(&Args::command(), "", &mut |path, argument| {
        if takes_whole_numbers(argument) && !ANY.contains(&argument.get_id().as_str()) {
            let said = said(path, argument, HUGE);
            assert!(
                said.contains("a whole number from "),
                "{path} --{}: {said}",
                argument.get_id()
            );
            tried += 1;
        }
    });
    assert!(tried > 40, "only {tried} numbers were tried");
}

#[test]
fn ranges_are_those_that_make_sense() {
    let mut tried = 0;
    let cases = [
        ("serve", "parallel", "257", "from 1 to 256"),
        ("serve", "queue", "100001", "from 0 to 100000"),
        ("cloud", "sessions", "0", "from 1 to 256"),
        ("run", "context", "0", "from 1 to 1048576"),
        ("run", "threads", "1025", "from 1 to 1024"),
        ("run", "top_k", "1000001", "from 0 to 1000000"),
        ("run", "asks_in_flight", "17", "from 0 to 16"),
        ("run", "edge_adapter", "a.gguf:1e9", "from -100 to 100"),
        ("run", "cloud_adapter", "a.gguf:NaN", "from -100 to 100"),
        #[cfg(feature = "lab")]
        ("tune", "parallel", "257", "from 1 to 256"),
        #[cfg(feature = "lab")]
        ("train", "learning_rate", "0", "above 0 and of at most 1"),
        #[cfg(feature = "lab")]
        ("train", "learning_rate", "2", "above 0 and of at most 1"),
        #[cfg(feature = "lab")]
        ("train", "learning_rate", "inf", "above 0 and of at most 1"),
        #[cfg(feature = "lab")]
        ("budget", "skip", "1000001", "from 0 to 1000000"),
        ("serve", "chats", "257", "from 1 to 256"),
    ];
    each(&Args::command(), "", &mut |path, argument| {
        for (command, id, value, range) in &cases {
            if path.ends_with(&format!(" {command}")) && argument.get_id() == *id {
                let said = said(path, argument, value);
                assert!(said.contains(range), "{path} --{id} {value}: {said}");
                tried += 1;
            }
        }
    });
    assert!(tried >= cases.len(), "{tried} of {} were tried", cases.len());
}
