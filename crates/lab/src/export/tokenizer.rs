//! The tokenizer of a GGUF file as `tokenizer.json`, and the two small files that go with it.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use serde_json::{Map, Value as Json, json};

use super::{
    error::ExportError,
    source::{Source, int},
};

/// How the words of a text are told apart before they become tokens.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Tokens that end a text whatever the file says: models of these families stop at any of them.
const ENDS: [&str; 7] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<EOT>",
];

/// GGUF's kinds of token.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

enum TokenizerKind {
    /// Bytes spelled as letters, words cut by a pattern.
    Bytes { words: Json, whole_words: bool },
    /// Pieces with scores, spaces spelled as ▁.
    Pieces { leading_space: bool },
}

pub struct Tokenizer {
    kind: TokenizerKind,
    tokens: Vec<String>,
    kinds: Vec<i64>,
    merges: Vec<(String, String)>,
    pub bos: Option<usize>,
    pub eos: Option<usize>,
    pub pad: Option<usize>,
    add_bos: bool,
    template: Option<String>,
    context: usize,
}

impl Tokenizer {
    pub fn read(source: &Source) -> Result<Self, ExportError> {
        let texts = |key: &str| -> Option<Vec<String>> {
            let Some(Value::Array(values)) = source.value(key) else { return None };
            values.iter().map(|v| v.to_string().ok().cloned()).collect()
        };
        let missing = |what: &str| source.unsupported(format!("it has no {what}"));
        let tokens = texts("tokenizer.ggml.tokens").ok_or_else(|| missing("tokens"))?;
        let kinds = match source.value("tokenizer.ggml.token_type") {
            Some(Value::Array(values)) => values.iter().map(|v| int(v).unwrap_or(1)).collect(),
            _ => vec![1; tokens.len()],
        };
        let model = source.text("tokenizer.ggml.model").unwrap_or_default();
        let (kind, merges) = match model {
            "gpt2" => {
                let lines = texts("tokenizer.ggml.merges").ok_or_else(|| missing("merges"))?;
                let pair =
                    |line: &String| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
                let merges = lines.iter().map(pair).collect::<Option<Vec<_>>>();
                (words(source)?, merges.ok_or_else(|| missing("readable merges"))?)
            }
            "llama" => {
                let scores: Vec<f32> = match source.value("tokenizer.ggml.scores") {
                    Some(Value::Array(values)) => {
                        values.iter().map(|v| v.to_f32().unwrap_or(0.0)).collect()
                    }
                    _ => return Err(missing("scores for its tokens")),
                };
                let leading_space = flag(source, "tokenizer.ggml.add_space_prefix", true);
                (TokenizerKind::Pieces { leading_space }, merges_of(&tokens, &scores))
            }
            other => return Err(source.unsupported(format!("its tokenizer is {other:?}"))),
        };
        let add_bos = flag(source, "tokenizer.ggml.add_bos_token", model == "llama");
        Ok(Self {
            kind,
            merges,
            bos: source.index("tokenizer.ggml.bos_token_id"),
            eos: source.index("tokenizer.ggml.eos_token_id"),
            pad: source.index("tokenizer.ggml.padding_token_id"),
            add_bos,
            template: source.text("tokenizer.chat_template").map(str::to_owned),
            context: source.number("context_length").unwrap_or(0),
            tokens,
            kinds,
        })
    }

    fn kind(&self, id: usize) -> i64 {
        self.kinds.get(id).copied().unwrap_or(1)
    }

    fn token(&self, id: Option<usize>) -> Option<&String> {
        id.and_then(|id| self.tokens.get(id))
    }

    /// Every token that ends a text.
    pub fn ends(&self) -> Vec<usize> {
        let known =
            |id: &usize| ENDS.contains(&self.tokens[*id].as_str()) && self.kind(*id) == CONTROL;
        let mut ends: Vec<_> = self.eos.into_iter().collect();
        ends.extend((0..self.tokens.len()).filter(known).filter(|id| Some(*id) != self.eos));
        ends
    }

    pub fn json(&self) -> Json {
        // Logits that no token belongs to have names in GGUF files alone.
        let used = self.tokens.iter().enumerate().filter(|(id, _)| self.kind(*id) != UNUSED);
        let vocabulary: Map<String, Json> =
            used.map(|(id, text)| (text.clone(), json!(id))).collect();
        let added = self.tokens.iter().enumerate().filter_map(|(id, text)| {
            let special = match self.kind(id) {
                2 | CONTROL => true,
                USER_DEFINED => false,
                _ => return None,
            };
            Some(json!({
                "id": id, "content": text, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": special,
            }))
        });
        let mut whole = json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": added.collect::<Vec<_>>(),
            "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": byte_level(false),
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null,
                "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
                "byte_fallback": false, "ignore_merges": false, "vocab": vocabulary,
                "merges": self.merges.iter().map(|(a, b)| json!([a, b])).collect::<Vec<_>>(),
            },
        });
        match &self.kind {
            TokenizerKind::Bytes { words, whole_words } => {
                whole["pre_tokenizer"] = words.clone();
                whole["model"]["ignore_merges"] = json!(whole_words);
            }
            TokenizerKind::Pieces { leading_space } => {
                let spaces = json!({
                    "type": "Replace", "pattern": { "String": " " }, "content": "▁",
                });
                let prefix = json!({ "type": "Prepend", "prepend": "▁" });
                let steps = if *leading_space { vec![prefix, spaces] } else { vec![spaces] };
                whole["normalizer"] = json!({ "type": "Sequence", "normalizers": steps });
                whole["decoder"] = json!({ "type": "Sequence", "decoders": [
                    { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
                    { "type": "ByteFallback" }, { "type": "Fuse" },
                ]});
                whole["model"]["byte_fallback"] = json!(true);
                whole["model"]["fuse_unk"] = json!(true);
                let unknown = (0..self.tokens.len()).find(|&id| self.kind(id) == 2);
                whole["model"]["unk_token"] = json!(self.token(unknown));
            }
        }
        whole
    }

    pub fn config(&self) -> Json {
        let class = match self.kind {
            TokenizerKind::Bytes { .. } => "GPT2Tokenizer",
            TokenizerKind::Pieces { .. } => "LlamaTokenizer",
        };
        json!({
            "add_bos_token": self.add_bos, "add_prefix_space": false,
            "bos_token": self.token(self.bos), "eos_token": self.token(self.eos),
            "pad_token": self.token(self.pad), "chat_template": self.template,
            "clean_up_tokenization_spaces": false, "model_max_length": self.context,
            "tokenizer_class": class,
        })
    }

    pub fn generation_config(&self) -> Json {
        json!({
            "bos_token_id": self.bos, "eos_token_id": self.ends(), "pad_token_id": self.pad,
        })
    }
}

fn flag(source: &Source, key: &str, otherwise: bool) -> bool {
    source.value(key).and_then(|value| value.to_bool().ok()).unwrap_or(otherwise)
}

fn byte_level(regex: bool) -> Json {
    json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": regex,
    })
}

/// How words are cut, by the name llama.cpp has for it.
fn words(source: &Source) -> Result<TokenizerKind, ExportError> {
    let both =
        |first: Json, second: Json| json!({ "type": "Sequence", "pretokenizers": [first, second] });
    let split = |pattern: &str| {
        json!({
            "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false,
        })
    };
    let digits = json!({ "type": "Digits", "individual_digits": true });
    let (words, whole_words) = match source.text("tokenizer.ggml.pre").unwrap_or_default() {
        "smollm" => (both(digits, byte_level(true)), false),
        "gpt-2" => (byte_level(true), false),
        "qwen2" => (both(split(QWEN2), byte_level(false)), false),
        "llama-bpe" | "llama3" | "llama-v3" => (both(split(LLAMA3), byte_level(false)), true),
        other => {
            let reason = format!(
                "its tokenizer cuts words in the way {other:?}; known are smollm, gpt-2, qwen2 and \
                 llama-bpe"
            );
            return Err(source.unsupported(reason));
        }
    };
    Ok(TokenizerKind::Bytes { words, whole_words })
}

/// Pieces with scores, as merges: the better a piece, the sooner its parts are joined.
fn merges_of(tokens: &[String], scores: &[f32]) -> Vec<(String, String)> {
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().map(|(i, t)| (t.as_str(), i)).collect();
    let mut merges = vec![];
    for (id, token) in tokens.iter().enumerate() {
        let mut parts: Vec<_> = token
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| {
                let (left, right) = token.split_at(at);
                Some((*ids.get(left)?, *ids.get(right)?))
            })
            .collect();
        parts.sort_unstable();
        merges
            .extend(parts.into_iter().map(|parts| (scores.get(id).copied().unwrap_or(0.0), parts)));
    }
    merges.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    merges.into_iter().map(|(_, (l, r))| (tokens[l].clone(), tokens[r].clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_pieces_are_merged_first() {
        let tokens = ["a", "b", "c", "bc", "ab", "abc"].map(str::to_owned);
        let scores = [0.0, 0.0, 0.0, -2.0, -1.0, -3.0];
        let merges = merges_of(&tokens, &scores);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(merges, [pair("a", "b"), pair("b", "c"), pair("a", "bc"), pair("ab", "c")]);
    }
}
