//! A library that is missing, damaged or too old is reported with what to do. This test is a process
//! of its own, because a process can load only one library.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tandem_engine::{Compute, LoadOptions, Model, onnx::Options};

async fn refusal(library: Option<PathBuf>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_models/in_place");
    let onnx = Options { library, providers: vec![] };
    let options = LoadOptions { onnx, ..LoadOptions::new(path, 64, 1) };
    let loaded = Model::load(&Compute::start().unwrap(), options).await;
    let error = loaded.err().unwrap().to_string();
    assert!(error.contains("tandem pull onnxruntime"), "{error}");
    assert!(error.contains("ORT_DYLIB_PATH"), "{error}");
    error
}

/// A library that says it is this version of ONNX Runtime.
fn fake_library(folder: &Path, version: &str) -> PathBuf {
    let (source, library) = (folder.join("old.c"), folder.join("libonnxruntime.so"));
    let code = format!(
        "static const void *api(unsigned v) {{ return 0; }}\n\
         static const char *version(void) {{ return \"{version}\"; }}\n\
         static const struct {{ const void *(*a)(unsigned); const char *(*v)(void); }} base = {{ api, version }};\n\
         const void *OrtGetApiBase(void) {{ return &base; }}\n"
    );
    fs::write(&source, code).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.unwrap().success());
    library
}

#[tokio::test]
async fn a_library_that_cannot_be_used_is_reported_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(None).await.contains("none was found"));
    let missing = refusal(Some(folder.path().join("gone.so"))).await;
    assert!(missing.contains("gone.so"), "{missing}");
    let text = folder.path().join("text.so");
    fs::write(&text, "no library").unwrap();
    assert!(refusal(Some(text)).await.contains("text.so"));
    let old = refusal(Some(fake_library(folder.path(), "1.16.3"))).await;
    assert!(old.contains("1.16.3") && old.contains("1.22"), "{old}");
}
