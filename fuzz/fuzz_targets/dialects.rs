//! What clouds answer: every dialect reads it, or refuses it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    cloud::engine::mutated::read(bytes);
});
