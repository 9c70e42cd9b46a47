//! A GGUF model's tokenizer.

use std::sync::{Arc, OnceLock};

use decode::{Fingerprint, Message, Token, Vocabulary};
use sha2::{Digest, Sha256};

use crate::{
    error::EngineError,
    llama,
    template::{self, Part, Specials},
};

/// The tokenizer and chat template of a loaded model; may be used from any thread.
pub struct GgufVocabulary {
    model: Arc<llama::Model>,
    template: Option<String>,
    fingerprint: OnceLock<Fingerprint>,
}

impl GgufVocabulary {
    pub(crate) fn new(model: Arc<llama::Model>) -> Self {
        let template = model.chat_template();
        Self { model, template, fingerprint: OnceLock::new() }
    }

    /// A conversation in the model's own template; one without a template gets the bare texts, a
    /// line each.
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
        Ok(self.begin(tokens.collect()))
    }

    /// Plain text to be continued.
    pub fn raw_prompt(&self, text: &str) -> Vec<Token> {
        self.begin(self.model.tokenize(text, false))
    }

    /// Puts beginning-of-text in front where the model wants it and the template did not.
    fn begin(&self, mut tokens: Vec<Token>) -> Vec<Token> {
        if let (Some(bos), true) = self.model.beginning()
            && tokens.first() != Some(&bos)
        {
            tokens.insert(0, bos);
        }
        tokens
    }
}

impl Vocabulary for GgufVocabulary {
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
            let digest = hash.finalize();
            Fingerprint(digest[..16].iter().map(|b| format!("{b:02x}")).collect())
        };
        self.fingerprint.get_or_init(compute).clone()
    }
}
