//! The graph of the llama and qwen2 families.

use std::io;

use onnx::graph::ElementType;

use super::{
    Weights,
    builder::{
        Attribute::{Float, Int},
        Builder,
        Dim::{Fixed, Named},
    },
    data::{BLOCK, Blocks, Data, Rounding},
    error::ExportError,
    shape::Shape,
    source::Source,
};

/// The name of the hidden state among the outputs.
pub const HIDDEN: &str = "hidden_states";

/// Writes all weights and returns the model's own file and how long the weights are.
pub fn write(
    source: &mut Source,
    shape: &Shape,
    weights: Weights,
    data: Data,
) -> Result<(Vec<u8>, u64), ExportError> {
    let mut writer = Writer { source, shape, weights, data, builder: Builder::default() };
    writer.declare();
    writer.lengths();
    writer.rotary()?;
    writer.embed()?;
    for layer in 0..shape.layers {
        writer.layer(layer)?;
    }
    let last = format!("layer.{}", shape.layers - 1);
    writer.norm(
        "output_norm.weight",
        (&format!("{last}.middle"), &format!("{last}.down")),
        HIDDEN,
        "final.sum",
    )?;
    writer.head()?;
    let Writer { source, data, builder, .. } = writer;
    source.nothing_left()?;
    let path = data.location.into();
    let length = data.finish().map_err(|source| ExportError::Io { path, source })?;
    Ok((builder.finish(&shape.architecture), length))
}

struct Writer<'a> {
    source: &'a mut Source,
    shape: &'a Shape,
    weights: Weights,
    data: Data,
    builder: Builder,
}

impl Writer<'_> {
    fn declare(&mut self) {
        let Shape { layers, kv_heads, head, vocabulary, hidden, .. } = *self.shape;
        let (float, int) = (ElementType::Float, ElementType::Int64);
        let (batch, read) = (Named("batch_size"), Named("sequence_length"));
        self.builder.input("input_ids", int, &[batch, read]);
        self.builder.input("attention_mask", int, &[batch, Named("total_sequence_length")]);
        self.builder.output("logits", float, &[batch, read, Fixed(vocabulary)]);
        for layer in 0..layers {
            for kind in ["key", "value"] {
                let cache = |length| [batch, Fixed(kv_heads), Named(length), Fixed(head)];
                let past = format!("past_key_values.{layer}.{kind}");
                self.builder.input(&past, float, &cache("past_sequence_length"));
                let present = format!("present.{layer}.{kind}");
                self.builder.output(&present, float, &cache("total_sequence_length"));
            }
        }
        self.builder.output(HIDDEN, float, &[batch, read, Fixed(hidden)]);
    }

    /// What attention wants to know: how long each text is, and how long the mask.
    fn lengths(&mut self) {
        let builder = &mut self.builder;
        builder.ints("one", &[1], &[1]);
        builder.ints("one.scalar", &[], &[1]);
        builder.plain("ReduceSum", &["attention_mask", "one"], "mask.sum", &[Int("keepdims", 0)]);
        builder.plain("Sub", &["mask.sum", "one"], "mask.last", &[]);
        builder.plain("Cast", &["mask.last"], "seqlens_k", &[Int("to", 6)]);
        builder.plain("Shape", &["attention_mask"], "mask.shape", &[]);
        builder.plain("Gather", &["mask.shape", "one.scalar"], "mask.length", &[Int("axis", 0)]);
        builder.plain("Cast", &["mask.length"], "total_sequence_length", &[Int("to", 6)]);
    }

    /// Sines and cosines for every position the model was trained for.
    fn rotary(&mut self) -> Result<(), ExportError> {
        let half = self.shape.head / 2;
        let factors = if self.source.has("rope_freqs.weight") {
            self.source.whole("rope_freqs.weight")?
        } else {
            vec![1.0; half]
        };
        if factors.len() != half {
            let reason = "rope_freqs.weight has another length than a head";
            return Err(self.source.unsupported(reason));
        }
        let exponent = |i: usize| -2.0 * i as f64 / self.shape.head as f64;
        let frequency = |i: usize| {
            f64::from(self.shape.base).powf(exponent(i))
                / f64::from(factors[i])
                / f64::from(self.shape.stretch)
        };
        let frequencies: Vec<_> = (0..half).map(frequency).collect();
        for (name, turn) in [("cos_cache", f64::cos as fn(f64) -> f64), ("sin_cache", f64::sin)] {
            let context = self.shape.context;
            self.write(|data| {
                (0..context).try_for_each(|position| {
                    let angles = frequencies.iter().map(|f| turn(position as f64 * f) as f32);
                    data.put_floats(&angles.collect::<Vec<_>>())
                })
            })?;
            self.tensor(name, ElementType::Float, &[self.shape.context, half]);
        }
        Ok(())
    }

    fn embed(&mut self) -> Result<(), ExportError> {
        let Shape { vocabulary, hidden, .. } = *self.shape;
        self.matrix("token_embd.weight", "embedding", true)?;
        match self.weights {
            Weights::Int8 | Weights::Int4 => {
                // The same bytes as the head's, in two dimensions: the operation wants it so.
                self.builder.microsoft(
                    "GatherBlockQuantized",
                    &["embedding.flat", "input_ids", "embedding.scales"],
                    &["embedded"],
                    &[
                        Int("bits", 8),
                        Int("block_size", BLOCK as i64),
                        Int("gather_axis", 0),
                        Int("quantize_axis", 1),
                    ],
                );
                if !hidden.is_multiple_of(BLOCK) {
                    let reason = format!(
                        "{vocabulary} embeddings of {hidden} numbers: not blocks of {BLOCK}"
                    );
                    return Err(self.source.unsupported(reason));
                }
            }
            Weights::Fp16 => {
                self.builder.plain("Gather", &["embedding", "input_ids"], "embedded.half", &[]);
                self.builder.plain("Cast", &["embedded.half"], "embedded", &[Int("to", 1)]);
            }
            Weights::Fp32 => {
                self.builder.plain("Gather", &["embedding", "input_ids"], "embedded", &[]);
            }
        }
        Ok(())
    }

    fn layer(&mut self, layer: usize) -> Result<(), ExportError> {
        let at = |name: &str| format!("layer.{layer}.{name}");
        let of = |name: &str| format!("blk.{layer}.{name}.weight");
        let Shape { hidden, heads, kv_heads, .. } = *self.shape;
        if layer == 0 {
            self.first_norm(&of("attn_norm"), "embedded", &at("in"))?;
        } else {
            let before = |name: &str| format!("layer.{}.{name}", layer - 1);
            let sum = (before("middle"), before("down"));
            self.norm(&of("attn_norm"), (&sum.0, &sum.1), &at("in"), &at("sum"))?;
        }
        let residual = if layer == 0 { "embedded".to_owned() } else { at("sum") };
        self.attention_matrix(layer, &at("qkv"))?;
        let rows = self.shape.query() + 2 * self.shape.key();
        let weight = at("qkv.weight");
        self.product(&at("in"), (&weight, self.rounding(false)), (rows, hidden), &at("qkv"));
        let query = self.attention_bias(layer, &at("qkv"))?;
        let past = |kind: &str| format!("past_key_values.{layer}.{kind}");
        let present = |kind: &str| format!("present.{layer}.{kind}");
        self.builder.microsoft(
            "GroupQueryAttention",
            &[
                &query,
                "",
                "",
                &past("key"),
                &past("value"),
                "seqlens_k",
                "total_sequence_length",
                "cos_cache",
                "sin_cache",
            ],
            &[&at("attention"), &present("key"), &present("value")],
            &[
                Int("num_heads", heads as i64),
                Int("kv_num_heads", kv_heads as i64),
                Int("do_rotary", 1),
                Int("rotary_interleaved", 0),
            ],
        );
        self.linear(&of("attn_output"), &at("o"), &at("attention"))?;
        self.norm(&of("ffn_norm"), (&residual, &at("o")), &at("mlp"), &at("middle"))?;
        self.linear(&of("ffn_gate"), &at("gate"), &at("mlp"))?;
        self.linear(&of("ffn_up"), &at("up"), &at("mlp"))?;
        self.builder.plain("Sigmoid", &[&at("gate")], &at("sigmoid"), &[]);
        self.builder.plain("Mul", &[&at("gate"), &at("sigmoid")], &at("silu"), &[]);
        self.builder.plain("Mul", &[&at("silu"), &at("up")], &at("product"), &[]);
        self.linear(&of("ffn_down"), &at("down"), &at("product"))
    }

    fn head(&mut self) -> Result<(), ExportError> {
        let Shape { vocabulary, hidden, tied, .. } = *self.shape;
        if !tied {
            self.matrix("output.weight", "head", true)?;
        }
        let name = if tied { "embedding" } else { "head" };
        self.product(HIDDEN, (name, self.rounding(true)), (vocabulary, hidden), "logits");
        Ok(())
    }

    fn first_norm(&mut self, weight: &str, input: &str, output: &str) -> Result<(), ExportError> {
        let numbers = self.source.whole(weight)?;
        self.builder.floats(weight, &numbers);
        let attributes =
            [Float("epsilon", self.shape.epsilon), Int("axis", -1), Int("stash_type", 1)];
        self.builder.plain("SimplifiedLayerNormalization", &[input, weight], output, &attributes);
        Ok(())
    }

    /// Adds two tensors and normalises the sum, which is given out too.
    fn norm(
        &mut self,
        weight: &str,
        (residual, added): (&str, &str),
        output: &str,
        sum: &str,
    ) -> Result<(), ExportError> {
        let numbers = self.source.whole(weight)?;
        self.builder.floats(weight, &numbers);
        self.builder.microsoft(
            "SkipSimplifiedLayerNormalization",
            &[residual, added, weight],
            &[output, "", "", sum],
            &[Float("epsilon", self.shape.epsilon)],
        );
        Ok(())
    }

    /// Multiplies with a matrix of the model.
    fn linear(&mut self, tensor: &str, name: &str, input: &str) -> Result<(), ExportError> {
        let shape = self.source.shape(tensor)?;
        let weight = format!("{name}.weight");
        self.matrix(tensor, &weight, false)?;
        self.product(input, (&weight, self.rounding(false)), shape, name);
        Ok(())
    }

    /// How a matrix is rounded; `wide` ones keep 8 bits.
    fn rounding(&self, wide: bool) -> Rounding {
        match self.weights {
            _ if wide => Rounding::Middle,
            Weights::Int4 => Rounding::Half,
            Weights::Int8 | Weights::Fp16 | Weights::Fp32 => Rounding::Zero,
        }
    }

    fn product(
        &mut self,
        input: &str,
        (weight, rounding): (&str, Rounding),
        (rows, columns): (usize, usize),
        output: &str,
    ) {
        let (scales, zeros) = (format!("{weight}.scales"), format!("{weight}.zeros"));
        let with_zeros = [input, weight, &scales, &zeros];
        let inputs = if rounding == Rounding::Zero { &with_zeros[..] } else { &with_zeros[..3] };
        match self.weights {
            Weights::Int8 | Weights::Int4 => self.builder.microsoft(
                "MatMulNBits",
                inputs,
                &[output],
                &[
                    Int("K", columns as i64),
                    Int("N", rows as i64),
                    Int("bits", if rounding == Rounding::Half { 4 } else { 8 }),
                    Int("block_size", BLOCK as i64),
                    // Multiply bytes with bytes: what llama.cpp does too, and much the faster.
                    Int("accuracy_level", 4),
                ],
            ),
            Weights::Fp16 | Weights::Fp32 => {
                let mut matrix = weight.to_owned();
                if self.weights == Weights::Fp16 {
                    matrix = format!("{output}.matrix");
                    self.builder.plain("Cast", &[weight], &matrix, &[Int("to", 1)]);
                }
                let transposed = [Int("transB", 1)];
                self.builder.microsoft("FusedMatMul", &[input, &matrix], &[output], &transposed);
            }
        }
    }

    /// Query, key and value as one matrix: one multiplication is quicker than three.
    fn attention_matrix(&mut self, layer: usize, name: &str) -> Result<(), ExportError> {
        let mut all = vec![];
        for part in ["q", "k", "v"] {
            let tensor = format!("blk.{layer}.attn_{part}.weight");
            let (rows, columns) = self.source.shape(&tensor)?;
            let wanted = if part == "q" { self.shape.query() } else { self.shape.key() };
            if (rows, columns) != (wanted, self.shape.hidden) {
                return Err(self.source.unsupported(format!("{tensor} is {rows} × {columns}")));
            }
            let numbers = self.source.whole(&tensor)?;
            all.extend(self.in_order(part, &numbers, columns));
        }
        let (columns, weights) = (self.shape.hidden, self.weights);
        let mut matrix = Matrix::new(all.len() / columns, columns, self.rounding(false));
        self.write(|data| put(data, weights, &mut matrix, &all))?;
        self.end(matrix, &format!("{name}.weight"), false)
    }

    /// Adds the bias, where the model has one; returns the tensor to go on with.
    fn attention_bias(&mut self, layer: usize, name: &str) -> Result<String, ExportError> {
        let mut all = vec![];
        for (part, length) in
            [("q", self.shape.query()), ("k", self.shape.key()), ("v", self.shape.key())]
        {
            let tensor = format!("blk.{layer}.attn_{part}.bias");
            if self.source.has(&tensor) {
                let numbers = self.source.whole(&tensor)?;
                if numbers.len() != length {
                    let reason = format!("{tensor} has {} numbers, not {length}", numbers.len());
                    return Err(self.source.unsupported(reason));
                }
                all.extend(self.in_order(part, &numbers, 1));
            } else {
                all.extend(vec![0.0; length]);
            }
        }
        if all.iter().all(|&n| n == 0.0) {
            return Ok(name.into());
        }
        let (bias, sum) = (format!("{name}.bias"), format!("{name}.biased"));
        self.builder.floats(&bias, &all);
        self.builder.plain("Add", &[name, &bias], &sum, &[]);
        Ok(sum)
    }

    /// GGUF has llama's queries and keys with the two halves of a head interleaved; ONNX Runtime
    /// rotates halves that lie behind each other.
    fn in_order(&self, part: &str, numbers: &[f32], columns: usize) -> Vec<f32> {
        if part == "v" || self.shape.architecture != "llama" {
            return numbers.to_vec();
        }
        let (head, half) = (self.shape.head, self.shape.head / 2);
        let rows = numbers.len() / columns;
        let from = |row: usize| {
            let (start, within) = (row / head * head, row % head);
            start + (within % half) * 2 + within / half
        };
        (0..rows).flat_map(|row| &numbers[from(row) * columns..][..columns]).copied().collect()
    }

    /// Writes a matrix of the model; `wide` ones keep 8 bits.
    fn matrix(&mut self, tensor: &str, name: &str, wide: bool) -> Result<(), ExportError> {
        let (rows, columns) = self.source.shape(tensor)?;
        let mut matrix = Matrix::new(rows, columns, self.rounding(wide));
        self.data.begin().map_err(|e| self.io(e))?;
        let (data, weights) = (&mut self.data, self.weights);
        let path = self.source.path().to_owned();
        self.source.chunks(tensor, |numbers| {
            put(data, weights, &mut matrix, numbers)
                .map_err(|source| ExportError::Io { path: path.clone(), source })
        })?;
        self.end(matrix, name, name == "embedding")
    }

    fn end(&mut self, matrix: Matrix, name: &str, flat: bool) -> Result<(), ExportError> {
        let Matrix { rows, columns, rounding, scales, zeros } = matrix;
        match self.weights {
            Weights::Fp32 => self.tensor(name, ElementType::Float, &[rows, columns]),
            Weights::Fp16 => self.tensor(name, ElementType::Float16, &[rows, columns]),
            Weights::Int8 | Weights::Int4 => {
                let blocks = columns.div_ceil(BLOCK);
                let bytes = if rounding == Rounding::Half { BLOCK / 2 } else { BLOCK };
                self.tensor(name, ElementType::Uint8, &[rows, blocks, bytes]);
                if flat {
                    let name = format!("{name}.flat");
                    self.tensor(&name, ElementType::Uint8, &[rows, blocks * bytes]);
                }
                self.write(|data| data.put_floats(&scales))?;
                self.tensor(&format!("{name}.scales"), ElementType::Float, &[rows, blocks]);
                if rounding == Rounding::Zero {
                    self.write(|data| data.put(&zeros))?;
                    self.tensor(&format!("{name}.zeros"), ElementType::Uint8, &[rows, blocks]);
                }
            }
        }
        Ok(())
    }

    /// Begins a tensor and writes it.
    fn write(&mut self, put: impl FnOnce(&mut Data) -> io::Result<()>) -> Result<(), ExportError> {
        let written = self.data.begin().and_then(|()| put(&mut self.data));
        written.map_err(|e| self.io(e))
    }

    /// Names what was written last.
    fn tensor(&mut self, name: &str, element: ElementType, dims: &[usize]) {
        self.builder.external(name, element, dims, (self.data.location, self.data.end()));
    }

    fn io(&self, source: io::Error) -> ExportError {
        ExportError::Io { path: self.data.location.into(), source }
    }
}

/// A matrix on its way into the file.
struct Matrix {
    rows: usize,
    columns: usize,
    rounding: Rounding,
    scales: Vec<f32>,
    zeros: Vec<u8>,
}

impl Matrix {
    fn new(rows: usize, columns: usize, rounding: Rounding) -> Self {
        Self { rows, columns, rounding, scales: vec![], zeros: vec![] }
    }
}

fn put(data: &mut Data, weights: Weights, matrix: &mut Matrix, rows: &[f32]) -> io::Result<()> {
    match weights {
        Weights::Fp32 => data.put_floats(rows),
        Weights::Fp16 => data.put_halves(rows),
        Weights::Int8 | Weights::Int4 => {
            let blocks = Blocks::quantise(rows, matrix.columns, matrix.rounding);
            matrix.scales.extend(blocks.scales);
            matrix.zeros.extend(blocks.zeros);
            data.put(&blocks.bytes)
        }
    }
}
