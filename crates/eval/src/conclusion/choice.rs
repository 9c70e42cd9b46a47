//! Which choice an answer concludes with.

use super::cue::{Cue, Kind, cues, line, sentence};

/// The label of the choice an answer concludes with, as the question spells it.
///
/// A label counts before a text: in "the answer is mountain (a)" it is a. A text without a label
/// counts if it is that of exactly one choice. Without any conclusion, an answer that is nothing
/// but a label or a choice counts, also with an explanation behind or before it on lines of its
/// own.
pub fn choice(text: &str, labels: &[String], texts: &[String]) -> Option<String> {
    let text = plain(text);
    let texts: Vec<String> = texts.iter().map(|text| plain(text)).collect();
    let choices = Choices { labels, texts: &texts };
    for cue in cues(&text) {
        match choices.said(cue) {
            Said::Label(label) => return Some(label.to_owned()),
            Said::Other => return None,
            Said::Nothing => {}
        }
    }
    choices.alone(&text).map(str::to_owned)
}

/// What a conclusion says.
enum Said<'a> {
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

/// Words that may follow a label or a choice and say no more about which it is.
const REASONS: [&str; 8] = ["because", "since", "as", "for", "which", "where", "so", "due"];
/// Words between a conclusion and its label.
const LEADS: [&str; 8] =
    ["option", "choice", "label", "letter", "answer", "most", "likely", "probably"];
const QUOTES: [char; 7] = [' ', '\t', ':', '"', '\'', '$', '{'];

impl<'a> Choices<'a> {
    fn said(&self, cue: Cue<'_>) -> Said<'a> {
        let line = line(cue.behind);
        let mut front = line.trim_start_matches(QUOTES);
        if let Some(denied) = after_word(front, "not") {
            let Some((_, rest)) = sentence(denied).0.split_once(" but ") else {
                return Said::Nothing;
            };
            front = rest.trim_start_matches(QUOTES);
        }
        if cue.kind == Kind::Best && !self.ends(cue.behind) || front.is_empty() {
            return Said::Nothing;
        }
        match self.named(front) {
            Said::Nothing if self.cut_off(front, cue.behind) => Said::Nothing,
            Said::Nothing => Said::Other,
            said => said,
        }
    }

    /// Whether nothing comes behind the sentence that begins here.
    fn ends(&self, behind: &str) -> bool {
        sentence(behind.trim_start()).1.trim().is_empty()
    }

    fn named(&self, front: &str) -> Said<'a> {
        let one = |label: &'a str, rest: &str| match self.goes_on(label, rest) {
            true => Said::Other,
            false => Said::Label(label),
        };
        if let Some((label, rest)) = self.label(skip_leads(front)) {
            return one(label, rest);
        }
        if let Some((found, rest)) = self.text(front) {
            if let Some((label, rest)) = self.in_parentheses(rest.trim_start()) {
                return one(label, rest);
            }
            if is_over(rest) {
                return found.map_or(Said::Other, |label| one(label, rest));
            }
        }
        let said = sentence(front).0;
        for (at, _) in said.match_indices('(') {
            let denied =
                ["not", "than", "unlike"].iter().any(|w| last_words(&said[..at]).any(|l| l == *w));
            if let (false, Some((label, rest))) = (denied, self.in_parentheses(&said[at..])) {
                return one(label, rest);
            }
        }
        // "B mountain"; but "A" and "I" are words of their own.
        let word = first_word(skip_leads(front));
        match self.known(word) {
            Some(label) if label == word && is_letter(word) && !matches!(word, "A" | "I") => {
                Said::Label(label)
            }
            _ => Said::Nothing,
        }
    }

    /// An answer that is nothing but a choice; or the only choice that has a line of its own, if
    /// that is the first or the last one.
    fn alone(&self, text: &str) -> Option<&'a str> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let (first, last) = (lines.first()?, lines.last()?);
        let mut end = last.trim();
        while let (_, rest) = sentence(end)
            && !rest.trim().is_empty()
        {
            end = rest.trim();
        }
        let found = self.line(first).or_else(|| self.line(last)).or_else(|| self.line(end));
        if let Some(label) = found {
            let same = |line: &&str| self.line(line).is_none_or(|other| other == label);
            return lines.iter().all(same).then_some(label);
        }
        let (found, rest) = self.text(text.trim_start_matches(QUOTES))?;
        found.filter(|_| !rest.contains(char::is_alphanumeric))
    }

    /// A line that holds a label, with or without its choice, and no more but a reason.
    fn line(&self, line: &str) -> Option<&'a str> {
        let line = line.trim_start_matches(QUOTES).trim_start_matches(['#', '>', '-', ' ']);
        let line = line.strip_prefix("\\boxed{").unwrap_or(line);
        let (label, rest) = self.label(line)?;
        let rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let at = self.labels.iter().position(|other| other == label)?;
        let own = self.texts.get(at).and_then(|text| strip_text(rest, text));
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

    /// The longest choice that stands here; `None` for its label if several choices read the same.
    fn text<'t>(&self, front: &'t str) -> Option<(Option<&'a str>, &'t str)> {
        let found = |(label, text): (&'a String, &'a String)| {
            strip_text(front, text).map(|rest| (label.as_str(), rest))
        };
        let found: Vec<_> = self.labels.iter().zip(self.texts).filter_map(found).collect();
        let shortest = found.iter().map(|(_, rest)| rest.len()).min()?;
        let mut longest = found.into_iter().filter(|(_, rest)| rest.len() == shortest);
        let (label, rest) = longest.next()?;
        Some((longest.next().is_none().then_some(label), rest))
    }

    /// Whether a second choice is named in the same breath: "(a) or (b)", "B, C".
    fn goes_on(&self, label: &str, rest: &str) -> bool {
        let rest = rest.trim_start_matches([')', ']', '"', '\'', ' ']);
        let at = self.labels.iter().position(|other| other == label);
        let own = at.and_then(|at| self.texts.get(at)).and_then(|text| strip_text(rest, text));
        let rest = own.unwrap_or(rest).trim_start();
        let joined = rest.trim_start_matches([',', '/', '&', ' ']);
        let and = |text: &'_ str| {
            ["or", "and"].iter().find_map(|word| after_word(text, word).map(str::len))
        };
        let behind = match and(joined) {
            Some(left) => &joined[joined.len() - left..],
            None => joined,
        };
        let behind = behind.trim_start();
        let separated = behind.len() < rest.len();
        let second = match self.in_parentheses(behind) {
            Some((second, _)) => Some(second),
            // A lower-case "a" is an article far more often.
            None if separated => self
                .label(behind)
                .map(|(second, _)| second)
                .filter(|second| behind.starts_with(*second)),
            None => None,
        };
        let text = || {
            self.text(behind).filter(|(_, rest)| {
                separated && { is_over(rest) || self.in_parentheses(rest.trim_start()).is_some() }
            })
        };
        let second = second.or_else(|| text().and_then(|(second, _)| second));
        second.is_some_and(|second| second != label)
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

/// Without markup, and with one kind of quotes and parentheses.
fn plain(text: &str) -> String {
    let text = ["\\text", "\\textbf", "\\mathrm", "\\mathbf"]
        .iter()
        .fold(text.to_owned(), |text, command| text.replace(&format!("{command}{{"), "{"));
    let text = text.replace("\\(", " ").replace("\\)", " ");
    let mapped = text.chars().filter(|c| !matches!(c, '*' | '`' | '\r')).map(|c| match c {
        '“' | '”' | '«' | '»' => '"',
        '‘' | '’' => '\'',
        '（' => '(',
        '）' => ')',
        '：' => ':',
        '\u{a0}' | '\u{202f}' => ' ',
        c => c,
    });
    mapped.collect()
}

/// What follows a choice's text, with or without an article; `None` if the text does not stand
/// here as whole words.
fn strip_text<'t>(front: &'t str, text: &str) -> Option<&'t str> {
    let text = text.trim().trim_start_matches(QUOTES).trim_end_matches(['.', '"', '\'']);
    let (bare_front, bare_text) = (skip_article(front), skip_article(text));
    strip(front, text).or_else(|| strip(bare_front, bare_text))
}

fn strip<'t>(front: &'t str, text: &str) -> Option<&'t str> {
    let mut rest = front;
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    for word in words {
        rest = rest.trim_start_matches(' ');
        for wanted in word.chars() {
            let found = rest.chars().next()?;
            if found != wanted && !found.to_lowercase().eq(wanted.to_lowercase()) {
                return None;
            }
            rest = &rest[found.len_utf8()..];
        }
        // The next word begins here too, if only spaces are between them.
        if rest.starts_with(char::is_alphanumeric) {
            return None;
        }
    }
    let mut next = rest.chars();
    let goes_on = match (next.next(), next.next()) {
        (Some('-' | '\'' | '/'), Some(c)) => c.is_alphanumeric(),
        (Some('.' | ','), Some(c)) => c.is_ascii_digit(),
        _ => false,
    };
    (!goes_on).then_some(rest)
}

fn skip_article(text: &str) -> &str {
    ["a", "an", "the"].iter().find_map(|article| after_word(text, article)).unwrap_or(text)
}

fn skip_leads(mut text: &str) -> &str {
    while let Some(rest) = LEADS.iter().find_map(|lead| after_word(text, lead)) {
        text = rest.trim_start_matches(QUOTES);
    }
    text
}

/// What follows a word, in any case, and the space behind it.
fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let found = start.eq_ignore_ascii_case(word) && rest.starts_with([' ', ':']);
    found.then(|| rest.trim_start_matches([' ', ':']))
}

/// Whether nothing more is said about which choice it is.
fn is_over(rest: &str) -> bool {
    let rest = rest.trim_start();
    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '%') || starts_with_reason(rest)
}

fn starts_with_reason(text: &str) -> bool {
    REASONS.contains(&first_word(text))
}

fn is_letter(word: &str) -> bool {
    word.chars().all(char::is_alphabetic)
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

/// The two words before a place.
fn last_words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().rev().take(2)
}
