//! How a text looks while it is made.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use decode::{Accepted, Source, Span};
use serde::Serialize;
use tandem::Share;

const CLOUD: &str = "\x1b[36m";
const FALLBACK: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// Says something on stderr, if anybody listens.
pub fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// A share as people write it.
pub fn percent(share: f32) -> String {
    Share::new(share).map(|share| share.to_string()).unwrap_or_default()
}

/// One line of JSON on stdout.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{}", serde_json::to_string(value)?)?)
}

/// A text with each run of the cloud's words in brackets; the space before a run stays outside.
fn marked(tokens: &[Accepted]) -> String {
    let mut text = String::new();
    for run in tokens.chunk_by(|a, b| (a.source == Source::Cloud) == (b.source == Source::Cloud)) {
        let words: String = run.iter().map(|token| &*token.text).collect();
        let inner = words.trim();
        if inner.is_empty() || run.iter().any(|token| token.source != Source::Cloud) {
            text.push_str(&words);
            continue;
        }
        let before = words.len() - words.trim_start().len();
        let (space, rest) = words.split_at(before);
        let behind = rest.get(inner.len()..).unwrap_or_default();
        text.push_str(&format!("{space}⟦{inner}⟧{behind}"));
    }
    text
}

/// Writes spans to stdout: words of the cloud in colour, fallbacks in another, on a terminal.
pub struct Screen {
    terminal: bool,
    colour: bool,
}

impl Screen {
    /// Colour only on a terminal, and not against the user's wish.
    pub fn new() -> Self {
        let terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Self { terminal, colour: terminal && !no_colour }
    }

    /// Whether colour tells who wrote a word.
    pub fn has_colour(&self) -> bool {
        self.colour
    }

    /// Shows a whole text without colour; with marks, what the cloud wrote stands in brackets.
    pub fn show_whole(&self, tokens: &[Accepted], marks: bool) -> io::Result<()> {
        let text = if marks { marked(tokens) } else { tokens.iter().map(|t| &*t.text).collect() };
        let mut out = io::stdout().lock();
        write!(out, "{}", self.safe(&text))?;
        out.flush()
    }

    /// Shows a span at once.
    pub fn show(&self, span: &Span) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for token in &span.tokens {
            let colour = match token.source {
                Source::Edge => None,
                Source::Cloud => Some(CLOUD),
                Source::Fallback => Some(FALLBACK),
            };
            match colour.filter(|_| self.colour) {
                Some(colour) => write!(out, "{colour}{}{PLAIN}", self.safe(&token.text))?,
                None => write!(out, "{}", self.safe(&token.text))?,
            }
        }
        write!(out, "{}", span.rest)?;
        out.flush()
    }

    pub fn end(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out)?;
        out.flush()
    }

    /// A model must not steer the user's terminal.
    fn safe<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
        if !self.terminal || text.chars().all(harmless) {
            return text.into();
        }
        text.chars().map(|c| if harmless(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_clouds_words_stand_in_brackets() {
        let token = |(text, source): (&str, Source)| Accepted {
            text: text.into(),
            source,
            ..Accepted::default()
        };
        let (edge, cloud) = (Source::Edge, Source::Cloud);
        for (tokens, expected) in [
            (vec![], ""),
            (vec![("Ice", edge), (" floats", edge)], "Ice floats"),
            (vec![("Ice", edge), (" flo", cloud), ("ats", cloud), (".", edge)], "Ice ⟦floats⟧."),
            (vec![("Ice", cloud), ("\n", cloud), ("is", edge)], "⟦Ice⟧\nis"),
            (vec![("a", edge), (" ", cloud), ("b", edge)], "a b"),
            (vec![("a", Source::Fallback), (" é", cloud)], "a ⟦é⟧"),
        ] {
            let tokens: Vec<_> = tokens.into_iter().map(token).collect();
            assert_eq!(marked(&tokens), expected);
        }
    }
}
