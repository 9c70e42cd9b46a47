//! A token's id in its model's vocabulary.

use serde::{Deserialize, Serialize};

/// A token's id. Ids of different vocabularies mean different things; see [`Fingerprint`](crate::Fingerprint).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u32);

impl Token {
    /// The id as an index into logits.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How many leading tokens two contexts share.
pub fn common_prefix(a: &[Token], b: &[Token]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
