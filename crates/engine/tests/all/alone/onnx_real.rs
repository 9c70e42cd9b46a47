//! Models made by onnxruntime-genai's own builder; `make test-onnx-real` makes them.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::PathBuf;

use decode::{Message, Vocabulary, sampling::argmax};
use engine::{Compute, LoadOptions, Model, onnx::Options};
use models::{Catalog, Environment, Home};

fn options(variable: &str) -> LoadOptions {
    let path = std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set"));
    let own = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
    let (catalog, home) = (Catalog::built_in().unwrap(), Home::find(Environment::read()).unwrap());
    let library = own.unwrap_or_else(|| home.library(catalog.library("onnxruntime").unwrap()));
    let onnx = Options { library: Some(library), providers: vec![] };
    LoadOptions { onnx, ..LoadOptions::new(path, 512, 2) }
}

#[tokio::test]
#[ignore = "needs models of onnxruntime-genai's builder"]
async fn models_of_the_builder_answer() {
    let compute = Compute::start().unwrap();
    for variable in ["TANDEM_GENAI_FP32", "TANDEM_GENAI_INT4"] {
        let options = options(variable);
        options.check().unwrap();
        let model = Model::load(&compute, options).await.unwrap();
        assert_eq!(model.hidden_len(), 576);
        let mut sequence = model.open().await.unwrap();
        let messages = [
            Message::system("You are a helpful assistant."),
            Message::user("What is the capital of France?"),
        ];
        let mut unread = model.vocabulary().prompt(&messages).unwrap();
        let (mut text, start) = (vec![], unread.len());
        for _ in 0..12 {
            let output = sequence.read(&unread, true).await.unwrap();
            assert!(output.hidden.iter().all(|x| x.is_finite()));
            let next = argmax(&output.logits).unwrap();
            text.extend(model.vocabulary().piece(next));
            unread = vec![next];
        }
        let text = String::from_utf8_lossy(&text);
        println!("{variable}: {text}");
        assert!(text.contains("Paris"), "{variable}: {text}");
        // Cut back and read again: the same, to the bit.
        let last = *sequence.tokens().last().unwrap();
        sequence.truncate(start);
        let first = sequence.read(&[last], true).await.unwrap().logits;
        sequence.truncate(start);
        assert_eq!(first, sequence.read(&[last], true).await.unwrap().logits);
    }
}
