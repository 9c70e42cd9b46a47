//! Grammars over a real vocabulary.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use decode::{Continuation, Edge, Vocabulary};
use serde_json::{Value, json};
use tandem_engine::{Grammar, GrammarCompiler};

use super::llama::{load, options, prompt};

/// The small model's own JSON, held to a schema, is read by somebody else's parser. Prints what the
/// masks took beside the model.
#[tokio::test]
async fn a_real_model_writes_what_its_schema_wants() {
    let model = load(options()).await.unwrap();
    let vocabulary = model.vocabulary().clone();
    let started = Instant::now();
    let compiler = GrammarCompiler::new(vocabulary.clone()).unwrap();
    let made = started.elapsed();
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "country": {"enum": ["France", "Italy", "Spain"]},
            "inhabitants": {"type": "integer", "minimum": 1, "maximum": 99_999_999},
            "rivers": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 2},
        },
        "required": ["city", "country", "inhabitants", "rivers"],
        "additionalProperties": false,
    });
    let started = Instant::now();
    let mut constraint = compiler.compile(&Grammar::JsonSchema(schema)).unwrap();
    let compiled = started.elapsed();
    let mut sequence = model.open().await.unwrap();
    let mut unread = prompt(&model, "Describe Paris as JSON.");
    let (mut text, mut steps, mut forced) = (vec![], 0, 0);
    let (mut masking, mut decoding) = (Duration::ZERO, Duration::ZERO);
    loop {
        let started = Instant::now();
        let continuation = constraint.continuation().unwrap();
        masking += started.elapsed();
        let tokens = match continuation {
            Continuation::Complete => break,
            Continuation::Forced(tokens) => {
                forced += tokens.len();
                tokens
            }
            Continuation::Open => {
                let mut step = sequence.step(&unread).await.unwrap();
                unread.clear();
                steps += 1;
                decoding += step.reading.decode;
                let started = Instant::now();
                constraint.mask(&mut step.logits).unwrap();
                masking += started.elapsed();
                let token = decode::sampling::argmax(&step.logits).unwrap();
                assert!(!vocabulary.is_end(token), "an object ends by itself");
                vec![token]
            }
        };
        let started = Instant::now();
        constraint.advance(&tokens).unwrap();
        masking += started.elapsed();
        text.extend(tokens.iter().flat_map(|&t| vocabulary.piece(t)));
        unread.extend(tokens);
    }
    let text = String::from_utf8(text).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(value["city"].is_string() && value["inhabitants"].is_i64(), "{text}");
    assert!(forced > 10, "{forced} of {steps}: {text}");
    println!(
        "{text}\nvocabulary {made:?}, schema {compiled:?}; {steps} steps and {forced} forced tokens: \
         masks {masking:?}, decoding {decoding:?}"
    );
}
