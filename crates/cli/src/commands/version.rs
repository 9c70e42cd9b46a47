//! Which build this is.

use std::sync::LazyLock;

/// Version, commit, and the llama.cpp inside.
pub static BUILD: LazyLock<String> = LazyLock::new(|| {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("TANDEM_COMMIT"));
    format!("{version} ({commit}, llama.cpp {})", engine::llama_version())
});
