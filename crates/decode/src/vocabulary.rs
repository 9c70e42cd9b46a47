//! The trait of a tokenizer, as far as the loop needs one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Token;

/// Names a vocabulary: two models with the same fingerprint can exchange token ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A model's tokenizer.
pub trait Vocabulary: Send + Sync {
    /// The tokens of plain text: never a special token, whatever the text says, and no
    /// beginning-of-text.
    fn encode(&self, text: &str) -> Vec<Token>;

    /// The bytes a token stands for; empty for a special token and for an id outside the
    /// vocabulary. A token may end inside a character.
    fn piece(&self, token: Token) -> Vec<u8>;

    /// As [`piece`](Self::piece), but special tokens are written out, such as `<|im_end|>`.
    fn spell(&self, token: Token) -> Vec<u8>;

    /// Whether the token ends the text.
    fn is_end(&self, token: Token) -> bool;

    /// How many tokens there are; every id is below this.
    fn len(&self) -> usize;

    /// How many of them are not padding. Models of one family pad their vocabulary to different
    /// lengths; ids from here on mean nothing and never travel.
    fn used(&self) -> usize {
        self.len()
    }

    /// Whether there are no tokens at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Equal for two vocabularies whose ids mean the same, whatever their padding.
    fn fingerprint(&self) -> Fingerprint;
}
