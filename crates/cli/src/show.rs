//! How a text looks while it is made.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use decode::{Source, Span};

const CLOUD: &str = "\x1b[36m";
const FALLBACK: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// Says something on stderr, if anybody listens.
pub fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
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

    /// Ends the line.
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
