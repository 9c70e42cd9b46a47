//! The two questions, and what an answer concludes.

pub struct Question {
    pub prompt: String,
    /// What can be answered, if one of several choices is right.
    pub choices: &'static [&'static str],
    /// Which of them is right.
    right: usize,
}

/// A question without a right answer.
pub fn plain() -> Question {
    let prompt = "What is a hash table, and when is it useful?".to_owned();
    Question { prompt, choices: &[], right: 0 }
}

/// A question with one.
pub fn common_sense() -> Question {
    let choices = &["pennsylvania", "desert", "valley", "cambodia", "mountain"];
    // As `tandem eval commonsenseqa` asks, because the preset was trained on such prompts.
    let listed: Vec<_> =
        ('a'..).zip(choices).map(|(label, text)| format!("({label}) {text}")).collect();
    let prompt = format!(
        "Question: Where are mines typically located under?\nChoices:\n{}\nPlease format your \
         response in the following way: [Explanation]. Therefore, the answer is answer (label).",
        listed.join("\n")
    );
    Question { prompt, choices, right: 4 }
}

impl Question {
    /// The choice an answer concludes with: the first that is named behind the last "answer is".
    pub fn conclusion(&self, answer: &str) -> Option<usize> {
        let answer = answer.to_lowercase();
        let behind = answer.rsplit_once("answer is").map_or(answer.as_str(), |(_, behind)| behind);
        let named = self.choices.iter().enumerate();
        named.filter_map(|(i, choice)| Some((behind.find(choice)?, i))).min().map(|(_, i)| i)
    }

    pub fn spelled(&self, choice: usize) -> String {
        let label = ('a'..).nth(choice).unwrap_or_default();
        format!("{} ({label})", self.choices.get(choice).unwrap_or(&""))
    }

    /// Whether an answer is right; `None` where nothing is.
    pub fn is_right(&self, answer: &str) -> Option<bool> {
        (!self.choices.is_empty()).then(|| self.conclusion(answer) == Some(self.right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_conclusion_counts() {
        let question = common_sense();
        for (answer, choice) in [
            ("Mines are dug in a valley. Therefore, the answer is Mountain (e).", Some(4)),
            ("The answer is desert. No: the answer is valley, not mountain.", Some(2)),
            ("The best choice is mountain. A valley has none.", Some(4)),
            ("I do not know.", None),
        ] {
            assert_eq!(question.conclusion(answer), choice, "{answer}");
        }
        assert_eq!(question.spelled(4), "mountain (e)");
        assert_eq!(question.is_right("mountain"), Some(true));
        assert_eq!(plain().is_right("mountain"), None);
    }
}
