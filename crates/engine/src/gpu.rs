//! How many layers of a model go onto the machine's GPUs.

use std::path::Path;

use crate::{
    error::EngineError,
    llama::{self, Hardware, Header},
};

/// Memory that llama.cpp needs on a GPU besides weights and caches: step buffers, and the driver's.
const RESERVE: u64 = 768 << 20;

/// The memory a model's layers need, read from its file before it is loaded.
#[derive(Clone, Copy, Debug)]
struct LayerSizes {
    /// Layers that can be moved: the output counts as one.
    layers: u64,
    /// Bytes of weights and cache for each.
    bytes_each: u64,
}

impl LayerSizes {
    fn read(path: &Path, cells: usize) -> Option<Self> {
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

    fn count_that_fits(self, free: u64) -> u64 {
        (free.saturating_sub(RESERVE) / self.bytes_each).min(self.layers)
    }
}

/// How many of a model's layers fit into this much memory; `None` where its header does not tell.
#[cfg(fuzzing)]
pub(crate) fn layers_that_fit(path: &Path, cells: usize, free: u64) -> Option<u64> {
    LayerSizes::read(path, cells).map(|sizes| sizes.count_that_fits(free))
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
            // A header that cannot be read is left to llama.cpp, whose error names the reason.
            let layers =
                LayerSizes::read(path, cells).map_or(u64::MAX, |sizes| sizes.count_that_fits(free));
            Ok(usize::try_from(layers).unwrap_or(usize::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_layers_go_where_there_is_room_and_none_where_there_is_not() {
        let sizes = LayerSizes { layers: 29, bytes_each: 100 << 20 };
        assert_eq!(sizes.count_that_fits(80 << 30), 29);
        assert_eq!(sizes.count_that_fits(RESERVE + (1000 << 20)), 10);
        assert_eq!(sizes.count_that_fits(RESERVE), 0);
        assert_eq!(sizes.count_that_fits(0), 0);
    }
}
