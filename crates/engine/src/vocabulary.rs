//! A model's tokenizer and chat template, of either engine.

use std::sync::{Arc, OnceLock};

use decode::{Fingerprint, Message, Token, Vocabulary};
use sha2::{Digest, Sha256};

use crate::{
    error::EngineError,
    pieces,
    template::{self, Part, Specials},
};

/// llama.cpp's attribute of a token that no text has; padding is made of them.
pub(crate) const UNUSED: u32 = 2;

/// A tokenizer may drop a little, such as a space in front of a text, so a vocabulary of single
/// characters is not taken at its word.
const SHORTEST_LONGEST: usize = 16;

/// The most bytes that are tokenized as a whole, where a text has other tokens in pieces.
const MOST_WHOLE: usize = 256 << 10;

/// The tokenizer that comes with an engine.
pub(crate) trait Tokenizer: Send + Sync {
    /// The tokens of a text, or why it has none; `special` lets it spell special tokens.
    fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>, String>;

    /// Whether it cuts long texts itself.
    fn cuts(&self) -> bool {
        false
    }

    /// A token's bytes; special tokens have none unless `special`.
    fn piece(&self, token: Token, special: bool) -> Vec<u8>;

    fn is_end(&self, token: Token) -> bool;

    /// A token as the vocabulary writes it, and its attributes in llama.cpp's numbering.
    fn spelling(&self, token: Token) -> (Vec<u8>, u32);

    /// The beginning-of-text token, and whether a context should start with it.
    fn beginning(&self) -> (Option<Token>, bool);

    /// The end-of-text token that templates write.
    fn end(&self) -> Option<Token>;

    fn chat_template(&self) -> Option<String>;

    fn vocabulary_len(&self) -> usize;
}

/// The tokenizer and chat template of a loaded model; may be used from any thread.
pub struct ModelVocabulary {
    model: Arc<dyn Tokenizer>,
    template: Option<String>,
    identity: OnceLock<Identity>,
    /// The bytes of its longest token.
    longest: OnceLock<usize>,
    /// Whether a text has the same tokens in pieces.
    joins: OnceLock<bool>,
}

/// What two vocabularies are compared by.
struct Identity {
    /// The number of tokens before the padding.
    used: usize,
    fingerprint: Fingerprint,
}

impl ModelVocabulary {
    pub(crate) fn new(model: Arc<dyn Tokenizer>) -> Self {
        let template = model.chat_template();
        let (identity, longest, joins) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { model, template, identity, longest, joins }
    }

    /// The tokens of a conversation in the model's own template. A model without one gets the
    /// messages' texts, one on each line.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<Token>, EngineError> {
        let Some(template) = &self.template else {
            let lines: Vec<_> = messages.iter().map(|m| m.content.as_str()).collect();
            return self.raw_prompt(&lines.join("\n"));
        };
        let spell = |token: Option<Token>| {
            let bytes = token.map(|t| self.model.piece(t, true)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let specials =
            Specials { bos: spell(self.model.beginning().0), eos: spell(self.model.end()) };
        let parts = template::render(template, &specials, messages)?;
        let mut tokens = vec![];
        for part in &parts {
            tokens.extend(match part {
                Part::Template(text) => self.tokenize(text, true)?,
                Part::Content(text) => self.tokenize(text, false)?,
            });
        }
        Ok(self.with_beginning(tokens))
    }

    /// The tokens of plain text that is to be continued, without a template.
    pub fn raw_prompt(&self, text: &str) -> Result<Vec<Token>, EngineError> {
        Ok(self.with_beginning(self.tokenize(text, false)?))
    }

    fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>, EngineError> {
        self.tokens(text, special).map_err(|reason| EngineError::Tokenize { reason })
    }

    /// A long text in pieces, wherever that makes no difference: as a whole it takes some hundred times
    /// its size while it is tokenized.
    fn tokens(&self, text: &str, special: bool) -> Result<Vec<Token>, String> {
        if text.len() <= pieces::PIECE_BYTES || special || self.model.cuts() {
            return self.model.tokenize(text, special);
        }
        let tokenize = |text: &str| self.model.tokenize(text, false);
        if *self.joins.get_or_init(|| pieces::can_join(tokenize))
            && let Some(tokens) = pieces::joined(text, tokenize)?
        {
            return Ok(tokens);
        }
        if text.len() > MOST_WHOLE {
            let (bytes, most) = (text.len(), MOST_WHOLE >> 10);
            let reason = "this model's vocabulary reads a text only as a whole";
            return Err(format!("{reason}, at most {most} KiB of it, not {bytes} bytes"));
        }
        self.model.tokenize(text, false)
    }

    /// The bytes of its longest token, so that a text that cannot fit a context is known by its
    /// length.
    pub fn longest_token(&self) -> usize {
        *self.longest.get_or_init(|| {
            let piece = |id: usize| self.model.piece(Token(id as u32), true).len();
            (0..self.len()).map(piece).max().unwrap_or(0).max(SHORTEST_LONGEST)
        })
    }

    /// Puts beginning-of-text in front where the model wants it and the template did not.
    fn with_beginning(&self, mut tokens: Vec<Token>) -> Vec<Token> {
        if let (Some(bos), true) = self.model.beginning()
            && tokens.first() != Some(&bos)
        {
            tokens.insert(0, bos);
        }
        tokens
    }
}

impl Vocabulary for ModelVocabulary {
    /// Cuts a text that cannot be tokenized into halves, until what cannot is one character.
    fn encode(&self, text: &str) -> Vec<Token> {
        match self.tokens(text, false) {
            Ok(tokens) => tokens,
            Err(reason) => {
                let half = text.floor_char_boundary(text.len() / 2);
                let middle = if half == 0 { text.ceil_char_boundary(1) } else { half };
                if middle >= text.len() {
                    tracing::warn!(reason, "a character has no tokens and is left out");
                    return vec![];
                }
                let (left, right) = text.split_at(middle);
                [self.encode(left), self.encode(right)].concat()
            }
        }
    }

    fn piece(&self, token: Token) -> Vec<u8> {
        self.model.piece(token, false)
    }

    fn spell(&self, token: Token) -> Vec<u8> {
        self.model.piece(token, true)
    }

    fn is_end(&self, token: Token) -> bool {
        self.model.is_end(token)
    }

    fn len(&self) -> usize {
        self.model.vocabulary_len()
    }

    fn used(&self) -> usize {
        self.identity().used
    }

    fn fingerprint(&self) -> Fingerprint {
        self.identity().fingerprint.clone()
    }
}

impl ModelVocabulary {
    /// A hash of the spelling and attributes of every token before the padding, in order.
    fn identity(&self) -> &Identity {
        self.identity.get_or_init(|| {
            let is_used = |&id: &usize| self.model.spelling(Token(id as u32)).1 & UNUSED == 0;
            let used = (0..self.len()).rev().find(is_used).map_or(0, |last| last + 1);
            let mut hash = Sha256::new();
            for id in 0..used as u32 {
                let (text, attributes) = self.model.spelling(Token(id));
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(&text);
                hash.update(attributes.to_le_bytes());
            }
            Identity { used, fingerprint: Fingerprint(decode::hex(&hash.finalize()[..16])) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words, a special token, and padding.
    struct Padded {
        words: Vec<&'static str>,
        special: &'static str,
        padding: usize,
    }

    impl Tokenizer for Padded {
        fn tokenize(&self, _: &str, _: bool) -> Result<Vec<Token>, String> {
            Ok(vec![])
        }

        fn piece(&self, token: Token, _: bool) -> Vec<u8> {
            self.spelling(token).0
        }

        fn is_end(&self, token: Token) -> bool {
            token.index() == self.words.len()
        }

        fn spelling(&self, token: Token) -> (Vec<u8>, u32) {
            let (special, id) = (self.words.len(), token.index());
            match self.words.get(id) {
                Some(word) => (word.as_bytes().to_vec(), 4),
                None if id == special => (self.special.as_bytes().to_vec(), 8),
                None => (format!("[PAD{id}]").into_bytes(), UNUSED),
            }
        }

        fn beginning(&self) -> (Option<Token>, bool) {
            (None, false)
        }

        fn end(&self) -> Option<Token> {
            None
        }

        fn chat_template(&self) -> Option<String> {
            None
        }

        fn vocabulary_len(&self) -> usize {
            self.words.len() + 1 + self.padding
        }
    }

    fn vocabulary(
        words: &[&'static str],
        special: &'static str,
        padding: usize,
    ) -> ModelVocabulary {
        ModelVocabulary::new(Arc::new(Padded { words: words.to_vec(), special, padding }))
    }

    #[test]
    fn padding_makes_no_other_vocabulary() {
        let (short, long) =
            (vocabulary(&["a", "b"], "<end>", 1), vocabulary(&["a", "b"], "<end>", 129));
        assert_eq!((short.len(), long.len()), (4, 132));
        assert_eq!((short.used(), long.used()), (3, 3));
        assert_eq!(short.fingerprint(), long.fingerprint());
        // A word or a special token does.
        assert_ne!(short.fingerprint(), vocabulary(&["a", "c"], "<end>", 1).fingerprint());
        assert_ne!(short.fingerprint(), vocabulary(&["a", "b"], "<stop>", 1).fingerprint());
        assert_ne!(short.fingerprint(), vocabulary(&["a", "b", "c"], "<end>", 0).fingerprint());
    }
}
