//! A model's tokenizer and chat template, of either engine.

use std::sync::{Arc, OnceLock};

use decode::{Fingerprint, Message, Token, Vocabulary};
use sha2::{Digest, Sha256};

use crate::{
    error::EngineError,
    template::{self, Part, Specials},
};

/// The tokenizer that comes with an engine.
pub(crate) trait Tokenizer: Send + Sync {
    /// The tokens of a text; `special` lets it spell special tokens.
    fn tokenize(&self, text: &str, special: bool) -> Vec<Token>;

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
    fingerprint: OnceLock<Fingerprint>,
}

impl ModelVocabulary {
    pub(crate) fn new(model: Arc<dyn Tokenizer>) -> Self {
        let template = model.chat_template();
        Self { model, template, fingerprint: OnceLock::new() }
    }

    /// The tokens of a conversation in the model's own template. A model without one gets the
    /// messages' texts, one on each line.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<Token>, EngineError> {
        let Some(template) = &self.template else {
            let lines: Vec<_> = messages.iter().map(|m| m.content.as_str()).collect();
            return Ok(self.raw_prompt(&lines.join("\n")));
        };
        let spell = |token: Option<Token>| {
            let bytes = token.map(|t| self.model.piece(t, true)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let specials =
            Specials { bos: spell(self.model.beginning().0), eos: spell(self.model.end()) };
        let parts = template::render(template, &specials, messages)
            .map_err(|e| EngineError::Template { reason: e.to_string() })?;
        let tokens = parts.iter().flat_map(|part| match part {
            Part::Template(text) => self.model.tokenize(text, true),
            Part::Content(text) => self.model.tokenize(text, false),
        });
        Ok(self.with_beginning(tokens.collect()))
    }

    /// The tokens of plain text that is to be continued, without a template.
    pub fn raw_prompt(&self, text: &str) -> Vec<Token> {
        self.with_beginning(self.model.tokenize(text, false))
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
    fn encode(&self, text: &str) -> Vec<Token> {
        self.model.tokenize(text, false)
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

    /// A hash of every token's spelling and attributes, in order.
    fn fingerprint(&self) -> Fingerprint {
        let compute = || {
            let mut hash = Sha256::new();
            for id in 0..self.len() as u32 {
                let (text, attributes) = self.model.spelling(Token(id));
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(&text);
                hash.update(attributes.to_le_bytes());
            }
            Fingerprint(decode::hex(&hash.finalize()[..16]))
        };
        self.fingerprint.get_or_init(compute).clone()
    }
}
