//! An answer as a row of blocks: texts and calls of tools, one after the other.

use crate::edge::answer::calls::{Assembled, CallStart};

/// What happens to the block under way.
#[derive(Debug)]
pub enum Change {
    OpenText,
    OpenCall(CallStart),
    /// More of a text, or of a call's arguments.
    More(String),
    Close,
}

#[derive(Debug)]
pub enum Block {
    Text(String),
    Call { start: CallStart, arguments: String },
}

/// Follows an answer and says what happens to which block.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Whether the last block is open, and whether it is a text.
    open: Option<bool>,
    closed: usize,
}

impl Blocks {
    pub fn push(&mut self, told: Assembled) -> Vec<(usize, Change)> {
        let mut changes = vec![];
        if !told.text.is_empty() {
            if self.open != Some(true) {
                self.close(&mut changes);
                changes.push((self.closed, Change::OpenText));
                self.open = Some(true);
            }
            changes.push((self.closed, Change::More(told.text)));
        }
        for part in told.calls {
            if let Some(start) = part.start {
                self.close(&mut changes);
                changes.push((self.closed, Change::OpenCall(start)));
                self.open = Some(false);
            }
            if !part.arguments.is_empty() {
                changes.push((self.closed, Change::More(part.arguments)));
            }
        }
        changes
    }

    /// Whether a call is under way.
    pub fn in_call(&self) -> bool {
        self.open == Some(false)
    }

    /// Closes the last block.
    pub fn finish(&mut self) -> Vec<(usize, Change)> {
        let mut changes = vec![];
        self.close(&mut changes);
        changes
    }

    fn close(&mut self, changes: &mut Vec<(usize, Change)>) {
        if self.open.take().is_some() {
            changes.push((self.closed, Change::Close));
            self.closed += 1;
        }
    }
}

/// The blocks of a whole answer.
pub fn blocks(told: Assembled) -> Vec<Block> {
    let text = Some(told.text).filter(|text| !text.is_empty()).map(Block::Text);
    let calls = told
        .calls
        .into_iter()
        .filter_map(|part| Some(Block::Call { start: part.start?, arguments: part.arguments }));
    text.into_iter().chain(calls).collect()
}
