//! A router's file: safetensors with metadata of ours. What is read gives scores, and is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use router::{Mlp, RouterFile};

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = RouterFile::from_bytes(bytes) else { return };
    let hidden = file.metadata().hidden;
    let score = Mlp::new(&file).score_state(&vec![0.5; hidden.min(1 << 16)], || Default::default());
    assert!((0.0..=1.0).contains(&score.value()));
    let written = file.bytes().expect("a file that was read");
    let again = RouterFile::from_bytes(&written).expect("a file that we wrote");
    assert_eq!(again.metadata().hidden, hidden);
});
