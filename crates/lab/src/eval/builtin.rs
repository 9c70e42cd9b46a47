//! Questions that come with the program: common sense, written for it, in the shape of the
//! multiple-choice tasks.

pub const FILE: &str = "builtin.jsonl";

pub const QUESTIONS: &str = include_str!("builtin.jsonl");

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use crate::eval::{Task, TaskName, read};

    #[test]
    fn they_are_whole_balanced_and_different() {
        let examples = read(TaskName::Builtin, &[]).unwrap();
        assert_eq!(examples.len(), 40);
        let mut keys = BTreeMap::<String, usize>::new();
        let (mut ids, mut questions) = (HashSet::new(), HashSet::new());
        let mut answers = HashSet::new();
        for example in &examples {
            let Task::Choice { question, labels, texts, right } = &example.task else {
                panic!("{} is no choice", example.id);
            };
            assert_eq!(labels.concat(), "ABCDE", "{}", example.id);
            let different: HashSet<String> = texts.iter().map(|text| text.to_lowercase()).collect();
            assert_eq!(different.len(), 5, "{}", example.id);
            assert!(texts.iter().all(|text| text.trim() == text), "{}", example.id);
            assert!(ids.insert(&example.id) && questions.insert(question.to_lowercase()));
            let at = labels.iter().position(|label| label == right).unwrap();
            assert!(answers.insert(texts[at].to_lowercase()), "{} twice", texts[at]);
            *keys.entry(right.clone()).or_default() += 1;
            // Each choice can be named by its text alone.
            for (label, text) in labels.iter().zip(texts) {
                let said = example.conclusion(&format!("Therefore, the answer is {text}."));
                assert_eq!(said.as_ref(), Some(label), "{}: {text}", example.id);
            }
        }
        assert!(keys.values().all(|&count| count == 8), "{keys:?}");
    }
}
