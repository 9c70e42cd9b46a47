//! Models made by onnxruntime-genai's own builder; `make test-onnx-real` makes them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;

use decode::{Message, Vocabulary, sampling::argmax};
use models::{Catalog, Environment, Home};
use tandem_engine::{Compute, LoadOptions, Model, onnx::Options};

use crate::rounding::{CLEAR_LEAD, lead};

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
        let prompt = model.vocabulary().prompt(&messages).unwrap();
        let start = prompt.len();
        let begun = model.vocabulary().encode("The capital of France is");
        sequence.read(&prompt, false).await.unwrap();
        // How the answer begins may depend on the last bit; after these words the model is certain.
        let output = sequence.read(&begun, true).await.unwrap();
        assert!(output.hidden.iter().all(|x| x.is_finite()));
        let ahead = lead(&output.logits);
        println!("{variable}: Paris is {ahead} nats ahead");
        assert!(ahead > 2.0 * CLEAR_LEAD, "{variable}: {ahead}");
        assert_eq!(argmax(&output.logits), Some(model.vocabulary().encode(" Paris")[0]));
        // Truncated and read again, the logits are the same to the bit.
        let last = *sequence.tokens().last().unwrap();
        sequence.truncate(start);
        let first = sequence.read(&[last], true).await.unwrap().logits;
        sequence.truncate(start);
        assert_eq!(first, sequence.read(&[last], true).await.unwrap().logits);
    }
}
