//! The tokenizer of an ONNX model: `tokenizer.json`, and special tokens and template from the files
//! beside it.

use std::{collections::HashMap, fs, panic::catch_unwind};

use decode::Token;
use serde_json::Value as Json;
use tokenizers::Tokenizer as HfTokenizer;

use crate::{
    error::EngineError,
    vocabulary::{Tokenizer, UNUSED},
};

use super::Folder;

/// Token attributes in llama.cpp's numbering, so that a vocabulary has the same fingerprint in both
/// engines.
const NORMAL: u32 = 4;
const CONTROL: u32 = 8;
const USER_DEFINED: u32 = 16;

pub(crate) struct JsonTokenizer {
    /// Reads the spelling of a special token as plain text.
    plain: HfTokenizer,
    /// Reads it as the special token.
    special: HfTokenizer,
    tokens: Vec<Option<TokenText>>,
    bos: Option<Token>,
    add_bos: bool,
    eos: Option<Token>,
    ends: Vec<Token>,
    template: Option<String>,
}

struct TokenText {
    text: String,
    bytes: Vec<u8>,
    attributes: u32,
}

impl JsonTokenizer {
    pub fn read(folder: &Folder, logits: usize) -> Result<Self, EngineError> {
        let Some(path) = folder.beside("tokenizer.json") else {
            let reason = "there is no tokenizer.json beside it".into();
            return Err(EngineError::ModelFile { path: folder.model().into(), reason });
        };
        let json = folder.json("tokenizer.json")?.unwrap_or_default();
        let unusable = |reason| EngineError::ModelFile { path: path.clone(), reason };
        // The library panics where a part of the file is not what it expects.
        let read = catch_unwind(|| HfTokenizer::from_file(&path));
        let special = read
            .map_err(|_| unusable("it is no tokenizer that can be read".into()))?
            .map_err(|e| unusable(e.to_string()))?;
        let mut plain = special.clone();
        plain.set_encode_special_tokens(true);
        let config = folder.json("tokenizer_config.json")?.unwrap_or_default();
        let tokens = token_texts(&special, &json, logits).map_err(unusable)?;
        let named = |key: &str| special.token_to_id(&content(config.get(key)?)?).map(Token);
        let (bos, eos) = (named("bos_token"), named("eos_token"));
        let add_bos = config.get("add_bos_token").and_then(Json::as_bool).unwrap_or(false);
        let mut ends = vec![];
        for (file, pointer) in [
            ("generation_config.json", "/eos_token_id"),
            ("genai_config.json", "/model/eos_token_id"),
        ] {
            let json = folder.json(file)?.unwrap_or_default();
            ends.extend(ids(json.pointer(pointer)));
            if !ends.is_empty() {
                break;
            }
        }
        ends.extend(eos.filter(|eos| !ends.contains(eos)));
        let template = template(folder, &config)?;
        Ok(Self { plain, special, tokens, bos, add_bos, eos, ends, template })
    }

    fn token(&self, token: Token) -> Option<&TokenText> {
        self.tokens.get(token.index())?.as_ref()
    }
}

/// Accepts one id or a list of them.
fn ids(json: Option<&Json>) -> Vec<Token> {
    let id = |json: &Json| json.as_u64().and_then(|id| u32::try_from(id).ok()).map(Token);
    match json {
        Some(Json::Array(several)) => several.iter().filter_map(id).collect(),
        Some(one) => id(one).into_iter().collect(),
        None => vec![],
    }
}

/// A token's text: written plainly, or with its properties.
fn content(json: &Json) -> Option<String> {
    let text = json.as_str().or_else(|| json.get("content")?.as_str());
    text.map(str::to_owned)
}

/// The chat template: a file of its own, one in the configuration, or the first of several there.
fn template(folder: &Folder, config: &Json) -> Result<Option<String>, EngineError> {
    if let Some(path) = folder.beside("chat_template.jinja") {
        let text = fs::read_to_string(&path);
        let refuse = |e: std::io::Error| EngineError::ModelFile { path, reason: e.to_string() };
        return text.map(Some).map_err(refuse);
    }
    let text = |json: &Json| json.as_str().map(str::to_owned);
    Ok(match config.get("chat_template") {
        Some(Json::Array(several)) => {
            let default = several.iter().find(|t| t.get("name").is_some_and(|n| n == "default"));
            default.or(several.first()).and_then(|t| t.get("template")).and_then(text)
        }
        Some(one) => text(one),
        None => None,
    })
}

/// The largest vocabulary that is believed: a single id decides how many tokens there are.
const MOST_TOKENS: usize = 1 << 22;

/// Every token's spelling, as many as there are logits.
fn token_texts(
    inner: &HfTokenizer,
    json: &Json,
    logits: usize,
) -> Result<Vec<Option<TokenText>>, String> {
    let byte_level = has_kind(json.get("decoder"), "ByteLevel");
    let letters = byte_letters();
    let added: HashMap<u32, bool> = inner
        .get_added_tokens_decoder()
        .into_iter()
        .map(|(id, token)| (id, token.special))
        .collect();
    let vocabulary = inner.get_vocab(true);
    let most = vocabulary.values().max().map_or(0, |&id| id as usize + 1).max(logits);
    if most > MOST_TOKENS {
        return Err(format!("it has a token with the id {}, above {MOST_TOKENS}", most - 1));
    }
    let mut tokens: Vec<Option<TokenText>> = (0..most).map(|_| None).collect();
    for (text, id) in vocabulary {
        let (bytes, attributes) = match added.get(&id) {
            Some(special) => {
                let attributes = if *special { CONTROL } else { USER_DEFINED };
                (text.as_bytes().to_vec(), attributes)
            }
            None if byte_level => (from_letters(&text, &letters), NORMAL),
            None => (from_pieces(&text), NORMAL),
        };
        if let Some(slot) = tokens.get_mut(id as usize) {
            *slot = Some(TokenText { text, bytes, attributes });
        }
    }
    Ok(tokens)
}

/// Whether a decoder is of this kind, or a sequence with one.
fn has_kind(json: Option<&Json>, kind: &str) -> bool {
    let Some(json) = json else { return false };
    let inner = json.get("decoders").and_then(Json::as_array);
    json.get("type").is_some_and(|t| t == kind)
        || inner.is_some_and(|inner| inner.iter().any(|d| has_kind(Some(d), kind)))
}

/// The letters that byte-level tokenizers write for bytes: printable bytes stand for themselves, the
/// others are letters from 256 on.
fn byte_letters() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256;
    (0..=255u8)
        .filter_map(|byte| {
            let letter = if printable(byte) {
                u32::from(byte)
            } else {
                next += 1;
                next - 1
            };
            Some((char::from_u32(letter)?, byte))
        })
        .collect()
}

fn from_letters(text: &str, letters: &HashMap<char, u8>) -> Vec<u8> {
    let bytes = |letter: char| match letters.get(&letter) {
        Some(byte) => vec![*byte],
        None => letter.to_string().into_bytes(),
    };
    text.chars().flat_map(bytes).collect()
}

/// SentencePiece writes ▁ for a space and `<0x0A>` for a byte that is not a letter.
fn from_pieces(text: &str) -> Vec<u8> {
    let byte = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
    match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => vec![byte],
        None => text.replace('▁', " ").into_bytes(),
    }
}

impl Tokenizer for JsonTokenizer {
    fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>, String> {
        let inner = if special { &self.special } else { &self.plain };
        // Fails where a pattern of the tokenizer gives up, or its unknown token is no token.
        let encoding = inner.encode_fast(text, false).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().iter().copied().map(Token).collect())
    }

    fn piece(&self, token: Token, special: bool) -> Vec<u8> {
        let shown = |t: &&TokenText| special || t.attributes != CONTROL;
        self.token(token).filter(shown).map(|t| t.bytes.clone()).unwrap_or_default()
    }

    fn is_end(&self, token: Token) -> bool {
        self.ends.contains(&token)
    }

    fn spelling(&self, token: Token) -> (Vec<u8>, u32) {
        match self.token(token) {
            Some(t) => (t.text.as_bytes().to_vec(), t.attributes),
            // There are more logits than tokens. GGUF files fill the gap with these names.
            None => (format!("[PAD{}]", token.0).into_bytes(), UNUSED),
        }
    }

    fn beginning(&self) -> (Option<Token>, bool) {
        (self.bos, self.add_bos)
    }

    fn end(&self) -> Option<Token> {
        self.eos
    }

    fn chat_template(&self) -> Option<String> {
        self.template.clone()
    }

    fn vocabulary_len(&self) -> usize {
        self.tokens.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_behind_letters_and_pieces() {
        let letters = byte_letters();
        assert_eq!(letters.len(), 256);
        assert_eq!(from_letters("Ġtheċ", &letters), b" the\x0b");
        assert_eq!(from_letters("Ã©", &letters), "é".as_bytes());
        assert_eq!(from_pieces("▁the"), b" the");
        assert_eq!(from_pieces("<0x0A>"), b"\n");
        assert_eq!(from_pieces("<0xyz>"), b"<0xyz>");
    }

    #[test]
    fn ends_are_one_or_several() {
        assert_eq!(ids(Some(&serde_json::json!(2))), [Token(2)]);
        assert_eq!(ids(Some(&serde_json::json!([2, 7]))), [Token(2), Token(7)]);
        assert!(ids(None).is_empty());
    }

    #[test]
    fn damaged_tokenizers_are_refused_or_usable() {
        let corpus = [
            include_bytes!("../../tests/onnx_models/tokenizer.json").to_vec(),
            serde_json::json!({
                "version": "1.0",
                "added_tokens": [{
                    "id": 2, "content": "<s>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true,
                }],
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
                    "trim_offsets": true, "use_regex": true},
                "decoder": {"type": "ByteLevel", "add_prefix_space": false,
                    "trim_offsets": true, "use_regex": true},
                "model": {"type": "BPE", "dropout": null, "unk_token": null,
                    "continuing_subword_prefix": null, "end_of_word_suffix": null,
                    "fuse_unk": false, "byte_fallback": false,
                    "vocab": {"a": 0, "b": 1, "ab": 3}, "merges": ["a b"]},
            })
            .to_string()
            .into_bytes(),
        ];
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::find(&home.path().join("model.onnx")).unwrap().unwrap();
        let (mut good, mut bad) = (0, 0);
        decode::mutation::each(&corpus, 400, |bytes| {
            fs::write(home.path().join("tokenizer.json"), bytes).unwrap();
            match JsonTokenizer::read(&folder, 300) {
                Ok(tokenizer) => {
                    good += 1;
                    assert!(tokenizer.vocabulary_len() <= MOST_TOKENS);
                }
                Err(_) => bad += 1,
            }
        });
        assert!(good > corpus.len() && bad > 10, "{good} were read, {bad} were refused");
    }

    #[test]
    fn a_long_text_has_the_same_tokens_in_pieces() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::find(&home.path().join("model.onnx")).unwrap().unwrap();
        let json = include_bytes!("../../tests/onnx_models/tokenizer.json");
        fs::write(home.path().join("tokenizer.json"), json).unwrap();
        let tokenizer = std::sync::Arc::new(JsonTokenizer::read(&folder, 64).unwrap());
        let vocabulary = crate::ModelVocabulary::new(tokenizer.clone());
        let text = "the sea is wide, and 12 ships cross it by night.\n".repeat(2000);
        let tokens = vocabulary.raw_prompt(&text).unwrap();
        assert!(tokens.len() > 20_000);
        assert_eq!(tokens, tokenizer.tokenize(&text, false).unwrap());
    }

    #[test]
    fn one_large_id_does_not_take_all_memory() {
        let json = serde_json::json!({
            "version": "1.0",
            "added_tokens": [],
            "model": {"type": "WordLevel", "vocab": {"a": 0, "b": u32::MAX}, "unk_token": "a"},
        });
        let tokenizer = HfTokenizer::from_bytes(json.to_string()).unwrap();
        let refused = token_texts(&tokenizer, &json, 2).err().unwrap();
        assert!(refused.contains("4294967295"), "{refused}");
    }
}
