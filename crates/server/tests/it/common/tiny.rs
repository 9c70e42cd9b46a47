//! A model of one tiny layer, whose words mean nothing: for what is about servers and not about text.

use std::path::Path;

use engine::LoadOptions;

#[path = "../../../../engine/tests/it/gguf/mod.rs"]
mod gguf;

/// Written to this file. Another seed is another model with the same vocabulary.
pub fn model(path: &Path, seed: u64) -> LoadOptions {
    let mut weights = gguf::weights();
    for (at, tensor) in weights.iter_mut().enumerate() {
        // Not the same ramp everywhere: the model would write one token for ever.
        let draw = |i: usize| decode::sampling::hash((seed << 8) + at as u64, i) as u32;
        let drawn = |i: usize| (draw(i) as f32 / u32::MAX as f32 - 0.5) * 0.5;
        let numbers = tensor.data.iter_mut().enumerate();
        numbers.for_each(|(i, x)| *x = *x * 0.1 + drawn(i));
    }
    gguf::write(path, &gguf::metadata("default"), &weights);
    LoadOptions::new(path, 512, 1)
}
