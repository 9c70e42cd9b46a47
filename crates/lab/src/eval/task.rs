//! The tasks by name.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A task: the shape of its file, how it is put, how answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskName {
    /// Common sense, multiple choice.
    CommonsenseQa,
    /// School science, multiple choice.
    Arc,
    Mmlu,
    /// Sums in words; the answer is a number.
    Gsm8k,
    /// Mathematics; the answer is a number or a formula.
    Math,
    /// Functions to write; an answer is right if it passes their tests.
    HumanEval,
    /// Prompts of any kind, with an answer and how to compare it.
    Jsonl,
    /// Prompts of any kind; no answer is right or wrong.
    Text,
    /// The questions that come with the program.
    Builtin,
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "no task is called {0:?}; there are commonsenseqa, arc, mmlu, gsm8k, math, humaneval, jsonl, text \
     and builtin"
)]
pub struct UnknownTask(pub String);

impl TaskName {
    /// All of them, in the order in which help texts list them.
    pub const fn all() -> [Self; 9] {
        use TaskName::*;
        [CommonsenseQa, Arc, Mmlu, Gsm8k, Math, HumanEval, Jsonl, Text, Builtin]
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::CommonsenseQa => "commonsenseqa",
            Self::Arc => "arc",
            Self::Mmlu => "mmlu",
            Self::Gsm8k => "gsm8k",
            Self::Math => "math",
            Self::HumanEval => "humaneval",
            Self::Jsonl => "jsonl",
            Self::Text => "text",
            Self::Builtin => "builtin",
        }
    }

    /// How long its answers may be if the user does not say: sums are worked out step by step.
    pub const fn max_tokens(self) -> usize {
        match self {
            Self::Gsm8k | Self::Math => 1024,
            Self::HumanEval => 512,
            _ => 160,
        }
    }

    /// What a line of its file holds.
    pub const fn wanted(self) -> &'static str {
        match self {
            Self::CommonsenseQa | Self::Arc | Self::Mmlu | Self::Builtin => {
                "a JSON object with question, choices {label, text} and answerKey, or a line as it \
                 was published"
            }
            Self::Gsm8k => {
                "a JSON object with problem and answer, a number, or with question and an answer that \
                 ends in #### and the number"
            }
            Self::Math => {
                "a JSON object with problem and answer, or a solution with the answer in \\boxed{}"
            }
            Self::HumanEval => "a JSON object with prompt, test and entry_point",
            Self::Jsonl => {
                "a JSON object with prompt, answer (or a list of them) and compare: exact, choice, \
                 number, contains or regex"
            }
            Self::Text => "a JSON object with prompt",
        }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TaskName {
    type Err = UnknownTask;

    fn from_str(name: &str) -> Result<Self, UnknownTask> {
        let found = Self::all().into_iter().find(|task| task.name() == name);
        found.ok_or_else(|| UnknownTask(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for task in TaskName::all() {
            assert_eq!(task.to_string().parse(), Ok(task));
            // The message of a wrong name lists every right one.
            assert!(UnknownTask("x".into()).to_string().contains(task.name()));
        }
        assert_eq!("ARC".parse::<TaskName>(), Err(UnknownTask("ARC".into())));
    }
}
