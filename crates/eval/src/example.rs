//! Questions, and worked answers where they are known.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;

use crate::conclusion;

/// How a choice is to be explained, and concluded with.
const CHOICE_FORMAT: &str = "Please format your response in the following way: [Explanation]. \
    Therefore, the answer is answer (label).";
const CHOICE_CONCLUSION: &str = "Therefore, the answer is";
const MATHS_FORMAT: &str =
    "Please reason step by step, and put your final answer within \\boxed{}.";

/// Why a file of examples could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// No such file, or not ours to read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A line that is no example.
    #[error(
        "{} line {line}: {reason}; wanted is a JSON object with question, choices and answerKey, \
         or problem and answer, or prompt and response",
        path.display()
    )]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// One of several choices.
    Choice {
        /// The question.
        question: String,
        /// Labels, as in the file.
        labels: Vec<String>,
        /// What each stands for.
        texts: Vec<String>,
        /// The right label.
        right: String,
    },
    /// A sum with one number for its answer.
    Maths {
        /// The problem.
        problem: String,
        /// The number.
        answer: String,
    },
    /// A prompt of any kind; no answer is right or wrong.
    Plain {
        /// The prompt.
        prompt: String,
    },
}

/// Where a worked answer names its choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worked {
    /// Where the file has it: behind the explanation.
    #[default]
    AsGiven,
    /// Before the explanation, and again in the conclusion.
    AnswerFirst,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The file's name for it, or where it stands.
    pub id: String,
    /// What is asked.
    pub task: Task,
    /// A worked answer, if one is known.
    pub worked: Option<String>,
}

#[derive(Deserialize)]
struct Choices {
    label: Vec<String>,
    text: Vec<String>,
}

/// Any of the shapes a line may have.
#[derive(Deserialize)]
struct Line {
    id: Option<String>,
    question: Option<String>,
    choices: Option<Choices>,
    #[serde(rename = "answerKey")]
    answer_key: Option<String>,
    cot: Option<String>,
    problem: Option<String>,
    solution: Option<String>,
    answer: Option<String>,
    prompt: Option<String>,
    response: Option<String>,
}

impl Example {
    /// Reads a file of JSON lines; empty lines are passed over.
    pub fn read(path: &Path, worked: Worked) -> Result<Vec<Self>, ReadError> {
        let file_error = |source| ReadError::File { path: path.to_owned(), source };
        let file = BufReader::new(File::open(path).map_err(file_error)?);
        let mut examples = vec![];
        for (at, line) in (1..).zip(file.lines()) {
            let line = line.map_err(file_error)?;
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |reason| ReadError::Line { path: path.to_owned(), line: at, reason };
            let line: Line = serde_json::from_str(&line).map_err(|e| wrong(e.to_string()))?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let id = format!("{stem}:{at}");
            examples.push(Self::from_line(line, id, worked).map_err(|r| wrong(r.into()))?);
        }
        Ok(examples)
    }

    fn from_line(line: Line, place: String, style: Worked) -> Result<Self, &'static str> {
        let id = line.id.unwrap_or(place);
        let (task, worked) = if let Some(question) = line.question {
            let choices = line.choices.ok_or("a question without choices")?;
            let right = line.answer_key.ok_or("a question without answerKey")?;
            let at = choices.label.iter().position(|label| *label == right);
            let at = at.ok_or("answerKey is none of the labels")?;
            let choice = choices.text.get(at).ok_or("more labels than texts")?;
            let worked = line.cot.map(|cot| work_out(&cot, choice, &right, style));
            let Choices { label: labels, text: texts } = choices;
            (Task::Choice { question, labels, texts, right }, worked)
        } else if let Some(problem) = line.problem {
            let answer = line.answer.ok_or("a problem without answer")?;
            (Task::Maths { problem, answer }, line.solution)
        } else if let Some(prompt) = line.prompt {
            (Task::Plain { prompt }, line.response)
        } else {
            return Err("no question, problem or prompt");
        };
        Ok(Self { id, task, worked })
    }

    /// What the user says.
    pub fn prompt(&self) -> String {
        match &self.task {
            Task::Choice { question, labels, texts, .. } => {
                let listed: Vec<_> = labels
                    .iter()
                    .zip(texts)
                    .map(|(label, text)| format!("({}) {text}", label.to_lowercase()))
                    .collect();
                let question = question.trim();
                format!("Question: {question}\nChoices:\n{}\n{CHOICE_FORMAT}", listed.join("\n"))
            }
            Task::Maths { problem, .. } => format!("{}\n{MATHS_FORMAT}", problem.trim()),
            Task::Plain { prompt } => prompt.clone(),
        }
    }

    /// What an answer concludes, in the form in which it is compared.
    pub fn conclusion(&self, text: &str) -> Option<String> {
        match &self.task {
            Task::Choice { labels, .. } => conclusion::choice(text, labels),
            Task::Maths { .. } => conclusion::number(text),
            Task::Plain { .. } => None,
        }
    }

    /// The right answer, where there is one.
    pub fn right(&self) -> Option<String> {
        match &self.task {
            Task::Choice { right, .. } => Some(right.clone()),
            Task::Maths { answer, .. } => Some(answer.clone()),
            Task::Plain { .. } => None,
        }
    }

    /// Whether an answer is right; `None` where nothing is.
    pub fn is_right(&self, text: &str) -> Option<bool> {
        let said = self.conclusion(text);
        match &self.task {
            Task::Choice { right, .. } => Some(said.as_ref() == Some(right)),
            Task::Maths { answer, .. } => Some(said == Some(conclusion::normal_number(answer))),
            Task::Plain { .. } => None,
        }
    }
}

fn work_out(cot: &str, choice: &str, label: &str, style: Worked) -> String {
    match style {
        Worked::AsGiven => cot.to_owned(),
        Worked::AnswerFirst => {
            let reasons = cot.rsplit_once(CHOICE_CONCLUSION).map_or(cot, |(reasons, _)| reasons);
            let (reasons, label) = (reasons.trim(), label.to_lowercase());
            format!(
                "The best choice is {choice}. {reasons} {CHOICE_CONCLUSION} {choice} ({label})."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str, worked: Worked) -> Result<Example, &'static str> {
        Example::from_line(serde_json::from_str(line).unwrap(), "f:3".into(), worked)
    }

    const MINES: &str = r#"{"id": "m", "question": " Where are mines? ", "choices": {"label":
        ["A", "B"], "text": ["valley", "mountain"]}, "answerKey": "B", "cot":
        "Mines are dug. Therefore, the answer is mountain (b)."}"#;

    #[test]
    fn a_choice_is_put_and_judged() {
        let example = parse(MINES, Worked::AsGiven).unwrap();
        assert_eq!(
            example.prompt(),
            "Question: Where are mines?\nChoices:\n(a) valley\n(b) mountain\nPlease format your \
             response in the following way: [Explanation]. Therefore, the answer is answer (label)."
        );
        let worked = example.worked.clone().unwrap();
        assert_eq!(worked, "Mines are dug. Therefore, the answer is mountain (b).");
        assert_eq!(example.is_right(&worked), Some(true));
        assert_eq!(example.is_right("The answer is valley (a)."), Some(false));
        assert_eq!(example.is_right("I do not know."), Some(false));
    }

    #[test]
    fn the_answer_may_come_first() {
        let worked = parse(MINES, Worked::AnswerFirst).unwrap().worked.unwrap();
        let whole =
            "The best choice is mountain. Mines are dug. Therefore, the answer is mountain (b).";
        assert_eq!(worked, whole);
    }

    #[test]
    fn maths_and_plain_prompts() {
        let sum = r#"{"problem": "1+1?", "solution": "It is \\boxed{2}.", "answer": "2"}"#;
        let sum = parse(sum, Worked::AsGiven).unwrap();
        assert_eq!((sum.id.as_str(), sum.is_right("\\boxed{2.0}")), ("f:3", Some(true)));
        let plain = parse(r#"{"prompt": "Hi", "response": "Hello."}"#, Worked::AsGiven).unwrap();
        assert_eq!((plain.prompt().as_str(), plain.is_right("x")), ("Hi", None));
    }

    #[test]
    fn what_is_no_example_is_refused() {
        for bad in [
            "{}",
            r#"{"question": "?"}"#,
            r#"{"problem": "?"}"#,
            r#"{"question": "?", "choices": {"label": ["A"], "text": []}, "answerKey": "A"}"#,
            r#"{"question": "?", "choices": {"label": ["A"], "text": ["x"]}, "answerKey": "B"}"#,
        ] {
            parse(bad, Worked::AsGiven).unwrap_err();
        }
    }
}
