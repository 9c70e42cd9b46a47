//! Ways to compare an answer with the right ones.

use regex::Regex;

use crate::eval::conclusion;

/// A pattern, with what it was written as.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    pub fn new(pattern: &str) -> Result<Self, regex::Error> {
        Ok(Self(Regex::new(pattern)?))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

/// How an answer is compared, and with what. Each of several right answers will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    Exact(Vec<String>),
    /// The choice it concludes with.
    Choice {
        labels: Vec<String>,
        /// What each stands for; none where only the prompt says so.
        texts: Vec<String>,
        right: Vec<String>,
    },
    /// The number it concludes with.
    Number(Vec<String>),
    /// Somewhere in the answer, in any case.
    Contains(Vec<String>),
    /// Matched somewhere in the answer.
    Regex(Vec<Pattern>),
}

impl Compare {
    /// What an answer concludes, in the form in which it is compared.
    pub fn conclusion(&self, text: &str) -> Option<String> {
        match self {
            Self::Exact(_) => {
                let text = text.trim();
                (!text.is_empty()).then(|| text.to_owned())
            }
            Self::Choice { labels, texts, .. } => conclusion::choice(text, labels, texts),
            Self::Number(_) => conclusion::number(text),
            Self::Contains(right) => {
                let text = text.to_lowercase();
                right.iter().find(|right| text.contains(&right.to_lowercase())).cloned()
            }
            Self::Regex(right) => {
                right.iter().find_map(|right| right.0.find(text)).map(|found| found.as_str().into())
            }
        }
    }

    pub fn is_right(&self, text: &str) -> bool {
        let Some(said) = self.conclusion(text) else { return false };
        match self {
            Self::Exact(right) => right.iter().any(|right| right.trim() == said),
            Self::Choice { right, .. } => right.contains(&said),
            Self::Number(right) => {
                right.iter().any(|right| conclusion::normal_number(right) == said)
            }
            Self::Contains(_) | Self::Regex(_) => true,
        }
    }

    /// The right answers, for people.
    pub fn right(&self) -> String {
        match self {
            Self::Exact(right)
            | Self::Choice { right, .. }
            | Self::Number(right)
            | Self::Contains(right) => right.join(" | "),
            Self::Regex(right) => right.iter().map(Pattern::as_str).collect::<Vec<_>>().join(" | "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
        texts.map(str::to_owned).to_vec()
    }

    #[test]
    fn exact_is_all_of_it() {
        let paris = Compare::Exact(texts(["Paris", "Paris, France"]));
        assert!(paris.is_right(" Paris\n") && paris.is_right("Paris, France"));
        assert!(!paris.is_right("paris") && !paris.is_right("Paris.") && !paris.is_right(""));
        assert_eq!(paris.right(), "Paris | Paris, France");
    }

    #[test]
    fn a_number_is_its_value() {
        let half = Compare::Number(texts(["1/2"]));
        assert!(
            half.is_right("So it is \\boxed{0.50}") && half.is_right("The answer is 0.5 litres")
        );
        assert!(!half.is_right("The answer is 2.") && !half.is_right("half"));
    }

    #[test]
    fn contained_or_matched() {
        let word = Compare::Contains(texts(["Straße"]));
        assert!(word.is_right("In der STRASSE, der straße!") && !word.is_right("strasse"));
        let pattern = Compare::Regex(vec![Pattern::new(r"(?i)\bpari[sx]\b").unwrap()]);
        assert_eq!(pattern.conclusion("It is PARIS."), Some("PARIS".into()));
        assert!(!pattern.is_right("parisian"));
        assert_eq!(pattern.right(), r"(?i)\bpari[sx]\b");
    }
}
