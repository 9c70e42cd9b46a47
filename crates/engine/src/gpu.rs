//! How much of a model goes onto the machine's GPUs.

use std::path::Path;

use crate::{
    error::EngineError,
    llama::{self, Hardware, Header},
};

/// What llama.cpp needs on a GPU besides weights and caches: buffers of a step, the driver's own.
const RESERVE: u64 = 768 << 20;

/// What a model's layers need, read from its file before it is loaded.
#[derive(Clone, Copy, Debug)]
struct Needs {
    /// Layers that can be moved: the output counts as one.
    layers: u64,
    /// Bytes of weights and cache for each.
    bytes_each: u64,
}

impl Needs {
    fn of(path: &Path, cells: usize) -> Option<Self> {
        let header = Header::read(path).ok()?;
        let layers = header.number("block_count")?.checked_add(1)?;
        let heads = header.number("attention.head_count").filter(|&heads| heads > 0)?;
        let caches = header.number("attention.head_count_kv").unwrap_or(heads);
        let usual = header.number("embedding_length")? / heads;
        let length = |name| header.number(name).unwrap_or(usual);
        let head = length("attention.key_length").checked_add(length("attention.value_length"))?;
        // Two bytes a number: the cache is kept in half precision.
        let cache = caches.checked_mul(head)?.checked_mul(2)?.checked_mul(cells as u64)?;
        let weights = std::fs::metadata(path).ok()?.len() / layers;
        Some(Self { layers, bytes_each: weights.checked_add(cache)?.max(1) })
    }

    fn that_fit(self, free: u64) -> u64 {
        (free.saturating_sub(RESERVE) / self.bytes_each).min(self.layers)
    }
}

/// The number of layers to load onto GPUs: as many as were asked for, else all that fit.
pub(crate) fn layers(
    path: &Path,
    cells: usize,
    asked: Option<usize>,
) -> Result<usize, EngineError> {
    let unloadable = |reason| EngineError::Unloadable { path: path.to_owned(), reason };
    let Hardware { gpus, gpu_back_ends, .. } = llama::hardware().map_err(unloadable)?;
    match asked {
        Some(0) => Ok(0),
        Some(_) if gpus.is_empty() => Err(EngineError::NoGpu { back_ends: gpu_back_ends }),
        Some(layers) => Ok(layers),
        None if gpus.is_empty() => Ok(0),
        None => {
            let free = gpus.iter().map(|gpu| gpu.free).sum();
            // What cannot be told beforehand is left to llama.cpp, which says what is wrong.
            let layers = Needs::of(path, cells).map_or(u64::MAX, |needs| needs.that_fit(free));
            Ok(usize::try_from(layers).unwrap_or(usize::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_layers_go_where_there_is_room_and_none_where_there_is_not() {
        let needs = Needs { layers: 29, bytes_each: 100 << 20 };
        assert_eq!(needs.that_fit(80 << 30), 29);
        assert_eq!(needs.that_fit(RESERVE + (1000 << 20)), 10);
        assert_eq!(needs.that_fit(RESERVE), 0);
        assert_eq!(needs.that_fit(0), 0);
    }
}
