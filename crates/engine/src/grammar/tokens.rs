//! A vocabulary as llguidance wants it: all tokens by their bytes.

use std::sync::Arc;

use decode::{Token, Vocabulary};
use llguidance::toktrie::{TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::GrammarError;

pub struct Tokens {
    vocabulary: Arc<dyn Vocabulary>,
    trie: TokTrie,
}

impl Tokens {
    pub fn new(vocabulary: Arc<dyn Vocabulary>) -> Result<Self, GrammarError> {
        let count = u32::try_from(vocabulary.len())
            .map_err(|_| GrammarError("the vocabulary is too large".into()))?;
        let ends: Vec<TokenId> = (0..count).filter(|&id| vocabulary.is_end(Token(id))).collect();
        let Some(&end) = ends.first() else {
            return Err(GrammarError("the model has no token that ends a text".into()));
        };
        let words: Vec<Vec<u8>> = (0..count).map(|id| word(&*vocabulary, Token(id))).collect();
        let trie = TokTrie::from(&TokRxInfo::new(count, end), &words).with_eos_tokens(&ends);
        Ok(Self { vocabulary, trie })
    }
}

/// A token's bytes. Special tokens are marked, so that no text means them; what can never be written
/// has no bytes.
fn word(vocabulary: &dyn Vocabulary, token: Token) -> Vec<u8> {
    if token.index() >= vocabulary.used() {
        return vec![];
    }
    let piece = if vocabulary.is_end(token) { vec![] } else { vocabulary.piece(token) };
    match piece.first() {
        // No text has this byte, and for llguidance it marks a special token.
        Some(&TokTrie::SPECIAL_TOKEN_MARKER) => vec![],
        Some(_) => piece,
        None => {
            let spelling = vocabulary.spell(token);
            if spelling.is_empty() {
                return vec![];
            }
            [&[TokTrie::SPECIAL_TOKEN_MARKER][..], &spelling].concat()
        }
    }
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode = |text: &str| self.vocabulary.encode(text).into_iter().map(|t| t.0).collect();
        self.trie.tokenize_with_greedy_fallback(bytes, encode)
    }
}
