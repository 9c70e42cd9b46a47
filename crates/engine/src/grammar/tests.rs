use std::time::{Duration, Instant};

use decode::{Continuation, Token, fake::FakeVocabulary, sampling};

use super::*;

mod closing;

fn vocabulary() -> Arc<FakeVocabulary> {
    let pieces = ["{\"", "\": ", "name", "\": \"", "\"}", ", \"", "age", "true", "12", " Paris"];
    Arc::new(FakeVocabulary::new(&pieces))
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

/// Writes a text by a model that likes tokens at random.
fn write(grammar: &Grammar, seed: u64) -> (String, usize) {
    let vocabulary = vocabulary();
    let compiler = GrammarCompiler::new(vocabulary.clone()).unwrap();
    let mut constraint = compiler.compile(grammar).unwrap();
    let (mut text, mut forced) = (vec![], 0);
    for position in 0..400 {
        let tokens = match constraint.continuation().unwrap() {
            Continuation::Complete => break,
            Continuation::Forced(tokens) => {
                forced += tokens.len();
                tokens
            }
            Continuation::Open => {
                let mut logits: Vec<f32> = (0..vocabulary.len())
                    .map(|id| sampling::uniform(seed, position * 1000 + id) as f32)
                    .collect();
                constraint.mask(&mut logits).unwrap();
                let token = sampling::argmax(&logits).unwrap();
                if vocabulary.is_end(token) {
                    assert!(constraint.may_end().unwrap());
                    break;
                }
                assert!(constraint.allows(&[token]).unwrap());
                vec![token]
            }
        };
        text.extend(tokens.iter().flat_map(|&t| vocabulary.piece(t)));
        constraint.advance(&tokens).unwrap();
    }
    (String::from_utf8(text).unwrap(), forced)
}

#[test]
fn random_models_write_what_the_schema_wants() {
    for seed in 0..40 {
        let (text, forced) = write(&Grammar::JsonSchema(person()), seed);
        // An integer has no end of its own, so a random model may still be writing digits.
        if text.ends_with('}') {
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} {text}"));
            assert!(value["name"].is_string() && value["age"].is_number(), "{text}");
        }
        assert!(text.starts_with("{\"name\": \""), "{text}");
        assert!(forced > 4, "{forced} {text}");
    }
}

#[test]
fn other_forms() {
    let (text, _) = write(&Grammar::Regex("(yes|no)[0-9]{2}".into()), 3);
    assert!(text.starts_with("yes") || text.starts_with("no"), "{text}");
    assert_eq!(text.trim_start_matches(char::is_alphabetic).len(), 2, "{text}");
    let (text, _) = write(&Grammar::Lark("start: \"a\" (\"b\" | \"c\") \"d\"".into()), 5);
    assert!(["abd", "acd"].contains(&text.as_str()), "{text}");
    let gbnf =
        "root ::= \"(\" digit{2} rest\ndigit ::= [0-9]\nrest ::= [x-z] \")\" | \"!\" [^a-z\\n]";
    let (text, _) = write(&Grammar::Lark(gbnf.into()), 7);
    assert!(text.starts_with('(') && text[1..3].parse::<u8>().is_ok(), "{text}");
    let (text, _) = write(&Grammar::JsonSchema(json!({"enum": ["red", "green"]})), 1);
    assert!(["\"red\"", "\"green\""].contains(&text.as_str()), "{text}");
}

#[test]
fn a_duplicate_returns_to_an_earlier_place() {
    let compiler = GrammarCompiler::new(vocabulary()).unwrap();
    let mut constraint = compiler.compile(&Grammar::Regex("ab+c".into())).unwrap();
    let token = |b: u8| Token(u32::from(b) + 1);
    constraint.advance(&[token(b'a'), token(b'b')]).unwrap();
    let mut checkpoint = constraint.clone();
    constraint.advance(&[token(b'c')]).unwrap();
    assert_eq!(constraint.continuation().unwrap(), Continuation::Complete);
    assert!(checkpoint.allows(&[token(b'b'), token(b'c')]).unwrap());
    assert!(!checkpoint.allows(&[token(b'a')]).unwrap());
    assert!(!checkpoint.may_end().unwrap());
}

#[test]
fn what_makes_no_sense_is_refused_at_once() {
    let compiler = GrammarCompiler::new(vocabulary()).unwrap();
    let schemas = [
        json!({"$ref": "#"}),
        json!({"$ref": "#/nowhere"}),
        json!({"type": "nonsense"}),
        json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
        json!({"type": "integer", "minimum": 5, "maximum": 3}),
        json!(false),
        json!({"enum": vec!["x".repeat(40); 20_000]}),
    ];
    let texts = [
        "start: nobody",
        "start: \"a\"{1,100000}{1,100000}",
        &format!("start: {}\"a\"{}", "(".repeat(50_000), ")".repeat(50_000)),
        &"x".repeat(1 << 20),
    ];
    let grammars = schemas.into_iter().map(Grammar::JsonSchema);
    for grammar in grammars.chain(texts.map(|t| Grammar::Lark(t.into()))) {
        let started = Instant::now();
        let name: String = format!("{grammar:?}").chars().take(100).collect();
        assert!(compiler.compile(&grammar).is_err(), "{name}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?} {name}", started.elapsed());
    }
}

#[test]
fn what_is_huge_takes_no_time() {
    let compiler = GrammarCompiler::new(vocabulary()).unwrap();
    let many = |n: usize| (0..n).map(|i| (format!("key{i}"), json!({"type": "string"})));
    let properties: serde_json::Map<String, Value> = many(1000).collect();
    let row = |n: usize, between: &str| format!("start: {}", vec!["\"ab\""; n].join(between));
    for grammar in [
        Grammar::JsonSchema(
            json!({"type": "string", "pattern": "((a|b|ab|ba){1,500}){1,500}c{1,5000}"}),
        ),
        Grammar::Regex("((((a|b)*c){50}){50}){50}".into()),
        Grammar::JsonSchema(json!({"type": "object", "properties": properties})),
        Grammar::JsonSchema(json!({"type": "array", "minItems": 1_000_000_000})),
        Grammar::JsonSchema(
            json!({"enum": (0..9000).map(|i| format!("x{i}")).collect::<Vec<_>>()}),
        ),
        Grammar::Lark(row(30_000, " ")),
        Grammar::Lark(row(30_000, " | ")),
        Grammar::Lark(row(4000, " | ")),
        Grammar::Regex(vec!["ab"; 4000].join("|")),
        Grammar::Regex("a".repeat(200_000)),
        Grammar::Regex(vec!["ab"; 60_000].join("|")),
        Grammar::JsonSchema(json!({"type": "string", "minLength": 1_000_000_000})),
    ] {
        let started = Instant::now();
        let name: String = format!("{grammar:?}").chars().take(100).collect();
        // Whether it is refused does not matter, only that nobody waits for it.
        drop(compiler.compile(&grammar));
        assert!(started.elapsed() < Duration::from_secs(1), "{:?} {name}", started.elapsed());
    }
}

#[test]
fn text_is_free_until_the_word_and_behind_the_form() {
    let vocabulary = Arc::new(FakeVocabulary::new(&["<call>", "<call", "l>x", "ll>", " the"]));
    let compiler = GrammarCompiler::new(vocabulary.clone()).unwrap();
    let lark = "start: \"(\" /[0-9]+/ \")\"".to_owned();
    let grammar = Grammar::Triggered { word: "<call>".into(), lark, again: true };
    let mut constraint = compiler.compile(&grammar).unwrap();
    let encode = |text: &str| vocabulary.encode(text);
    assert!(constraint.may_end().unwrap());
    assert!(constraint.allows(&encode(" the <call>(12) the <call>(3)")).unwrap());
    assert!(!constraint.allows(&encode(" the <call>12")).unwrap());
    constraint.advance(&encode(" the <cal")).unwrap();
    let mut logits = vec![0.0; vocabulary.len()];
    constraint.mask(&mut logits).unwrap();
    // It would write beyond the word, where only a bracket may come.
    let id = |text: &str| encode(text)[0].index();
    assert_eq!(logits[id("l>x")], f32::NEG_INFINITY);
    assert_eq!((logits[id("ll>")], logits[id(" the")]), (0.0, 0.0));
    constraint.advance(&encode("l>")).unwrap();
    assert!(!constraint.may_end().unwrap());
    assert_eq!(constraint.continuation().unwrap(), Continuation::Forced(encode("(")));
    let mut checkpoint = constraint.clone();
    constraint.advance(&encode("(7)")).unwrap();
    assert!(constraint.may_end().unwrap() && constraint.allows(&encode(" the")).unwrap());
    assert!(!checkpoint.allows(&encode(" the")).unwrap());
    // Tokens that end the form and go on behind it, and some that do neither.
    assert!(checkpoint.allows(&encode("(7) the")).unwrap());
    assert!(!checkpoint.allows(&encode("(7 the")).unwrap());
}

#[test]
fn biases_are_added_and_what_is_banned_is_not_taken() {
    let vocabulary = vocabulary();
    let (name, age) = (vocabulary.encode("name")[0], vocabulary.encode("age")[0]);
    let mut constraint = biased(None, vec![(name, 5.0), (age, -100.0)]);
    let mut logits = vec![1.0; vocabulary.len()];
    constraint.mask(&mut logits).unwrap();
    assert_eq!((logits[name.index()], logits[age.index()], logits[1]), (6.0, -99.0, 1.0));
    assert!(constraint.allows(&[name]).unwrap() && !constraint.allows(&[name, age]).unwrap());
}
