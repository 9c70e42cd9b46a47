//! Writes small GGUF files, good and bad.

use std::{fs, path::Path};

pub enum Value {
    Text(&'static str),
    Number(f32),
}

pub struct Tensor {
    pub name: String,
    /// Fastest first, as GGUF counts.
    pub shape: [u64; 2],
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
        }
    }
    let mut offset = 0u64;
    for tensor in tensors {
        text(&mut out, &tensor.name);
        out.extend(2u32.to_le_bytes());
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
        shape,
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
