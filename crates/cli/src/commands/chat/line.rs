//! What a line of the user means.

use std::{path::PathBuf, str::FromStr};

use decode::Threshold;
use tandem::{Mode, Share};

pub const HELP: &str = "/model small|joint|large|verify  who writes (/mode is the same)
/threshold 0..1                  ask the cloud where trust is below this
/budget SHARE                    at most this share of tokens from the cloud, as in 7%
/system TEXT                     the system message from here on; without a text, the usual one
/undo                            forget the last question and its answer
/reset                           begin a new conversation
/save FILE                       keep the conversation: as JSON, or as Markdown in a file.md
/load FILE                       go on with a conversation that was saved as JSON
/help                            this list
/quit                            leave (Ctrl-D too); Ctrl-C stops an answer

\"\"\" begins and ends a text of several lines; a \\ at the end of a line does so for one more.";

/// What opens and closes a text of several lines.
pub const QUOTE: &str = "\"\"\"";

#[derive(Debug, PartialEq)]
pub enum ChatLine {
    Say(String),
    Mode(Mode),
    Threshold(Threshold),
    Budget(Share),
    System(Option<String>),
    Save(PathBuf),
    Load(PathBuf),
    Undo,
    Reset,
    Help,
    Quit,
    Nothing,
    Wrong(String),
}

impl ChatLine {
    pub fn parse(line: &str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return if line.is_empty() { Self::Nothing } else { Self::Say(line.into()) };
        };
        let (name, value) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, value.trim()) {
            ("mode", value) => Self::parse_value(value, Self::Mode),
            ("model", value) => {
                Self::parse_value(value.strip_prefix("tandem-").unwrap_or(value), Self::Mode)
            }
            ("threshold", value) => Self::parse_value(value, Self::Threshold),
            ("budget", value) => Self::parse_value(value, Self::Budget),
            ("system", value) => Self::System((!value.is_empty()).then(|| value.to_owned())),
            ("save" | "load", "") => Self::Wrong(format!("/{name} needs the name of a file")),
            ("save", path) => Self::Save(path.into()),
            ("load", path) => Self::Load(path.into()),
            ("undo", "") => Self::Undo,
            ("reset", "") => Self::Reset,
            ("help", "") => Self::Help,
            ("quit" | "exit", "") => Self::Quit,
            _ => Self::Wrong(format!("there is no command /{command}; /help lists them")),
        }
    }

    fn parse_value<T: FromStr<Err: ToString>>(value: &str, command: fn(T) -> Self) -> Self {
        value.parse().map_or_else(|error: T::Err| Self::Wrong(error.to_string()), command)
    }
}

/// Puts lines together until what they say is whole.
#[derive(Debug, Default)]
pub struct Lines {
    text: String,
    quoted: bool,
}

impl Lines {
    /// Whether a text is under way.
    pub fn is_open(&self) -> bool {
        self.quoted || !self.text.is_empty()
    }

    /// Takes a line; the text, if it is whole with it.
    pub fn push(&mut self, line: &str) -> Option<String> {
        if self.quoted {
            match line.trim_end().strip_suffix(QUOTE) {
                Some(last) => {
                    self.text += last;
                    self.quoted = false;
                    return Some(std::mem::take(&mut self.text));
                }
                None => {
                    self.text += line;
                    self.text.push('\n');
                    return None;
                }
            }
        }
        if self.text.is_empty()
            && let Some(first) = line.trim_start().strip_prefix(QUOTE)
        {
            self.quoted = true;
            if first.is_empty() {
                return None;
            }
            return self.push(first);
        }
        if let Some(open) = line.strip_suffix('\\') {
            self.text += open;
            self.text.push('\n');
            return None;
        }
        self.text += line;
        Some(std::mem::take(&mut self.text))
    }

    /// Forgets a text that is under way.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_and_commands() {
        assert_eq!(ChatLine::parse(" hi there "), ChatLine::Say("hi there".into()));
        assert_eq!(ChatLine::parse("  "), ChatLine::Nothing);
        assert_eq!(ChatLine::parse("/mode small"), ChatLine::Mode(Mode::Small));
        assert_eq!(ChatLine::parse("/model tandem-large"), ChatLine::Mode(Mode::Large));
        assert_eq!(
            ChatLine::parse("/threshold 0.5"),
            ChatLine::Threshold(Threshold::new(0.5).unwrap())
        );
        assert_eq!(
            ChatLine::parse("/system Be brief."),
            ChatLine::System(Some("Be brief.".into()))
        );
        assert_eq!(ChatLine::parse("/system"), ChatLine::System(None));
        assert_eq!(ChatLine::parse("/save a b.json"), ChatLine::Save("a b.json".into()));
        assert_eq!(ChatLine::parse("/reset"), ChatLine::Reset);
        assert_eq!(ChatLine::parse("/quit"), ChatLine::Quit);
        for wrong in [
            "/mode",
            "/mode tiny",
            "/threshold 2",
            "/threshold",
            "/budget much",
            "/frobnicate",
            "/reset now",
            "/save",
            "/load",
        ] {
            assert!(matches!(ChatLine::parse(wrong), ChatLine::Wrong(_)), "{wrong}");
        }
    }

    #[test]
    fn several_lines_are_one_text() {
        let joined = |lines: &[&str]| {
            let mut open = Lines::default();
            let (last, before) = lines.split_last().unwrap();
            for line in before {
                assert_eq!(open.push(line), None, "{line}");
                assert!(open.is_open());
            }
            let text = open.push(last);
            assert!(!open.is_open());
            text.unwrap()
        };
        assert_eq!(joined(&["plain"]), "plain");
        assert_eq!(joined(&["one\\", "two"]), "one\ntwo");
        assert_eq!(joined(&["\"\"\"", "one", "", "two\"\"\""]), "one\n\ntwo");
        assert_eq!(joined(&["\"\"\"one", "two", "\"\"\""]), "one\ntwo\n");
        assert_eq!(joined(&["\"\"\"all at once\"\"\""]), "all at once");
    }
}
