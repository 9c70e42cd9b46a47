//! The prompts to tune on: read, checked and cleaned before anything runs.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use decode::Message;
use engine::Model;

use crate::{
    Error,
    eval::{Example, example::questions_digest},
};

/// Fewer prompts cannot be split into those that are learnt from, tuned with and judged on.
pub const FEWEST: usize = 12;

#[derive(Clone, Debug)]
pub struct Prompts {
    pub examples: Vec<Example>,
    /// What was left out, and why, for people.
    pub left_out: Vec<String>,
}

impl Prompts {
    /// Reads files of JSON lines. A line that is no prompt is an error, which names it; a prompt that
    /// was there before is left out.
    pub fn read(paths: &[PathBuf], limit: Option<usize>) -> Result<Self, Error> {
        let mut examples = vec![];
        for path in paths {
            examples.extend(Example::read(path)?);
        }
        let all = examples.len();
        let mut seen = HashSet::new();
        examples.retain(|example| seen.insert(example.prompt().trim().to_owned()));
        let mut left_out = vec![];
        if examples.len() < all {
            left_out.push(format!("duplicates of other prompts ({})", all - examples.len()));
        }
        examples.truncate(limit.unwrap_or(usize::MAX));
        name_apart(&mut examples);
        Ok(Self { examples, left_out })
    }

    /// Leaves out what does not fit the small model's context with an answer of this length.
    pub fn fitting(self, edge: &Model, system: &str, answer: usize) -> Result<Self, Error> {
        let Self { examples, mut left_out } = self;
        let (mut fitting, mut longest) = (vec![], None);
        for example in examples {
            let messages = [Message::system(system), Message::user(example.prompt())];
            let tokens = edge.vocabulary().prompt(&messages)?.len();
            if tokens + answer < edge.context() {
                fitting.push(example);
            } else {
                let place = example.id;
                left_out.push(format!("{place} has {tokens} tokens and does not fit --context"));
                longest = longest.max(Some(tokens));
            }
        }
        if fitting.len() < FEWEST {
            let raise = match longest {
                Some(tokens) => format!(" (the longest has {tokens} tokens: raise --context)"),
                None => String::new(),
            };
            return Err(Error::usage(format!(
                "{} different prompts are left, and tuning needs at least {FEWEST}: give more{raise}",
                fitting.len()
            )));
        }
        Ok(Self { examples: fitting, left_out })
    }

    /// Names all of them.
    pub fn digest(&self) -> String {
        questions_digest(&self.examples)
    }
}

/// Gives each an id of its own, because results are kept by id. A number that is added may make the id of
/// another, so that one is passed over.
fn name_apart(examples: &mut [Example]) {
    let mut taken = HashSet::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    for example in examples {
        let times = times.entry(example.id.clone()).or_default();
        let mut id = example.id.clone();
        loop {
            *times += 1;
            if *times > 1 {
                id = format!("{} ({times})", example.id);
            }
            if taken.insert(id.clone()) {
                break;
            }
        }
        example.id = id;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<Prompts, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.jsonl");
        fs::write(&path, text).unwrap();
        Prompts::read(&[path], None)
    }

    #[test]
    fn what_is_there_twice_is_read_once() {
        let read = read(
            "{\"prompt\": \"One?\", \"id\": \"a\"}\n{\"prompt\": \" One? \"}\n\n\
             {\"prompt\": \"Two?\", \"id\": \"a\"}\n",
        )
        .unwrap();
        let ids: Vec<_> = read.examples.iter().map(|e| e.id.as_str()).collect();
        assert_eq!(ids, ["a", "a (2)"]);
        assert_eq!(read.left_out, ["duplicates of other prompts (1)"]);
    }

    #[test]
    fn no_id_is_given_twice() {
        let line = |(number, id): (usize, &str)| {
            format!("{{\"prompt\": \"{number}?\", \"id\": \"{id}\"}}\n")
        };
        let lines = ["a", "a", "a (2)", "a", "a (2)"].into_iter().enumerate().map(line);
        let read = read(&lines.collect::<String>()).unwrap();
        let ids: Vec<_> = read.examples.iter().map(|e| e.id.as_str()).collect();
        assert_eq!(ids, ["a", "a (2)", "a (2) (2)", "a (3)", "a (2) (3)"]);
    }

    #[test]
    fn a_line_that_is_no_prompt_is_named() {
        for (text, says) in [
            ("{\"prompt\": \"One?\"}\nTwo?\n", "mine.jsonl line 2"),
            ("{\"prompt\": \"  \"}\n", "line 1"),
            ("{\"text\": \"x\"}\n", "no question, problem or prompt"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn other_prompts_have_another_digest() {
        let digest = |text: &str| read(text).unwrap().digest();
        let (one, two) = (digest("{\"prompt\": \"One?\"}"), digest("{\"prompt\": \"Two?\"}"));
        assert_eq!(one, digest("{\"prompt\": \"One?\"}"));
        assert_ne!(one, two);
    }
}
