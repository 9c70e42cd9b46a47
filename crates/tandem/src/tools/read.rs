//! Calls in a text while it grows.

use super::{CLOSE, OPEN};

/// What was read of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Text that belongs to no call.
    Text(String),
    /// A call begins: this is the name of its tool.
    Call(String),
    /// More of the arguments of the last call, as JSON.
    Arguments(String),
}

/// Reads the calls of a text as it comes in, piece by piece. What may still become the beginning of a
/// call is held back.
#[derive(Debug, Default)]
pub struct CallReader {
    held: String,
    state: ReadState,
    calls: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReadState {
    #[default]
    Text,
    /// Behind `<tool_call>`, before the arguments.
    Head,
    Arguments,
}

const ARGUMENTS: &str = "\"arguments\": ";
const NAME: &str = "\"name\": \"";

impl CallReader {
    /// How many calls have begun.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Reads the next piece of the text and returns what is certain with it.
    pub fn push(&mut self, text: &str) -> Vec<Read> {
        self.held += text;
        let mut read = vec![];
        while self.step(&mut read) {}
        read
    }

    /// Reads what was held back: the text has ended, perhaps inside a call.
    pub fn finish(&mut self) -> Vec<Read> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            ReadState::Text if self.calls > 0 && held.trim().is_empty() => vec![],
            ReadState::Text if !held.is_empty() => vec![Read::Text(held)],
            ReadState::Arguments if !held.is_empty() => vec![Read::Arguments(held)],
            _ => vec![],
        }
    }

    /// Whether there may be more to read.
    fn step(&mut self, read: &mut Vec<Read>) -> bool {
        match self.state {
            ReadState::Text => {
                let Some(at) = self.held.find(OPEN) else {
                    let certain = self.held.len() - may_open(&self.held);
                    self.take(certain, Read::Text, read);
                    return false;
                };
                // Blanks before a call only separate it.
                let text = self.held[..at].trim_end().len();
                self.take(text, Read::Text, read);
                self.held.drain(..at - text + OPEN.len());
                self.state = ReadState::Head;
            }
            ReadState::Head => {
                let Some(at) = self.held.find(ARGUMENTS) else { return false };
                let name = self.held[..at].split_once(NAME).and_then(|(_, n)| n.split_once('"'));
                let name = name.map_or_else(String::new, |(name, _)| name.to_owned());
                read.push(Read::Call(name));
                self.held.drain(..at + ARGUMENTS.len());
                self.calls += 1;
                self.state = ReadState::Arguments;
            }
            ReadState::Arguments => {
                let end = format!("}}\n{CLOSE}");
                let Some(at) = self.held.find(&end) else {
                    let certain = self.held.len() - overlap(&self.held, &end);
                    self.take(certain, Read::Arguments, read);
                    return false;
                };
                self.take(at, Read::Arguments, read);
                self.held.drain(..end.len());
                self.state = ReadState::Text;
            }
        }
        true
    }

    fn take(&mut self, length: usize, kind: fn(String) -> Read, read: &mut Vec<Read>) {
        if length > 0 {
            read.push(kind(self.held.drain(..length).collect()));
        }
    }
}

/// How many bytes at the end may begin a call, blanks before it included.
fn may_open(text: &str) -> usize {
    let word = overlap(text, OPEN);
    let before = &text[..text.len() - word];
    word + before.len() - before.trim_end().len()
}

/// How many bytes at the end of a text are a beginning of the word.
fn overlap(text: &str, word: &str) -> usize {
    (1..word.len()).rev().find(|&n| text.ends_with(&word[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let mut reader = CallReader::default();
        let mut all: Vec<Read> = pieces.iter().flat_map(|piece| reader.push(piece)).collect();
        all.extend(reader.finish());
        let (mut text, mut calls) = (String::new(), vec![]);
        for read in all {
            match read {
                Read::Text(more) => text += &more,
                Read::Call(name) => calls.push((name, String::new())),
                Read::Arguments(more) => calls.last_mut().unwrap().1 += &more,
            }
        }
        assert_eq!(calls.len(), reader.calls());
        (text, calls)
    }

    #[test]
    fn calls_are_read_whatever_the_pieces() {
        let whole = "Let me see. é\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": {}}}\n\
            </tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n";
        let expected = [("f".into(), "{\"a\": {}}".into()), ("g".into(), "{}".into())];
        for size in 1..whole.len() {
            let characters: Vec<char> = whole.chars().collect();
            let pieces: Vec<String> = characters.chunks(size).map(|c| c.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (text, calls) = read(&pieces);
            assert_eq!((text.as_str(), calls.as_slice()), ("Let me see. é", &expected[..]));
        }
    }

    #[test]
    fn text_without_calls_is_only_text() {
        for text in ["a < b\n", " <tool", "<tool_calls are none", "", "x \n "] {
            let pieces: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(read(&pieces), (text.to_owned(), vec![]));
        }
    }

    #[test]
    fn a_call_that_is_cut_off_keeps_what_it_has() {
        let (_, calls) = read(&["<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b}\n"]);
        assert_eq!(calls, [("f".into(), "{\"a\": \"b}\n".into())]);
    }
}
