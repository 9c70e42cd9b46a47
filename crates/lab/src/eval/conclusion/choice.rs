//! Which choice an answer concludes with.

use super::{
    cue::{CueKind, CuePhrase, cue_phrases, last_sentence, line, sentence},
    words::{
        QUOTES, after_word, first_word, is_over, plain, skip_leads, starts_with_reason, strip_text,
    },
};

/// The label of the choice an answer concludes with, as the question spells it.
///
/// A label counts before a text: in "the answer is mountain (a)" it is a. A text without a label
/// counts if it is that of exactly one choice. Without any conclusion, an answer that is nothing
/// but a label or a choice counts, also with an explanation behind or before it on lines of its
/// own; and a last sentence that ends in a choice with its own label, as worked answers do that do
/// not say "the answer is".
pub fn choice(text: &str, labels: &[String], texts: &[String]) -> Option<String> {
    let text = plain(text);
    let texts: Vec<String> = texts.iter().map(|text| plain(text)).collect();
    let choices = Choices { labels, texts: &texts };
    for cue in cue_phrases(&text) {
        match choices.statement(cue) {
            Statement::Label(label) => return Some(label.to_owned()),
            Statement::Other => return None,
            Statement::Nothing => {}
        }
    }
    choices.alone(&text).map(str::to_owned)
}

enum Statement<'a> {
    Label(&'a str),
    /// Something that is no choice, or several.
    Other,
    /// Nothing yet, or only what it is not.
    Nothing,
}

struct Choices<'a> {
    labels: &'a [String],
    texts: &'a [String],
}

impl<'a> Choices<'a> {
    fn statement(&self, cue: CuePhrase<'_>) -> Statement<'a> {
        if cue.kind == CueKind::Subject {
            let said = self.ending(last_sentence(cue.behind));
            return said.map_or(Statement::Nothing, |(label, _)| Statement::Label(label));
        }
        let line = line(cue.behind);
        let mut front = line.trim_start_matches(QUOTES);
        // A choice may begin with "not".
        if let (None, Some(denied)) = (self.text(front), after_word(front, "not")) {
            let Some((_, rest)) = sentence(denied).0.split_once(" but ") else {
                return Statement::Nothing;
            };
            front = rest.trim_start_matches(QUOTES);
        }
        // Answers also begin with what is best; only as the last sentence does it conclude.
        let goes_on = !sentence(cue.behind.trim_start()).1.trim().is_empty();
        if cue.kind == CueKind::Best && goes_on || front.is_empty() {
            return Statement::Nothing;
        }
        match self.named(front) {
            Statement::Nothing if self.cut_off(front, cue.behind) => Statement::Nothing,
            Statement::Nothing => Statement::Other,
            said => said,
        }
    }

    fn named(&self, front: &str) -> Statement<'a> {
        let one = |label: &'a str, rest: &str| match self.goes_on(label, rest) {
            true => Statement::Other,
            false => Statement::Label(label),
        };
        if let Some((label, rest)) = self.label(skip_leads(front)) {
            return one(label, rest);
        }
        if let Some((found, rest)) = self.text(front) {
            if let Some((label, rest)) = self.in_parentheses(rest.trim_start()) {
                return one(label, rest);
            }
            if is_over(rest) {
                return found.map_or(Statement::Other, |label| one(label, rest));
            }
        }
        let said = sentence(front).0;
        for (at, _) in said.match_indices('(') {
            let mut before = said[..at].split_whitespace().rev().take(2);
            let denied = before.any(|word| ["not", "than", "unlike"].contains(&word));
            if let (false, Some((label, rest))) = (denied, self.in_parentheses(&said[at..])) {
                return one(label, rest);
            }
        }
        // "B mountain"; but "A" and "I" are words of their own.
        let front = skip_leads(front);
        let word = first_word(front);
        let capital = word.chars().all(char::is_uppercase) && !matches!(word, "A" | "I");
        let rest = &front[word.len()..];
        let beside =
            rest.strip_prefix(' ').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
        match self.known(word).filter(|_| capital && beside) {
            Some(label) => one(label, rest),
            None => Statement::Nothing,
        }
    }

    /// An answer that is nothing but a choice; or the only choice that has a line of its own, if
    /// that is the first or the last one.
    fn alone(&self, text: &str) -> Option<&'a str> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let (first, last) = (lines.first()?, lines.last()?);
        let end = last_sentence(last);
        let found = self.line(first).or_else(|| self.line(last)).or_else(|| self.line(end));
        if let Some(label) = found {
            let same = |line: &&str| self.line(line).is_none_or(|other| other == label);
            return lines.iter().all(same).then_some(label);
        }
        if let Some((found, rest)) = self.text(text.trim_start_matches(QUOTES))
            && !rest.contains(char::is_alphanumeric)
        {
            return found;
        }
        self.ending(end).filter(|(_, own)| *own).map(|(label, _)| label)
    }

    /// The choice a sentence ends in, and whether with its text and its own label. `None` if the
    /// sentence denies something or names several.
    fn ending(&self, sentence: &str) -> Option<(&'a str, bool)> {
        let denies = |word: &str| {
            matches!(word, "not" | "unlike" | "neither" | "nor" | "or") || word.ends_with("n't")
        };
        let said = sentence.trim_end_matches(['.', '!', ' ', '"', '\'']);
        if said.to_lowercase().split([' ', ',']).any(denies) {
            return None;
        }
        let starts = || said.char_indices().filter(|(_, c)| *c == '(').map(|(at, _)| at);
        let labels = starts().filter(|&at| self.in_parentheses(&said[at..]).is_some());
        let (text, label) = match labels.collect::<Vec<_>>().as_slice() {
            [] => (said, None),
            &[at] => {
                let (label, rest) = self.in_parentheses(&said[at..])?;
                let behind = self.own(label).and_then(|own| strip_text(rest.trim_start(), own));
                if behind.is_some_and(str::is_empty) {
                    // "(b) mountain".
                    return Some((label, true));
                }
                (&said[..at], Some(label).filter(|_| rest.is_empty()))
            }
            _ => return None,
        };
        let words = text.char_indices().filter(|(at, c)| {
            !c.is_whitespace() && !text[..*at].ends_with(|c: char| c.is_alphanumeric())
        });
        let found = words.into_iter().find_map(|(at, _)| {
            self.text(&text[at..])
                .filter(|(_, rest)| rest.trim_matches(['"', '\'', ' ']).is_empty())
        });
        match (label, found) {
            (Some(label), found) => Some((label, found.is_some_and(|(own, _)| own == Some(label)))),
            (None, Some((found, _))) => found.map(|label| (label, false)),
            (None, None) => {
                let word =
                    text.rsplit(' ').next().filter(|word| word.chars().all(char::is_uppercase));
                self.known(word?).map(|label| (label, false))
            }
        }
    }

    /// A line that holds a label, with or without its choice, and no more but a reason.
    fn line(&self, line: &str) -> Option<&'a str> {
        let line = line.trim_start_matches(QUOTES).trim_start_matches(['#', '>', '-', ' ']);
        let line = line.strip_prefix("\\boxed{").unwrap_or(line);
        let (label, rest) = self.label(line)?;
        let rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let own = self.own(label).and_then(|text| strip_text(rest, text));
        let rest = own.unwrap_or(rest);
        let reason = rest.trim_start_matches([',', ' ']);
        let over = !rest.contains(char::is_alphanumeric) || starts_with_reason(reason);
        (over && !self.goes_on(label, rest)).then_some(label)
    }

    /// A label that is marked as one: in parentheses, or with nothing behind it that would make it
    /// a word.
    fn label<'t>(&self, text: &'t str) -> Option<(&'a str, &'t str)> {
        if let Some(found) = self.in_parentheses(text) {
            return Some(found);
        }
        let word = first_word(text);
        let label = self.known(word)?;
        let rest = &text[word.len()..];
        let mut next = rest.chars();
        let marked = match (next.next(), next.next()) {
            (Some(')' | ']' | '}' | ':' | ';' | '!' | '?' | '"' | '(' | '$' | '\\'), _) => true,
            (Some(','), next) => !next.is_some_and(|c| c.is_ascii_digit()),
            // Neither "1.5" nor "A.M."
            (Some('.'), Some(c)) if c.is_alphanumeric() => {
                !c.is_ascii_digit() && next.next().is_some_and(char::is_alphanumeric)
            }
            (Some('.'), _) => true,
            (Some('\'' | '-' | '–' | '—'), next) => !next.is_some_and(char::is_alphanumeric),
            // Not the article in front of a "quoted" choice.
            _ => is_over(rest) && !rest.trim_start().starts_with(['"', '\'']),
        };
        marked.then_some((label, rest))
    }

    fn in_parentheses<'t>(&self, text: &'t str) -> Option<(&'a str, &'t str)> {
        let inside = text.strip_prefix(['(', '['])?;
        let (inside, rest) = inside.split_once([')', ']'])?;
        let inside = skip_leads(inside.trim());
        Some((self.known(inside.trim_matches(['.', ' ', '\'', '"', '\\']))?, rest))
    }

    fn known(&self, label: &str) -> Option<&'a str> {
        self.labels.iter().map(String::as_str).find(|known| known.eq_ignore_ascii_case(label))
    }

    /// What a label stands for.
    fn own(&self, label: &str) -> Option<&'a str> {
        let at = self.labels.iter().position(|other| other == label)?;
        self.texts.get(at).map(String::as_str)
    }

    /// The longest choice that stands here; `None` for its label if several choices read the same,
    /// capitals and all.
    fn text<'t>(&self, front: &'t str) -> Option<(Option<&'a str>, &'t str)> {
        let found = |(label, text): (&'a String, &'a String)| {
            strip_text(front, text).map(|rest| (label.as_str(), text.trim(), rest))
        };
        let found: Vec<_> = self.labels.iter().zip(self.texts).filter_map(found).collect();
        let shortest = found.iter().map(|(_, _, rest)| rest.len()).min()?;
        let longest: Vec<_> = found.into_iter().filter(|found| found.2.len() == shortest).collect();
        let exact = |(_, text, _): &&(_, &str, _)| front.contains(text.trim_end_matches('.'));
        match longest.as_slice() {
            [(label, _, rest)] => Some((Some(label), rest)),
            several => {
                let mut exact = several.iter().filter(exact);
                let one = exact.next().filter(|_| exact.next().is_none());
                Some((one.map(|(label, ..)| *label), several.first()?.2))
            }
        }
    }

    /// Whether a second choice is named in the same breath: "(a) or (b)", "B, C".
    fn goes_on(&self, label: &str, rest: &str) -> bool {
        let rest = rest.trim_start_matches([')', ']', '"', '\'', ' ']);
        let own = self.own(label).and_then(|text| strip_text(rest, text));
        let rest = own.unwrap_or(rest).trim_start();
        let next = rest.trim_start_matches([',', '/', '&', ' ']);
        let next = ["or", "and"].iter().find_map(|word| after_word(next, word)).unwrap_or(next);
        let second = self.in_parentheses(next).map(|(second, _)| second);
        if next.len() == rest.len() {
            // Nothing joins them but that they stand side by side.
            return second.is_some_and(|second| second != label);
        }
        // A lower-case "a" is an article far more often.
        let bare = || self.label(next).map(|found| found.0).filter(|&l| next.starts_with(l));
        let text = || {
            let (found, rest) = self.text(next)?;
            let whole = is_over(rest) || self.in_parentheses(rest.trim_start()).is_some();
            found.filter(|_| whole)
        };
        second.or_else(bare).or_else(text).is_some_and(|second| second != label)
    }

    /// Whether the text ends before the conclusion does: in a parenthesis, or in a choice.
    fn cut_off(&self, front: &str, behind: &str) -> bool {
        let last = behind.trim_end().ends_with(front.trim_end());
        let open = front.rfind('(').is_some_and(|at| !front[at..].contains(')'));
        let start = front.trim_end().to_lowercase();
        let begun = self.texts.iter().any(|text| text.to_lowercase().starts_with(&start));
        last && (open || begun)
    }
}
