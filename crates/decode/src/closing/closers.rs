//! The tokens that bring a JSON text nearer to its end.

use super::JsonPosition;
use crate::{Constraint, ConstraintError, Token, Vocabulary};

/// What ends a string, and perhaps more.
const QUOTES: &[&str] = &["\"", "\"}", "\"]", "\"}}", "\"}]", "\"]}"];

/// What ends objects and lists, and values that need nothing inside.
const BRACKETS: &[&str] = &[
    "}", "}}", "}}}", "]", "]]", "}]", "]}", "null", " null", "{}", " {}", "[]", " []", "\"\"",
    " \"\"",
];

/// Where something more is required, what ends a number before it.
const COMMAS: &[&str] = &[","];

/// Beginnings of values that are short; a vocabulary may have `null` only in parts.
const VALUES: &[&str] = &[
    "n", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "\"", " \"", "true", " true", "false",
    " false", "t", "f",
];

/// Beginnings of values that are not.
const OPENERS: &[&str] = &["{", " {", "[", " ["];

/// Nothing else may come where the form leaves blanks free.
const BLANKS: &[&str] = &[" "];

/// Signs and letters between the parts of a text with a form of its own, such as an address, a time or
/// a duration; those that are most often in such texts first.
const SEPARATORS: &str = "@.:/-_ZTDSMHYW+#,;=?&%!()[]{}|~*'<>^$ z";

/// What may stand behind a separator.
const BEHIND: &str = "a0A";

/// Everything that a value may go on with if nothing better is known.
const CHARACTERS: &str = "a0Abcdefghijklmnopqrstuvwxyz123456789BCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A character and its token.
type Character = (char, Token);

#[derive(Debug)]
pub(super) struct Closers {
    quote: Option<Token>,
    quotes: Vec<Token>,
    outside: [Vec<Token>; 5],
    /// What may begin something that then has to be finished as well.
    beginnings: Vec<Token>,
    separators: Vec<Character>,
    behind: Vec<Token>,
    characters: Vec<Token>,
}

impl Closers {
    pub fn new(vocabulary: &dyn Vocabulary) -> Self {
        // A tokenizer may put a blank before a word.
        let single = |text: &str| match vocabulary.encode(text).as_slice() {
            [token] if vocabulary.piece(*token) == text.as_bytes() => Some(*token),
            _ => None,
        };
        let tokens = |texts: &[&str]| -> Vec<Token> {
            texts.iter().filter_map(|text| single(text)).collect()
        };
        let characters = |text: &str| -> Vec<Character> {
            text.chars().filter_map(|c| Some((c, single(c.encode_utf8(&mut [0; 4]))?))).collect()
        };
        let plain = |text: &str| -> Vec<Token> {
            characters(text).into_iter().map(|(_, token)| token).collect()
        };
        Self {
            quote: single("\""),
            quotes: tokens(QUOTES),
            outside: [BRACKETS, COMMAS, VALUES, OPENERS, BLANKS].map(tokens),
            beginnings: tokens(&[COMMAS, OPENERS].concat()),
            separators: characters(SEPARATORS),
            behind: plain(BEHIND),
            characters: plain(CHARACTERS),
        }
    }

    /// The best tokens behind a text; none where only a model can tell how it goes on.
    pub fn choices(
        &self,
        json: &str,
        constraint: &mut dyn Constraint,
    ) -> Result<Vec<Token>, ConstraintError> {
        self.at_most(usize::MAX, json, constraint)
    }

    /// The first of them. Nothing is tried behind it: a walk takes thousands of steps.
    pub fn choice(
        &self,
        json: &str,
        constraint: &mut dyn Constraint,
    ) -> Result<Option<Token>, ConstraintError> {
        Ok(self.at_most(1, json, constraint)?.first().copied())
    }

    fn at_most(
        &self,
        most: usize,
        json: &str,
        constraint: &mut dyn Constraint,
    ) -> Result<Vec<Token>, ConstraintError> {
        let position = JsonPosition::behind(json);
        let Some(string) = position.open_string(json) else {
            for tokens in &self.outside {
                let allowed = allowed(tokens, most, constraint)?;
                if !allowed.is_empty() {
                    return Ok(allowed);
                }
            }
            return Ok(vec![]);
        };
        let quotes = allowed(&self.quotes, most, constraint)?;
        if !quotes.is_empty() {
            return Ok(quotes);
        }
        self.towards_the_quote(string, constraint)
    }

    /// Inside of a string that has a form of its own and may not end here: what it may end behind, or
    /// else a separator that it does not have yet.
    fn towards_the_quote(
        &self,
        string: &str,
        constraint: &mut dyn Constraint,
    ) -> Result<Vec<Token>, ConstraintError> {
        let Some(quote) = self.quote else { return Ok(vec![]) };
        let mut possible = vec![];
        for &(character, token) in &self.separators {
            if constraint.allows(&[token])? {
                possible.push((character, token));
            }
        }
        if possible.len() == self.separators.len() {
            // Any text, which is only not long enough yet: no sign is better than another.
            return Ok(vec![]);
        }
        let mut ending = vec![];
        for &(_, token) in &possible {
            if constraint.allows(&[token, quote])? {
                ending.push(token);
            }
        }
        if !ending.is_empty() {
            return Ok(ending);
        }
        for &(_, token) in &possible {
            for &behind in &self.behind {
                if constraint.allows(&[token, behind, quote])? {
                    return Ok(vec![token]);
                }
            }
        }
        let is_separator = |c: char| self.separators.iter().any(|(known, _)| *known == c);
        if string.chars().next_back().is_none_or(is_separator) {
            return Ok(vec![]);
        }
        let new = possible.into_iter().find(|(character, _)| !string.contains(*character));
        Ok(new.into_iter().map(|(_, token)| token).collect())
    }

    /// Some token that may come, where none is better than others.
    pub fn any(
        &self,
        constraint: &mut dyn Constraint,
        vocabulary: &dyn Vocabulary,
    ) -> Result<Option<Token>, ConstraintError> {
        for &token in &self.characters {
            if constraint.allows(&[token])? {
                return Ok(Some(token));
            }
        }
        let mut logits = vec![0.0; vocabulary.len()];
        constraint.mask(&mut logits)?;
        let index = (0u32..).zip(&logits).find(|(_, logit)| logit.is_finite());
        Ok(index.map(|(index, _)| Token(index)))
    }

    /// What may begin something here that then has to be finished as well.
    pub fn beginnings(
        &self,
        constraint: &mut dyn Constraint,
    ) -> Result<Vec<Token>, ConstraintError> {
        allowed(&self.beginnings, usize::MAX, constraint)
    }
}

/// The first tokens that may come, so many at most.
fn allowed(
    tokens: &[Token],
    most: usize,
    constraint: &mut dyn Constraint,
) -> Result<Vec<Token>, ConstraintError> {
    let mut allowed = vec![];
    for &token in tokens {
        if allowed.len() == most {
            break;
        }
        if constraint.allows(&[token])? {
            allowed.push(token);
        }
    }
    Ok(allowed)
}
