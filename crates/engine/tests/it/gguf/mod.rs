//! Writes small GGUF files, good and bad, for the tests of several crates.
#![allow(dead_code)]

use std::{fs, path::Path};

#[derive(Clone)]
pub enum Value {
    Text(&'static str),
    Number(f32),
    Numbers(Vec<f32>),
    Count(u32),
    Long(u64),
    Texts(Vec<String>),
    Counts(Vec<i32>),
}

pub struct Tensor {
    pub name: String,
    /// Fastest first, as GGUF counts.
    pub shape: Vec<u64>,
    pub data: Vec<f32>,
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

pub fn write(path: &Path, values: &[(&str, Value)], tensors: &[Tensor]) {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((values.len() as u64).to_le_bytes());
    for (key, value) in values {
        text(&mut out, key);
        match value {
            Value::Text(value) => {
                out.extend(8u32.to_le_bytes());
                text(&mut out, value);
            }
            Value::Number(value) => {
                out.extend(6u32.to_le_bytes());
                out.extend(value.to_le_bytes());
            }
            Value::Numbers(values) => {
                out.extend([9u32.to_le_bytes(), 6u32.to_le_bytes()].concat());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| out.extend(value.to_le_bytes()));
            }
            Value::Count(value) => {
                out.extend(4u32.to_le_bytes());
                out.extend(value.to_le_bytes());
            }
            Value::Long(value) => {
                out.extend(10u32.to_le_bytes());
                out.extend(value.to_le_bytes());
            }
            Value::Texts(values) => {
                out.extend([9u32.to_le_bytes(), 8u32.to_le_bytes()].concat());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| text(&mut out, value));
            }
            Value::Counts(values) => {
                out.extend([9u32.to_le_bytes(), 5u32.to_le_bytes()].concat());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| out.extend(value.to_le_bytes()));
            }
        }
    }
    let mut offset = 0u64;
    for tensor in tensors {
        text(&mut out, &tensor.name);
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(0u32.to_le_bytes());
        out.extend(offset.to_le_bytes());
        offset += (tensor.data.len() as u64 * 4).next_multiple_of(32);
    }
    for tensor in tensors {
        out.resize(out.len().next_multiple_of(32), 0);
        tensor.data.iter().for_each(|x| out.extend(x.to_le_bytes()));
    }
    out.resize(out.len().next_multiple_of(32), 0);
    fs::write(path, out).unwrap();
}

/// A LoRA on the first layer's query projection.
pub fn lora(path: &Path, architecture: &'static str, hidden: u64) {
    let rank = 4;
    let ramp = |n: u64| (0..n).map(|i| ((i % 17) as f32 - 8.0) * 0.02).collect();
    let tensor = |name: &str, shape: [u64; 2]| Tensor {
        name: format!("blk.0.attn_q.weight.{name}"),
        shape: shape.to_vec(),
        data: ramp(shape[0] * shape[1]),
    };
    write(
        path,
        &[
            ("general.type", Value::Text("adapter")),
            ("general.architecture", Value::Text(architecture)),
            ("adapter.type", Value::Text("lora")),
            ("adapter.lora.alpha", Value::Number(8.0)),
        ],
        &[tensor("lora_a", [hidden, rank]), tensor("lora_b", [rank, hidden])],
    );
}

/// The width of [`model`].
pub const WIDTH: u64 = 32;

/// What a model of one tiny layer says of itself: a vocabulary of bytes, split as `pre` says.
pub fn metadata(pre: &'static str) -> Vec<(&'static str, Value)> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let unprintable = (0..=255u8).filter(|&byte| !printable(byte)).zip(256u32..);
    let unprintable: std::collections::HashMap<_, _> = unprintable.collect();
    let letter = |byte: u8| unprintable.get(&byte).copied().unwrap_or(u32::from(byte));
    let letters = (0..=255u8).map(|byte| char::from_u32(letter(byte)).unwrap().to_string());
    let tokens: Vec<_> = letters.chain(["aa".to_owned(), "<end>".to_owned()]).collect();
    let mut kinds = vec![1; tokens.len()];
    kinds[257] = 3;
    vec![
        ("general.architecture", Value::Text("llama")),
        ("llama.context_length", Value::Count(512)),
        ("llama.embedding_length", Value::Count(WIDTH as u32)),
        ("llama.block_count", Value::Count(1)),
        ("llama.feed_forward_length", Value::Count(WIDTH as u32)),
        ("llama.attention.head_count", Value::Count(1)),
        ("llama.attention.layer_norm_rms_epsilon", Value::Number(1e-5)),
        ("tokenizer.ggml.model", Value::Text("gpt2")),
        ("tokenizer.ggml.pre", Value::Text(pre)),
        ("tokenizer.ggml.tokens", Value::Texts(tokens)),
        ("tokenizer.ggml.token_type", Value::Counts(kinds)),
        ("tokenizer.ggml.merges", Value::Texts(vec!["a a".to_owned()])),
        ("tokenizer.ggml.eos_token_id", Value::Count(257)),
    ]
}

/// The same with a vocabulary of SentencePiece, which has bytes, letters and the words `ab` and `ba`.
pub fn sentence_piece(path: &Path) {
    let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
    let words = ["▁", "a", "b", "ab", "ba", "▁ab", "▁ba"].map(String::from);
    let special = ["<unk>", "<s>", "</s>"].map(String::from);
    let tokens: Vec<_> = special.into_iter().chain(bytes).chain(words).collect();
    let kind = |id: usize| match id {
        0 => 2,
        1 | 2 => 3,
        3..259 => 6,
        _ => 1,
    };
    let kinds = (0..tokens.len()).map(kind).collect();
    let scores = (0..tokens.len()).map(|id| id as f32 - 1000.0).collect();
    let count = tokens.len() as u64;
    let mut values = metadata("default");
    values.retain(|(key, _)| !key.starts_with("tokenizer."));
    values.extend([
        ("tokenizer.ggml.model", Value::Text("llama")),
        ("tokenizer.ggml.tokens", Value::Texts(tokens)),
        ("tokenizer.ggml.scores", Value::Numbers(scores)),
        ("tokenizer.ggml.token_type", Value::Counts(kinds)),
        ("tokenizer.ggml.bos_token_id", Value::Count(1)),
        ("tokenizer.ggml.eos_token_id", Value::Count(2)),
        ("tokenizer.ggml.unknown_token_id", Value::Count(0)),
    ]);
    write(path, &values, &weights_for(count));
}

/// The weights of that model.
pub fn weights() -> Vec<Tensor> {
    weights_for(258)
}

/// Weights for this many tokens.
pub fn weights_for(tokens: u64) -> Vec<Tensor> {
    let ramp = |n: u64| (0..n).map(|i| ((i % 13) as f32 - 6.0) * 0.05).collect();
    let tensor = |name: &str, shape: &[u64]| Tensor {
        name: format!("{name}.weight"),
        shape: shape.to_vec(),
        data: ramp(shape.iter().product()),
    };
    let square = [WIDTH, WIDTH];
    let mut tensors = vec![tensor("token_embd", &[WIDTH, tokens]), tensor("output_norm", &[WIDTH])];
    for name in ["attn_norm", "ffn_norm"] {
        tensors.push(tensor(&format!("blk.0.{name}"), &[WIDTH]));
    }
    for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_down", "ffn_up"] {
        tensors.push(tensor(&format!("blk.0.{name}"), &square));
    }
    tensors
}

/// A whole model of one tiny layer.
pub fn model(path: &Path, pre: &'static str) {
    write(path, &metadata(pre), &weights());
}
