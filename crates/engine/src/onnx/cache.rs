//! The key and value caches of one sequence.

use half::f16;
use ort::{
    memory::{Allocator, MemoryInfo},
    session::{IoBinding, Session, SessionOutputs},
    value::{DynTensor, DynValue, PrimitiveTensorElementType, Tensor, TensorElementType},
};

use super::layout::{CachePair, CachePrecision, Layout};

/// A sequence's caches, and their binding to the inputs and outputs of the session.
pub(crate) struct Cache {
    /// Kept from step to step, because inputs that do not change need not be bound again.
    pub binding: IoBinding,
    /// The outputs of one step, which are the inputs of the next. `None` where one buffer for each
    /// cache is read and written in place: the attention mask says how much of it is used.
    growing: Option<GrowingCaches>,
}

struct GrowingCaches {
    tensors: Vec<DynValue>,
    /// How many tokens they hold.
    length: usize,
}

impl Cache {
    /// Empty caches. Those used in place get room for `capacity` tokens from the start.
    pub fn new(session: &Session, layout: &Layout, capacity: usize) -> ort::Result<Self> {
        let mut binding = session.create_binding()?;
        let mut growing = None;
        if layout.in_place {
            for pair in &layout.caches {
                let mut buffer = empty(session.allocator(), layout.precision, pair, capacity)?;
                binding.bind_input(&pair.past, &buffer)?;
                binding.bind_output(&pair.present, &mut buffer)?;
            }
        } else {
            growing = Some(GrowingCaches { tensors: empty_caches(session, layout)?, length: 0 });
        }
        Ok(Self { binding, growing })
    }

    /// Truncates the caches to their first `past` tokens and binds them for the next run.
    pub fn prepare(&mut self, session: &Session, layout: &Layout, past: usize) -> ort::Result<()> {
        let Some(GrowingCaches { tensors, length }) = &mut self.growing else { return Ok(()) };
        if past == 0 && *length > 0 {
            *tensors = empty_caches(session, layout)?;
        } else if past < *length {
            let allocator = session.allocator();
            for (tensor, pair) in tensors.iter_mut().zip(&layout.caches) {
                *tensor = match layout.precision {
                    CachePrecision::F32 => truncated::<f32>(allocator, tensor, pair, past)?,
                    CachePrecision::F16 => truncated::<f16>(allocator, tensor, pair, past)?,
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

    /// How many tokens growing caches hold; `None` in place, where the mask decides.
    pub fn length(&self) -> Option<usize> {
        self.growing.as_ref().map(|growing| growing.length)
    }

    /// Takes what came out of a run as the past of the next: as many tokens as were read. A model
    /// with a sliding window would return fewer, and could not be cut back.
    pub fn take(
        presents: &mut SessionOutputs<'_>,
        layout: &Layout,
        tokens: usize,
    ) -> ort::Result<Vec<DynValue>> {
        if layout.in_place {
            return Ok(vec![]);
        }
        let take = |pair: &CachePair| {
            let name = &pair.present;
            let missing = || ort::Error::new(format!("the model returned no {name}"));
            let tensor = presents.remove(name).ok_or_else(missing)?;
            let numbers: i64 = tensor.shape().iter().product();
            let expected = pair.heads * tokens * pair.head;
            if usize::try_from(numbers).is_ok_and(|numbers| numbers == expected) {
                return Ok(tensor);
            }
            Err(ort::Error::new(format!(
                "the model's cache {name} does not hold the {tokens} tokens it was given: sliding \
                 windows are not supported"
            )))
        };
        layout.caches.iter().map(take).collect()
    }

    /// Stores the tensors that [`take`](Self::take) took, which hold this many tokens.
    pub fn keep(&mut self, presents: Vec<DynValue>, tokens: usize) {
        if let Some(growing) = &mut self.growing {
            *growing = GrowingCaches { tensors: presents, length: tokens };
        }
    }
}

fn empty(
    allocator: &Allocator,
    precision: CachePrecision,
    pair: &CachePair,
    tokens: usize,
) -> ort::Result<DynTensor> {
    let kind = match precision {
        CachePrecision::F32 => TensorElementType::Float32,
        CachePrecision::F16 => TensorElementType::Float16,
    };
    DynTensor::new(allocator, kind, [1, pair.heads, tokens, pair.head])
}

fn empty_caches(session: &Session, layout: &Layout) -> ort::Result<Vec<DynValue>> {
    let empty = |pair| Ok(empty(session.allocator(), layout.precision, pair, 0)?.into_dyn());
    layout.caches.iter().map(empty).collect()
}

/// The first tokens of a cache, head by head.
fn truncated<T: PrimitiveTensorElementType + std::fmt::Debug + Copy>(
    allocator: &Allocator,
    tensor: &DynValue,
    pair: &CachePair,
    keep: usize,
) -> ort::Result<DynValue> {
    let (_, from) = tensor.try_extract_tensor::<T>()?;
    let mut shorter = Tensor::<T>::new(allocator, [1, pair.heads, keep, pair.head])?;
    let (_, to) = shorter.extract_tensor_mut();
    let (row, kept) = (from.len() / pair.heads.max(1), keep * pair.head);
    if kept == 0 || kept > row {
        return Err(ort::Error::new("the model's cache is shorter than the tokens it was given"));
    }
    for (to, from) in to.chunks_mut(kept).zip(from.chunks(row)) {
        to.copy_from_slice(&from[..kept]);
    }
    Ok(shorter.into_dyn())
}
