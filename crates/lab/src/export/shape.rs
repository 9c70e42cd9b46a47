//! The sizes of a model, from its own metadata.

use super::{error::ExportError, source::Source};

#[derive(Clone, Debug)]
pub struct Shape {
    pub architecture: String,
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head: usize,
    pub vocabulary: usize,
    pub context: usize,
    pub epsilon: f32,
    pub base: f32,
    /// What frequencies of the rotary embedding are divided by.
    pub stretch: f32,
    pub tied: bool,
}

/// The largest sizes that are taken at their word: far above any model's, and small enough that no
/// product of them overflows.
const MOST: usize = 1 << 20;

/// The sizes that are read.
const SIZES: [&str; 7] = [
    "embedding_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "rope.dimension_count",
    "block_count",
    "context_length",
];

impl Shape {
    pub fn read(source: &Source) -> Result<Self, ExportError> {
        let architecture = source.architecture()?.to_owned();
        if !["llama", "qwen2"].contains(&architecture.as_str()) {
            return Err(ExportError::Architecture { path: source.path().into(), architecture });
        }
        let number = |key: &str| {
            let found = source.number(key).filter(|n| *n > 0);
            found.ok_or_else(|| source.unsupported(format!("it does not say its {key}")))
        };
        for key in SIZES {
            if let Some(size) = source.number(key).filter(|size| *size > MOST) {
                return Err(source.unsupported(format!("its {key} is {size}, above {MOST}")));
            }
        }
        let (hidden, heads) = (number("embedding_length")?, number("attention.head_count")?);
        let kv_heads = source.number("attention.head_count_kv").unwrap_or(heads);
        let head = source.number("attention.key_length").unwrap_or(hidden / heads);
        let rotary = source.number("rope.dimension_count").unwrap_or(head);
        if rotary != head || !head.is_multiple_of(2) {
            return Err(source.unsupported(format!("only {rotary} of {head} numbers are rotated")));
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(source.unsupported(format!("{kv_heads} key heads for {heads} heads")));
        }
        let stretch = match source.text(&format!("{architecture}.rope.scaling.type")) {
            None | Some("none") => 1.0,
            Some("linear") => source.float("rope.scaling.factor").unwrap_or(1.0),
            Some(other) => {
                let reason = format!("its positions are scaled in the way {other:?}");
                return Err(source.unsupported(reason));
            }
        };
        let (vocabulary, columns) = source.shape("token_embd.weight")?;
        if columns != hidden {
            return Err(source.unsupported(format!("embeddings of {columns}, not {hidden}")));
        }
        let epsilon = source.float("attention.layer_norm_rms_epsilon");
        Ok(Self {
            layers: number("block_count")?,
            context: number("context_length")?,
            epsilon: epsilon.ok_or_else(|| source.unsupported("it does not say its epsilon"))?,
            base: source.float("rope.freq_base").unwrap_or(10_000.0),
            tied: !source.has("output.weight"),
            architecture,
            hidden,
            heads,
            kv_heads,
            head,
            vocabulary,
            stretch,
        })
    }

    pub fn query(&self) -> usize {
        self.heads * self.head
    }

    pub fn key(&self) -> usize {
        self.kv_heads * self.head
    }
}
