//! The keys and values of one sequence.

use half::f16;
use ort::{
    memory::{Allocator, MemoryInfo},
    session::{IoBinding, Session, SessionOutputs},
    value::{DynTensor, DynValue, PrimitiveTensorElementType, Tensor, TensorElementType},
};

use super::layout::{CachePair, Layout, Number};

/// A sequence's caches, and what they are bound to.
pub(crate) struct Cache {
    /// Kept from step to step: what does not change need not be bound again.
    pub binding: IoBinding,
    pasts: Pasts,
}

enum Pasts {
    /// One buffer a cache, read and written in place; its past is as long as the mask says.
    Shared,
    /// What came out last goes in next; `length` tokens are in it.
    Grown { tensors: Vec<DynValue>, length: usize },
}

impl Cache {
    /// Empty caches; shared ones have room for `capacity` tokens from the start.
    pub fn new(session: &Session, layout: &Layout, capacity: usize) -> ort::Result<Self> {
        let mut binding = session.create_binding()?;
        let pasts = if layout.shared {
            for pair in &layout.caches {
                let mut buffer = empty(session.allocator(), layout.number, pair, capacity)?;
                binding.bind_input(&pair.past, &buffer)?;
                binding.bind_output(&pair.present, &mut buffer)?;
            }
            Pasts::Shared
        } else {
            Pasts::Grown { tensors: empties(session, layout)?, length: 0 }
        };
        Ok(Self { binding, pasts })
    }

    /// Makes the caches hold their first `past` tokens and binds them for the next run.
    pub fn prepare(&mut self, session: &Session, layout: &Layout, past: usize) -> ort::Result<()> {
        let Pasts::Grown { tensors, length } = &mut self.pasts else { return Ok(()) };
        if past == 0 && *length > 0 {
            *tensors = empties(session, layout)?;
        } else if past < *length {
            for (tensor, pair) in tensors.iter_mut().zip(&layout.caches) {
                *tensor = match layout.number {
                    Number::Float => cut::<f32>(session.allocator(), tensor, pair, past)?,
                    Number::Half => cut::<f16>(session.allocator(), tensor, pair, past)?,
                };
            }
        }
        *length = past;
        let memory = MemoryInfo::default();
        for (tensor, pair) in tensors.iter().zip(&layout.caches) {
            self.binding.bind_input(&pair.past, tensor)?;
            self.binding.bind_output_to_device(&pair.present, &memory)?;
        }
        Ok(())
    }

    /// How many tokens grown caches hold; shared ones hold what they are told.
    pub fn held(&self) -> Option<usize> {
        match &self.pasts {
            Pasts::Shared => None,
            Pasts::Grown { length, .. } => Some(*length),
        }
    }

    /// Takes what came out of a run as the past of the next.
    pub fn take(presents: &mut SessionOutputs<'_>, layout: &Layout) -> Option<Vec<DynValue>> {
        if layout.shared {
            return Some(vec![]);
        }
        layout.caches.iter().map(|pair| presents.remove(&pair.present)).collect()
    }

    /// Keeps what [`take`](Self::take) took.
    pub fn keep(&mut self, presents: Vec<DynValue>, tokens: usize) {
        if let Pasts::Grown { tensors, length } = &mut self.pasts {
            (*tensors, *length) = (presents, tokens);
        }
    }
}

fn empty(
    allocator: &Allocator,
    number: Number,
    pair: &CachePair,
    tokens: usize,
) -> ort::Result<DynTensor> {
    let kind = match number {
        Number::Float => TensorElementType::Float32,
        Number::Half => TensorElementType::Float16,
    };
    DynTensor::new(allocator, kind, [1, pair.heads, tokens, pair.head])
}

fn empties(session: &Session, layout: &Layout) -> ort::Result<Vec<DynValue>> {
    let empty = |pair| Ok(empty(session.allocator(), layout.number, pair, 0)?.into_dyn());
    layout.caches.iter().map(empty).collect()
}

/// The first tokens of a cache, head by head.
fn cut<T: PrimitiveTensorElementType + std::fmt::Debug + Copy>(
    allocator: &Allocator,
    tensor: &DynValue,
    pair: &CachePair,
    keep: usize,
) -> ort::Result<DynValue> {
    let (_, from) = tensor.try_extract_tensor::<T>()?;
    let mut shorter = Tensor::<T>::new(allocator, [1, pair.heads, keep, pair.head])?;
    let (_, to) = shorter.extract_tensor_mut();
    let (row, kept) = (from.len() / pair.heads, keep * pair.head);
    for (to, from) in to.chunks_mut(kept).zip(from.chunks(row)) {
        to.copy_from_slice(&from[..kept]);
    }
    Ok(shorter.into_dyn())
}
