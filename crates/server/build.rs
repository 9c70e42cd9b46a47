//! Puts the page's files into the program: whatever is in `page/` is served.
#![allow(clippy::expect_used)]

use std::{env, fmt::Write, fs, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=page");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&root).join("page");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("the page's folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut table = String::from("&[");
    for name in names {
        let path = folder.join(&name);
        write!(table, "({name:?}, include_str!({path:?})),").expect("strings grow");
    }
    table.push(']');
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("page.rs"), table).expect("the build folder is writable");
}
