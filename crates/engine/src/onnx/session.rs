//! Reading tokens with ONNX Runtime: one sequence at a time, its cache kept between steps.

use std::mem;

use half::f16;
use ort::{
    memory::MemoryInfo,
    session::Session,
    value::{DynValue, Tensor},
};

use crate::{
    context::{Context, DecodeError, Entry, Sizes},
    error::EngineError,
};

use super::{
    cache::Cache,
    layout::{IntInput, IntType, Layout},
    runtime::first_line,
};

pub(crate) struct OnnxContext {
    session: Session,
    layout: Layout,
    sizes: Sizes,
    /// The longest sequence, in tokens.
    capacity: usize,
    /// The number of logits.
    pub vocabulary: usize,
    pub hidden_len: usize,
    caches: Vec<Option<Cache>>,
    /// Tokens passed to the session for each sequence since the context was made.
    passed: Vec<u64>,
    /// The graph returns the logits of the last token only.
    pruned: bool,
    outputs: Vec<Option<TokenOutput>>,
}

struct TokenOutput {
    logits: Vec<f32>,
    hidden: Vec<f32>,
}

/// Rows of logits or hidden states. A pruned graph returns only those of the last tokens.
struct Rows {
    numbers: Vec<f32>,
    length: usize,
}

impl Rows {
    /// The row of token `i` of `count`.
    fn row(&self, i: usize, count: usize) -> Option<&[f32]> {
        let rows = self.numbers.len() / self.length.max(1);
        let first = (i + rows).checked_sub(count)?;
        self.numbers.get(first * self.length..(first + 1) * self.length)
    }
}

impl OnnxContext {
    pub fn new(
        session: Session,
        layout: Layout,
        sizes: Sizes,
        capacity: usize,
    ) -> Result<Self, EngineError> {
        let batch = sizes.batch.max(sizes.sequences);
        let (vocabulary, hidden_len) = (layout.vocabulary.unwrap_or(0), layout.width.unwrap_or(0));
        let mut context = Self {
            caches: (0..sizes.sequences).map(|_| None).collect(),
            passed: vec![0; sizes.sequences],
            sizes: Sizes { batch, ..sizes },
            session,
            layout,
            capacity,
            vocabulary,
            hidden_len,
            pruned: false,
            outputs: vec![],
        };
        context.probe()?;
        Ok(context)
    }

    /// Reads one token, to check that the graph can be run with this layout and to learn its sizes.
    fn probe(&mut self) -> Result<(), EngineError> {
        let (logits, hidden) = self.run(0, 0, &[0])?;
        if logits.numbers.is_empty() || hidden.numbers.is_empty() {
            let reason = "the model returned no logits or no hidden state".into();
            return Err(EngineError::Decode { reason });
        }
        self.vocabulary = logits.numbers.len();
        self.hidden_len = hidden.numbers.len();
        self.passed[0] = 0;
        self.caches[0] = None;
        Ok(())
    }

    /// Reads consecutive tokens of one sequence, and adds an output for each: `None` where it is
    /// not wanted.
    fn read(
        &mut self,
        entries: &[Entry],
        hidden: bool,
        outputs: &mut Vec<Option<TokenOutput>>,
    ) -> Result<(), DecodeError> {
        let Some(first) = entries.first() else { return Ok(()) };
        let (sequence, past) = (first.sequence, first.position);
        let wanted = |entry: &Entry| hidden || entry.output;
        let last = entries.len() - 1;
        let only_last = !entries[..last].iter().any(wanted);
        let chunk = if self.pruned && !only_last { 1 } else { entries.len() };
        for (start, part) in (0..).step_by(chunk).zip(entries.chunks(chunk)) {
            let ids: Vec<_> = part.iter().map(|entry| i64::from(entry.token.0)).collect();
            let (logits, states) = self.run(sequence, past + start, &ids)?;
            for (i, entry) in part.iter().enumerate() {
                let output = wanted(entry).then(|| {
                    let row = |rows: &Rows| rows.row(i, part.len()).map(<[f32]>::to_vec);
                    Some(TokenOutput { logits: row(&logits)?, hidden: row(&states)? })
                });
                match output {
                    // Graphs that leave rows out keep the last one: without it, none would come for
                    // fewer tokens either.
                    Some(None) if i + 1 == part.len() => {
                        let reason = "the model returned no logits or no hidden state for a token";
                        return Err(DecodeError::Failed(reason.into()));
                    }
                    Some(None) => {
                        // The graph returns only the last position, so these are read one by one.
                        self.pruned = true;
                        outputs.truncate(outputs.len() - i);
                        return self.read(&entries[start..], hidden, outputs);
                    }
                    Some(output) => outputs.push(output),
                    None => outputs.push(None),
                }
            }
        }
        Ok(())
    }

    /// Runs the session once on tokens of one sequence, after its first `past`.
    fn run(
        &mut self,
        sequence: usize,
        past: usize,
        ids: &[i64],
    ) -> Result<(Rows, Rows), DecodeError> {
        let total = past + ids.len();
        if total > self.capacity {
            return Err(DecodeError::NoRoom);
        }
        let mut cache = match self.caches[sequence].take() {
            Some(cache) => cache,
            None => Cache::new(&self.session, &self.layout, self.capacity).map_err(failed)?,
        };
        if cache.length().is_some_and(|length| past > length) {
            let reason = format!("the cache does not hold the {past} tokens that it should");
            return Err(DecodeError::Failed(reason));
        }
        let rows = self.run_with(&mut cache, past, ids).map_err(failed)?;
        self.caches[sequence] = Some(cache);
        self.passed[sequence] += ids.len() as u64;
        Ok(rows)
    }

    fn run_with(
        &mut self,
        cache: &mut Cache,
        past: usize,
        ids: &[i64],
    ) -> ort::Result<(Rows, Rows)> {
        let (layout, total) = (&self.layout, past + ids.len());
        cache.prepare(&self.session, layout, past)?;
        let binding = &mut cache.binding;
        let mut bind = |input: &IntInput, numbers: Vec<i64>, flat: bool| {
            let shape = if flat { vec![] } else { vec![1, numbers.len()] };
            let value: DynValue = match input.kind {
                IntType::Int64 => Tensor::from_array((shape, numbers))?.into_dyn(),
                IntType::Int32 => {
                    let numbers: Vec<_> = numbers.iter().map(|&n| n as i32).collect();
                    Tensor::from_array((shape, numbers))?.into_dyn()
                }
            };
            binding.bind_input(&input.name, &value)
        };
        bind(&layout.ids, ids.to_vec(), false)?;
        if let Some(mask) = &layout.mask {
            bind(mask, vec![1; total], false)?;
        }
        if let Some(positions) = &layout.positions {
            bind(positions, (past as i64..total as i64).collect(), false)?;
        }
        if let Some(input) = &layout.logits_to_keep {
            bind(input, vec![0], true)?;
        }
        if let Some(input) = &layout.use_cache_branch {
            binding.bind_input(input, &Tensor::from_array(([1], vec![past > 0]))?)?;
        }
        let memory = MemoryInfo::default();
        binding.bind_output_to_device(&layout.logits, &memory)?;
        binding.bind_output_to_device(&layout.hidden, &memory)?;
        let mut outputs = self.session.run_binding(binding)?;
        let rows = |name: &str, length: usize| -> ort::Result<Rows> {
            let missing = || ort::Error::new(format!("the model returned no {name}"));
            let numbers = floats(outputs.get(name).ok_or_else(missing)?)?;
            // The length is unknown at the first run, which reads one token and has one row.
            let length = if length == 0 { numbers.len() } else { length };
            Ok(Rows { numbers, length })
        };
        let logits = rows(&layout.logits, self.vocabulary)?;
        let hidden = rows(&layout.hidden, self.hidden_len)?;
        let presents = Cache::take(&mut outputs, layout, total);
        drop(outputs);
        cache.keep(presents?, total);
        Ok((logits, hidden))
    }

    fn check(&self, entry: &Entry) -> Result<(), DecodeError> {
        if entry.token.index() >= self.vocabulary {
            let token = entry.token.0;
            return Err(DecodeError::Failed(format!("token {token} is not in the vocabulary")));
        }
        if entry.sequence >= self.sizes.sequences {
            let sequence = entry.sequence;
            return Err(DecodeError::Failed(format!("there is no sequence {sequence}")));
        }
        Ok(())
    }
}

fn failed(error: ort::Error) -> DecodeError {
    DecodeError::Failed(first_line(&error))
}

/// A tensor's numbers as 32-bit floats, whatever they are stored as.
fn floats(value: &DynValue) -> ort::Result<Vec<f32>> {
    if let Ok((_, numbers)) = value.try_extract_tensor::<f32>() {
        return Ok(numbers.to_vec());
    }
    let (_, numbers) = value.try_extract_tensor::<f16>()?;
    Ok(numbers.iter().map(|n| n.to_f32()).collect())
}

impl Context for OnnxContext {
    /// The hidden state is an output like the logits.
    fn hidden_needs_own_call(&self) -> bool {
        false
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn passed(&self, sequence: usize) -> u64 {
        self.passed.get(sequence).copied().unwrap_or(0)
    }

    /// Sequences are read one after the other, because graphs take one past length for a whole batch.
    fn decode(&mut self, entries: &[Entry], hidden: bool) -> Result<(), DecodeError> {
        self.outputs.clear();
        entries.iter().try_for_each(|entry| self.check(entry))?;
        let mut outputs = mem::take(&mut self.outputs);
        let follows =
            |a: &Entry, b: &Entry| a.sequence == b.sequence && a.position + 1 == b.position;
        for part in entries.chunk_by(follows) {
            self.read(part, hidden, &mut outputs)?;
        }
        self.outputs = outputs;
        Ok(())
    }

    fn logits(&self, i: usize) -> Option<&[f32]> {
        Some(&self.outputs.get(i)?.as_ref()?.logits)
    }

    fn hidden(&self, i: usize) -> Option<&[f32]> {
        Some(&self.outputs.get(i)?.as_ref()?.hidden)
    }

    /// The next run truncates the cache to where it begins; only emptying it frees memory here.
    fn truncate(&mut self, sequence: usize, keep: usize) -> bool {
        let Some(cache) = self.caches.get_mut(sequence) else { return false };
        if keep == 0 {
            *cache = None;
        }
        true
    }
}
