//! A text as it is told: its words, and the calls of tools in it.

use decode::Accepted;
use tandem::tools::{CallReader, Read};

use crate::random::random_id;

/// Reads the tokens of one text.
#[derive(Debug, Default)]
pub struct Assembler {
    /// Where tools were offered.
    reader: Option<CallReader>,
    calls: usize,
}

/// What some tokens of a text tell.
#[derive(Debug, Default)]
pub struct Assembled {
    pub text: String,
    /// Calls, or more of the arguments of one.
    pub calls: Vec<CallPart>,
}

/// A call that begins, or more of its arguments.
#[derive(Debug)]
pub struct CallPart {
    /// How many calls came before it.
    pub index: usize,
    /// Where it begins.
    pub start: Option<CallStart>,
    pub arguments: String,
}

#[derive(Debug)]
pub struct CallStart {
    pub id: String,
    pub name: String,
}

impl Assembler {
    pub fn new(tools: bool) -> Self {
        Self { reader: tools.then(CallReader::default), calls: 0 }
    }

    /// Whether the text calls a tool.
    pub fn has_calls(&self) -> bool {
        self.calls > 0
    }

    pub fn push(&mut self, tokens: &[Accepted]) -> Assembled {
        let text: String = tokens.iter().map(|t| t.text.as_str()).collect();
        match &mut self.reader {
            None => Assembled { text, calls: vec![] },
            Some(reader) => {
                let read = reader.push(&text);
                self.assemble(read)
            }
        }
    }

    /// What was held back until it was clear that the text goes on no further.
    pub fn finish(&mut self) -> Assembled {
        let read = self.reader.as_mut().map(CallReader::finish).unwrap_or_default();
        self.assemble(read)
    }

    fn assemble(&mut self, read: Vec<Read>) -> Assembled {
        let mut assembled = Assembled::default();
        for read in read {
            match read {
                Read::Text(text) => assembled.text += &text,
                Read::Call(name) => {
                    let start = Some(CallStart { id: random_id("call_"), name });
                    let part = CallPart { index: self.calls, start, arguments: String::new() };
                    assembled.calls.push(part);
                    self.calls += 1;
                }
                Read::Arguments(more) => match assembled.calls.last_mut() {
                    Some(last) => last.arguments += &more,
                    None => {
                        let index = self.calls.saturating_sub(1);
                        assembled.calls.push(CallPart { index, start: None, arguments: more });
                    }
                },
            }
        }
        assembled
    }
}

impl Assembled {
    /// A whole text at once, and whether it calls a tool.
    pub fn whole(tools: bool, tokens: &[Accepted]) -> Self {
        let mut assembler = Assembler::new(tools);
        let mut whole = assembler.push(tokens);
        let rest = assembler.finish();
        whole.text += &rest.text;
        for part in rest.calls {
            match whole.calls.last_mut() {
                Some(last) if part.start.is_none() => last.arguments += &part.arguments,
                _ => whole.calls.push(part),
            }
        }
        whole
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }
}
