//! Questions, how they are put, and worked answers where they are known.

use sha2::{Digest, Sha256};

use crate::eval::{code::Function, compare::Compare, conclusion};

/// How a choice is to be explained and concluded.
const CHOICE_FORMAT: &str = "Please format your response in the following way: [Explanation]. \
    Therefore, the answer is answer (label).";
const MATHS_FORMAT: &str =
    "Please reason step by step, and put your final answer within \\boxed{}.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    Choice {
        question: String,
        /// Labels, as in the file.
        labels: Vec<String>,
        texts: Vec<String>,
        right: String,
    },
    Maths {
        problem: String,
        answer: String,
    },
    /// A prompt of any kind, with right answers.
    Judged {
        prompt: String,
        compare: Compare,
    },
    /// A function, judged by running its tests.
    Code(Function),
    /// A prompt of any kind; no answer is right or wrong.
    Plain {
        prompt: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The file's name for it, or where it stands.
    pub id: String,
    pub task: Task,
    pub worked: Option<String>,
}

impl Example {
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
            Task::Code(function) => function.prompt(),
            Task::Judged { prompt, .. } | Task::Plain { prompt } => prompt.clone(),
        }
    }

    /// What an answer concludes, in the form in which it is compared.
    pub fn conclusion(&self, text: &str) -> Option<String> {
        match &self.task {
            Task::Choice { labels, texts, .. } => conclusion::choice(text, labels, texts),
            Task::Maths { .. } => conclusion::number(text),
            Task::Judged { compare, .. } => compare.conclusion(text),
            // What it concludes with is what its tests say.
            Task::Code(_) | Task::Plain { .. } => None,
        }
    }

    /// Whether an answer is right; `None` where nothing is.
    pub fn is_right(&self, text: &str) -> Option<bool> {
        match &self.task {
            Task::Choice { right, .. } => Some(self.conclusion(text).as_ref() == Some(right)),
            Task::Maths { answer, .. } => {
                Some(self.conclusion(text) == Some(conclusion::normal_number(answer)))
            }
            Task::Judged { compare, .. } => Some(compare.is_right(text)),
            Task::Code(function) => Some(function.passes(text)),
            Task::Plain { .. } => None,
        }
    }

    /// The right answer, for people; `None` where nothing is right or wrong.
    pub fn right(&self) -> Option<String> {
        match &self.task {
            Task::Choice { right, .. } => Some(right.clone()),
            Task::Maths { answer, .. } => Some(conclusion::normal_number(answer)),
            Task::Judged { compare, .. } => Some(compare.right()),
            Task::Code(function) => Some(format!("{} passes its tests", function.name)),
            Task::Plain { .. } => None,
        }
    }
}

/// Questions by their hash: the same under another name, another under the same.
pub(crate) fn questions_digest(examples: &[Example]) -> String {
    digest(examples, |example| format!("{}\0{:?}\0", example.id, example.task))
}

/// As [`questions_digest`], with the worked answers, where those are read too.
pub(crate) fn worked_digest(examples: &[Example]) -> String {
    digest(examples, |example| {
        format!("{}\0{:?}\0{:?}\0", example.id, example.task, example.worked)
    })
}

/// Results and samples on disk carry these hashes: were other bytes hashed, no interrupted run could
/// resume.
fn digest(examples: &[Example], bytes: impl Fn(&Example) -> String) -> String {
    let mut hash = Sha256::new();
    for example in examples {
        hash.update(bytes(example));
    }
    decode::hex(&hash.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::row::Row;

    fn parse(line: &str) -> Result<Example, String> {
        let row = Row::parse(line)?;
        row.example(row.shape()?, "f:3".into())
    }

    const MINES: &str = r#"{"id": "m", "question": " Where are mines? ", "choices": {"label":
        ["A", "B"], "text": ["valley", "mountain"]}, "answerKey": "B", "cot":
        "Mines are dug. Therefore, the answer is mountain (b)."}"#;

    #[test]
    fn a_choice_is_put_and_judged() {
        let example = parse(MINES).unwrap();
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
        assert_eq!(example.right(), Some("B".into()));
    }

    #[test]
    fn labels_may_be_numbers() {
        let row = MINES.replace(r#"["A", "B"]"#, r#"["1", "2"]"#).replace(r#""B""#, r#""2""#);
        let example = parse(&row).unwrap();
        assert!(example.prompt().contains("\n(1) valley\n(2) mountain\n"));
        assert_eq!(example.is_right("Therefore, the answer is mountain (2)."), Some(true));
        assert_eq!(example.is_right("The answer is 2 mountains."), Some(false));
    }

    #[test]
    fn maths_and_other_prompts() {
        let sum = r#"{"problem": " 1+1?", "solution": "It is \\boxed{2}.", "answer": "2"}"#;
        let sum = parse(sum).unwrap();
        assert_eq!((sum.id.as_str(), sum.is_right("\\boxed{2.0}")), ("f:3", Some(true)));
        assert_eq!(sum.prompt(), format!("1+1?\n{MATHS_FORMAT}"));
        let plain = parse(r#"{"prompt": "Hi", "response": "Hello."}"#).unwrap();
        assert_eq!((plain.prompt().as_str(), plain.is_right("x")), ("Hi", None));
        assert_eq!((plain.right(), plain.worked.as_deref()), (None, Some("Hello.")));
        let own = r#"{"prompt": "Hi", "answer": ["yo", "hey"], "compare": "contains"}"#;
        let own = parse(own).unwrap();
        assert_eq!((own.prompt().as_str(), own.is_right("Hey!")), ("Hi", Some(true)));
        assert_eq!(own.right(), Some("yo | hey".into()));
    }
}
