//! Names that nothing else has. They need not be hard to guess: nothing is reached by knowing one.

use std::hash::{BuildHasher, RandomState};

pub fn random_id(prefix: &str) -> String {
    let random = || RandomState::new().hash_one(0u8);
    format!("{prefix}{:016x}{:08x}", random(), random() as u32)
}
