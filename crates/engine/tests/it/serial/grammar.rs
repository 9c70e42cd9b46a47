//! Grammars over a real vocabulary.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use decode::{
    Constraint, ConstraintError, Continuation, Edge, FinishReason, Limits, Router, Sampling, Score,
    Session, SessionInput, Step, Token, Vocabulary, fake::FakeCloud,
};
use models::{Catalog, Environment, Home};
use serde_json::{Value, json};
use tandem_engine::{Grammar, GrammarCompiler, LoadOptions};

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

/// Nobody is asked here.
struct Nobody;

impl Router for Nobody {
    fn score(&self, _: &Step) -> Score {
        Score::new(1.0)
    }
}

/// What the model is asked for leads it to go on with one value for ever.
#[tokio::test]
async fn a_real_models_json_is_whole_before_its_limit() {
    let model = load(options()).await.unwrap();
    let compiler = GrammarCompiler::new(model.vocabulary().clone()).unwrap();
    let object = |properties: Value| {
        let names: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
        json!({
            "type": "object", "properties": properties, "required": names,
            "additionalProperties": false,
        })
    };
    let (number, text) = (json!({"type": "number"}), json!({"type": "string"}));
    let email = json!({"type": "string", "format": "email"});
    let product = object(json!({"name": text, "price": number}));
    for (question, schema) in [
        ("Give pi with as many digits as you can.", object(json!({"pi": number, "unit": text}))),
        ("Give an endless address.", object(json!({"email": email, "name": text}))),
        ("List a hundred products.", json!({"type": "array", "items": product})),
        ("Tell me a very long story.", object(json!({"author": text, "story": text}))),
    ] {
        for max_tokens in [48, 90] {
            let constraint = compiler.compile(&Grammar::JsonSchema(schema.clone())).unwrap();
            let input = SessionInput {
                prompt: prompt(&model, question),
                written: vec![],
                sampling: Sampling::default(),
                limits: Limits { max_tokens, stops: vec![] },
            };
            let sequence = model.open().await.unwrap();
            let session: Session<_, Nobody, FakeCloud> =
                Session::new(sequence, None, input).unwrap();
            let mut session = session.with_constraint(constraint);
            while session.next().await.unwrap().is_some() {}
            let text = session.transcript().text();
            let reason = session.transcript().finish_reason();
            assert_eq!(reason, Some(FinishReason::Stop), "{question} {max_tokens}: {text}");
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "{question}: {text}");
        }
    }
}

/// A constraint that counts the time it takes, its copies' too.
struct Timed {
    constraint: Box<dyn Constraint>,
    nanoseconds: Arc<AtomicU64>,
}

impl Timed {
    fn timed<T>(&mut self, work: impl FnOnce(&mut dyn Constraint) -> T) -> T {
        let started = Instant::now();
        let done = work(&mut *self.constraint);
        self.nanoseconds.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        done
    }
}

impl Constraint for Timed {
    fn continuation(&mut self) -> Result<Continuation, ConstraintError> {
        self.timed(|constraint| constraint.continuation())
    }

    fn mask(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError> {
        self.timed(|constraint| constraint.mask(logits))
    }

    fn allows(&mut self, tokens: &[Token]) -> Result<bool, ConstraintError> {
        self.timed(|constraint| constraint.allows(tokens))
    }

    fn may_end(&mut self) -> Result<bool, ConstraintError> {
        self.timed(|constraint| constraint.may_end())
    }

    fn advance(&mut self, tokens: &[Token]) -> Result<(), ConstraintError> {
        self.timed(|constraint| constraint.advance(tokens))
    }

    fn is_json(&self) -> bool {
        self.constraint.is_json()
    }

    fn duplicate(&self) -> Box<dyn Constraint> {
        let started = Instant::now();
        let constraint = self.constraint.duplicate();
        let nanoseconds = self.nanoseconds.clone();
        nanoseconds.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Box::new(Self { constraint, nanoseconds })
    }
}

/// What a form costs beside the model that the default pair has on a device, to the end of long texts
/// that have to be closed. Prints it.
#[tokio::test]
async fn a_form_takes_a_twentieth_of_decoding_at_most() {
    let home = Home::find(Environment::read()).unwrap();
    let catalog = Catalog::built_in().unwrap();
    let path = home.require(catalog.find("qwen2.5-coder-0.5b-instruct").unwrap()).unwrap();
    let model = load(LoadOptions::new(path, 1024, 2)).await.unwrap();
    let compiler = GrammarCompiler::new(model.vocabulary().clone()).unwrap();
    let object = |names: &[&str], value: Value| {
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), value.clone())).collect();
        json!({
            "type": "object", "properties": properties, "required": names,
            "additionalProperties": false,
        })
    };
    let text = json!({"type": "string"});
    let product = object(&["name", "maker", "made", "colour"], text.clone());
    let order = object(&["sender", "receiver"], object(&["name", "street", "town"], text));
    for (question, schema) in [
        ("List a hundred products.", json!({"type": "array", "items": product, "minItems": 90})),
        (
            "List ten orders, with long names.",
            json!({"type": "array", "items": order, "minItems": 7}),
        ),
    ] {
        let constraint = compiler.compile(&Grammar::JsonSchema(schema)).unwrap();
        let nanoseconds = Arc::<AtomicU64>::default();
        let constraint = Timed { constraint, nanoseconds: nanoseconds.clone() };
        let input = SessionInput {
            prompt: prompt(&model, question),
            written: vec![],
            sampling: Sampling::default(),
            limits: Limits { max_tokens: 600, stops: vec![] },
        };
        let sequence = model.open().await.unwrap();
        let session: Session<_, Nobody, FakeCloud> = Session::new(sequence, None, input).unwrap();
        let mut session = session.with_constraint(Box::new(constraint));
        let started = Instant::now();
        while session.next().await.unwrap().is_some() {}
        let all = started.elapsed();
        let stats = session.transcript().stats();
        let form = Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
        let share = form.as_secs_f64() / stats.times.edge_decode.as_secs_f64();
        let rest = all - stats.times.edge_decode - stats.times.edge_prefill;
        println!(
            "{question} {} tokens: masks and closing {form:.1?} of {:.1?} decoding, {:.1} %; all but \
             the model {rest:.1?}",
            stats.tokens,
            stats.times.edge_decode,
            share * 100.0
        );
        assert!(stats.tokens > 300, "{}", session.transcript().text());
        assert!(share < 0.05, "{share}: {}", session.transcript().text());
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_at_once_with_a_real_vocabulary() {
    let model = load(options()).await.unwrap();
    let compiler = GrammarCompiler::new(model.vocabulary().clone()).unwrap();
    let endless = json!({
        "type": ["object"], "required": ["me"], "additionalProperties": {"$ref": "#"},
    });
    for grammar in [
        Grammar::JsonSchema(endless),
        Grammar::JsonSchema(json!({"enum": vec!["x".repeat(40); 20_000]})),
        Grammar::Lark("start: \"a\"{1,100000}{1,100000}".into()),
        Grammar::Lark(format!("start: {}\"a\"{}", "(".repeat(50_000), ")".repeat(50_000))),
        Grammar::Lark("start: nobody".into()),
    ] {
        let started = Instant::now();
        let name: String = format!("{grammar:?}").chars().take(100).collect();
        assert!(compiler.compile(&grammar).is_err(), "{name}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?} {name}", started.elapsed());
    }
}
