//! Catalogs and manifests of presets: both TOML, both written by anybody.
#![no_main]

use libfuzzer_sys::fuzz_target;
use models::{Catalog, preset::Manifest};

fuzz_target!(|text: &str| {
    if let Ok(catalog) = Catalog::parse(text) {
        let mut all = Catalog::built_in().expect("our own catalog");
        all.extend(catalog);
        let _ = all.pair(None).map(|pair| all.models_of(pair).len());
    }
    if let Ok(manifest) = Manifest::parse(text) {
        // No file of a preset lies outside its folder.
        for (file, _) in manifest.files() {
            assert!(!file.starts_with('/') && !file.split('/').any(|part| part == ".."), "{file}");
        }
    }
});
