//! The number format of a model's weights. A router trained at one precision is wrong for another.

use std::fmt;

use crate::graph::{ElementType, Graph};

/// The number format of most of a model's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Fp32,
    Fp16,
    Bf16,
    Int8,
    Int4,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        })
    }
}

impl Precision {
    /// The precision of most matrix multiplications; without quantised ones, of most weights.
    pub fn of(graph: &Graph<'_>) -> Self {
        let bits = |node: &crate::graph::Node<'_>| match node.op {
            "MatMulNBits" | "MatMulBnb4" => match node.int("bits") {
                Some(8) => Some(Self::Int8),
                _ => Some(Self::Int4),
            },
            "MatMulInteger"
            | "DynamicQuantizeMatMul"
            | "QLinearMatMul"
            | "QGemm"
            | "MatMulIntegerToFloat" => Some(Self::Int8),
            _ => None,
        };
        let quantised: Vec<_> = graph.nodes.iter().filter_map(bits).collect();
        if !quantised.is_empty() {
            let four = quantised.iter().filter(|p| **p == Self::Int4).count();
            return if 2 * four > quantised.len() { Self::Int4 } else { Self::Int8 };
        }
        // Counted by size, so that small tables, for example of positions, do not matter.
        let numbers = |wanted: &[ElementType]| -> i64 {
            let of_kind = graph.initializers.values().filter(|t| wanted.contains(&t.element));
            let size = |dims: &[i64]| dims.iter().fold(1i64, |n, &d| n.saturating_mul(d.max(0)));
            of_kind.fold(0, |sum: i64, t| sum.saturating_add(size(&t.dims)))
        };
        let kinds = [
            (Self::Fp32, numbers(&[ElementType::Float])),
            (Self::Fp16, numbers(&[ElementType::Float16])),
            (Self::Bf16, numbers(&[ElementType::Bfloat16])),
            (Self::Int8, numbers(&[ElementType::Int8, ElementType::Uint8])),
            (Self::Int4, numbers(&[ElementType::Other(21), ElementType::Other(22)])),
        ];
        kinds.into_iter().max_by_key(|(_, count)| *count).map_or(Self::Fp32, |(kind, _)| kind)
    }
}
