//! Shards of samples: safetensors with metadata of ours. What is read is written as it was.
#![no_main]

use lab::collect::sample::{read_shard, write_shard};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = fuzz::file("shard.safetensors", bytes);
    let Ok(samples) = read_shard(&path) else { return };
    let width = samples.first().map_or(0, |sample| sample.hidden.len());
    let again = fuzz::folder().join("again.safetensors");
    write_shard(&again, width, &samples).expect("samples that were read");
    assert_eq!(read_shard(&again).expect("a file that we wrote").len(), samples.len());
});
