//! JSON is whole before its limit, whatever the model would rather go on with.

use decode::{
    Accepted, Constrained, FinishReason, Limits, Router, Sampling, Score, Session, SessionInput,
    Step,
    fake::{FakeCloud, FakeEdge, FakeModel},
};

use super::*;

/// Nobody is asked here.
struct Nobody;

impl Router for Nobody {
    fn score(&self, _: &Step) -> Score {
        Score::new(1.0)
    }
}

/// Writes a text with a model that takes one of these characters wherever one of them may come.
fn write_with(
    characters: &str,
    grammar: &Grammar,
    max_tokens: usize,
    seed: u64,
) -> (Vec<Accepted>, Option<FinishReason>) {
    let mut model = FakeModel::new(seed, &[]);
    model.writes = characters.bytes().map(|byte| Token(u32::from(byte) + 1)).collect();
    let compiler = GrammarCompiler::new(model.vocabulary.clone()).unwrap();
    let constraint = compiler.compile(grammar).unwrap();
    let input = SessionInput {
        prompt: model.vocabulary.encode("Hi"),
        written: vec![],
        sampling: Sampling { seed, ..Sampling::default() },
        limits: Limits { max_tokens, stops: vec![] },
    };
    let session: Session<_, Nobody, FakeCloud> =
        Session::new(FakeEdge::new(model, 4000), None, input).unwrap();
    let mut session = session.with_constraint(constraint);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { while session.next().await.unwrap().is_some() {} });
    let transcript = session.transcript();
    (transcript.shown().to_vec(), transcript.finish_reason())
}

fn object(properties: Value) -> Value {
    let names: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
    json!({
        "type": "object", "properties": properties, "required": names,
        "additionalProperties": false,
    })
}

/// Forms with something in them that a model can go on with for ever.
fn endless() -> Vec<(&'static str, Value)> {
    let format = |name: &str| json!({"type": "string", "format": name});
    let number = json!({"type": "number"});
    let readings: serde_json::Map<String, Value> =
        (0..6).map(|i| (format!("value_{i}"), number.clone())).collect();
    let product = object(json!({"name": {"type": "string"}, "id": {"type": "integer"}}));
    let node = json!({
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        },
        "required": ["value", "children"],
        "additionalProperties": false,
    });
    let next = json!({"anyOf": [{"$ref": "#/$defs/link"}, {"type": "null"}]});
    let mut link = object(json!({"price": number, "next": next}));
    link["additionalProperties"] = json!(false);
    vec![
        ("a number before more", object(json!({"price": number, "currency": {"type": "string"}}))),
        ("a pair of numbers", object(json!({"lat": number, "lon": number}))),
        ("many numbers", object(Value::Object(readings))),
        ("a number alone", number.clone()),
        ("numbers in a list", json!({"type": "array", "items": number, "minItems": 3})),
        ("an address", object(json!({"email": format("email"), "age": {"type": "integer"}}))),
        ("a link", object(json!({"link": format("uri"), "title": {"type": "string"}}))),
        ("a host", object(json!({"host": format("hostname"), "port": {"type": "integer"}}))),
        ("a time", object(json!({"at": format("date-time"), "what": {"type": "string"}}))),
        ("how long", object(json!({"took": format("duration"), "what": {"type": "string"}}))),
        ("a pattern", json!({"type": "string", "pattern": "^[a-z]+_[a-z]+-[0-9]+$"})),
        ("a long string", json!({"type": "string", "minLength": 40})),
        ("a list of objects", json!({"type": "array", "items": product, "minItems": 2})),
        ("a map", json!({"type": "object", "additionalProperties": {"type": "integer"}})),
        ("a tree", json!({"$defs": {"node": node}, "$ref": "#/$defs/node"})),
        ("a chain", json!({"$defs": {"link": link}, "$ref": "#/$defs/link"})),
        ("anything", json!({"type": "object"})),
    ]
}

#[test]
fn whatever_is_endless_is_closed_within_the_limit() {
    let mut closed = 0;
    for (name, schema) in endless() {
        let grammar = Grammar::JsonSchema(schema);
        // One writes numbers and words for ever, the others begin one thing inside the other.
        for characters in ["abcd1234.-", "1a,{[", "1a,\"{[ "] {
            for max_tokens in [180, 290] {
                let (tokens, reason) = write_with(characters, &grammar, max_tokens, 5);
                let text: String = tokens.iter().map(|t| t.text.as_str()).collect();
                let told = format!("{name}, {characters:?}, {max_tokens}: {text}");
                assert_eq!(reason, Some(FinishReason::Stop), "{told}");
                assert!(serde_json::from_str::<Value>(&text).is_ok(), "{told}");
                let by_us = |t: &&Accepted| t.constrained == Some(Constrained::Closed);
                closed += usize::from(tokens.iter().any(|t| by_us(&t)));
            }
        }
    }
    assert!(closed > 30, "{closed}");
}

#[test]
fn random_limits_and_models_end_in_whole_json() {
    for seed in 0..24u64 {
        let all = endless();
        let (name, schema) = &all[seed as usize % all.len()];
        let characters = ["ab12.-@:/", "1a,\"{}[] :", "12ab\"}]"][seed as usize % 3];
        let max_tokens = 150 + (sampling::uniform(seed, 1) * 120.0) as usize;
        let (tokens, reason) =
            write_with(characters, &Grammar::JsonSchema(schema.clone()), max_tokens, seed);
        let text: String = tokens.iter().map(|t| t.text.as_str()).collect();
        assert_eq!(reason, Some(FinishReason::Stop), "{name} {characters} {max_tokens}: {text}");
    }
}

#[test]
fn a_string_that_has_to_be_long_is_left_to_the_model() {
    // Measured in signs, the end is too far away from the beginning on.
    let schema = json!({"type": "string", "minLength": 95});
    let (tokens, _) = write_with("abc", &Grammar::JsonSchema(schema), 100, 2);
    let text: String = tokens.iter().map(|t| t.text.as_str()).collect();
    assert!(text.bytes().all(|byte| b"\"abc".contains(&byte)), "{text}");
}

#[test]
fn room_that_is_not_needed_is_left_to_the_model() {
    let schema = json!({"type": "string"});
    let (tokens, reason) = write_with("abc ", &Grammar::JsonSchema(schema), 300, 2);
    assert_eq!(reason, Some(FinishReason::Stop));
    // A quote and a few tokens in reserve are all that the end of a string takes.
    assert!(tokens.len() > 280, "{}", tokens.len());
}
