//! The questions, and what an answer concludes.

pub struct Question {
    pub prompt: String,
    /// Enough for the answer to be read, and not long to wait for.
    pub max_tokens: usize,
    /// What is right; `None` where nothing is.
    right: Option<Right>,
}

enum Right {
    /// One of several choices, by its place among them.
    Choice(&'static [&'static str], usize),
    /// What is written in the last `\\boxed{}`.
    Boxed(&'static str),
}

/// A question without a right answer.
pub fn plain() -> Question {
    let prompt = "Why is the sky blue?".to_owned();
    Question { prompt, max_tokens: 96, right: None }
}

/// A sum in words.
pub fn sum() -> Question {
    // As `tandem eval gsm8k` asks.
    let prompt =
        "Anna is twice as old as Ben. In 6 years the sum of their ages will be 45. How old is \
        Anna now?\n\
        Please reason step by step, and put your final answer within \\boxed{}."
            .to_owned();
    Question { prompt, max_tokens: 480, right: Some(Right::Boxed("22")) }
}

/// A question of common sense, for the preset.
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
    Question { prompt, max_tokens: 96, right: Some(Right::Choice(choices, 4)) }
}

impl Question {
    /// What an answer concludes with, as people write it: the first choice that is named behind the
    /// last "answer is", or what is in the last box.
    pub fn conclusion(&self, answer: &str) -> Option<String> {
        match self.right.as_ref()? {
            Right::Choice(choices, _) => {
                let answer = answer.to_lowercase();
                let behind =
                    answer.rsplit_once("answer is").map_or(answer.as_str(), |(_, behind)| behind);
                let named = choices.iter().enumerate();
                let found = named.filter_map(|(i, choice)| Some((behind.find(choice)?, i))).min();
                found.map(|(_, i)| spelled(choices, i))
            }
            Right::Boxed(_) => {
                let (_, behind) = answer.rsplit_once("\\boxed{")?;
                let held = behind.split_once('}')?.0;
                Some(held.replace([',', '$', ' '], "").replace("\\", ""))
            }
        }
    }

    /// Whether an answer is right; `None` where nothing is.
    pub fn is_right(&self, answer: &str) -> Option<bool> {
        let right = match self.right.as_ref()? {
            Right::Choice(choices, right) => spelled(choices, *right),
            Right::Boxed(right) => (*right).to_owned(),
        };
        Some(self.conclusion(answer) == Some(right))
    }
}

fn spelled(choices: &[&str], choice: usize) -> String {
    let label = ('a'..).nth(choice).unwrap_or_default();
    format!("{} ({label})", choices.get(choice).unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_conclusion_counts() {
        let question = common_sense();
        for (answer, choice) in [
            (
                "Mines are dug in a valley. Therefore, the answer is Mountain (e).",
                Some("mountain (e)"),
            ),
            ("The answer is desert. No: the answer is valley, not mountain.", Some("valley (c)")),
            ("The best choice is mountain. A valley has none.", Some("mountain (e)")),
            ("I do not know.", None),
        ] {
            assert_eq!(question.conclusion(answer).as_deref(), choice, "{answer}");
        }
        assert_eq!(question.is_right("mountain"), Some(true));
        assert_eq!(plain().is_right("mountain"), None);
    }

    #[test]
    fn the_last_box_is_the_number() {
        let question = sum();
        for (answer, number) in [
            ("\\boxed{3} and then \\boxed{\\$1,200}", Some("1200")),
            ("\\boxed{4", None),
            ("It is 4.", None),
        ] {
            assert_eq!(question.conclusion(answer).as_deref(), number, "{answer}");
        }
        assert_eq!(question.is_right("\\boxed{22}"), Some(true));
        assert_eq!(question.is_right("22"), Some(false));
    }
}
