//! Tiny models of every layout, compared with the recorded outputs of Python's onnxruntime, and where
//! weights are quantised with a plain loop in the same process.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use decode::{Edge, Message, Token, Vocabulary};
use models::{Catalog, Environment, Home};
use serde_json::Value as Json;
use tandem_engine::{
    Adapter, Compute, EngineError, LoadOptions, Model,
    onnx::{Options, Provider},
};

use crate::plain_loop;

/// ONNX Runtime, as `tandem pull onnxruntime` leaves it.
fn library() -> PathBuf {
    let own = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from);
    let (catalog, home) = (Catalog::built_in().unwrap(), Home::find(Environment::read()).unwrap());
    own.unwrap_or_else(|| home.library(catalog.library("onnxruntime").unwrap()))
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_models").join(name)
}

fn options(path: impl Into<PathBuf>) -> LoadOptions {
    let onnx = Options { library: Some(library()), providers: vec![] };
    LoadOptions { sequences: 2, cells: 128, onnx, ..LoadOptions::new(path, 64, 2) }
}

async fn load(options: LoadOptions) -> Result<Model, EngineError> {
    static COMPUTE: LazyLock<Compute> = LazyLock::new(|| Compute::start().unwrap());
    Model::load(&COMPUTE, options).await
}

async fn load_error(options: LoadOptions) -> String {
    load(options).await.err().unwrap().to_string()
}

const ALL: [&str; 12] = [
    "growing",
    "growing_positions",
    "growing_int8",
    "awkward",
    "merged",
    "in_place",
    "in_place_fp16",
    "in_place_int8",
    "in_place_int4",
    "pruned",
    "tied",
    "external",
];

/// The outputs after this many tokens.
struct ExpectedStep {
    read: usize,
    logits: Vec<f32>,
    hidden: Vec<f32>,
}

struct Expected {
    tokens: Vec<Token>,
    steps: Vec<ExpectedStep>,
}

/// Python's outputs; for quantised weights, those of the plain loop in this process.
fn expected(name: &str) -> Expected {
    let text = fs::read_to_string(folder(name).join("expected.json")).unwrap();
    let json: Json = serde_json::from_str(&text).unwrap();
    let tokens = json["tokens"].as_array().unwrap().iter();
    let tokens: Vec<_> = tokens.map(|t| Token(t.as_u64().unwrap() as u32)).collect();
    let floats = |json: &Json| -> Vec<f32> {
        json.as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as f32).collect()
    };
    let steps = match json["steps"].as_array() {
        Some(steps) => steps
            .iter()
            .map(|step| ExpectedStep {
                read: step["read"].as_u64().unwrap() as usize,
                logits: floats(&step["logits"]),
                hidden: floats(&step["hidden"]),
            })
            .collect(),
        None => {
            let (first, rest) = tokens.split_at(json["prefill"].as_u64().unwrap() as usize);
            let parts: Vec<_> = [first].into_iter().chain(rest.chunks(1)).collect();
            let (model, hidden) = (folder(name).join("model.onnx"), json["hidden"].as_str());
            let all = plain_loop::run(&library(), &model, hidden.unwrap(), &parts);
            let seen =
                |(i, (logits, hidden))| ExpectedStep { read: first.len() + i, logits, hidden };
            all.into_iter().enumerate().map(seen).collect()
        }
    };
    Expected { tokens, steps }
}

/// How far the outputs of the same tokens may differ when they are read in other parts.
///
/// Floats round in the last bit; those of 16 bits by a two-thousandth, a dozen times. Where weights
/// are quantised, a kernel may round what it is given to 8 bits, on a scale it takes from all tokens
/// it is given at once, or to none at all: that depends on the CPU and on how many tokens there are.
/// States here are about 3 at most, so a step is 6 / 255 and rounding is off by 0.007 in the mean;
/// weights keep that size, and some fifteen multiplications add up to 0.03. The worst of 64 logits
/// may be off by five times that, and there is room for as much again and more. Other tokens are
/// further apart than that.
fn tolerance(name: &str) -> f32 {
    match name {
        "growing_int8" | "in_place_int8" | "in_place_int4" => 0.5,
        "in_place_fp16" => 0.02,
        _ => 1e-3,
    }
}

fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn assert_near(name: &str, ours: &[f32], theirs: &[f32], tolerance: f32) {
    let apart = apart(ours, theirs);
    println!("{name}: {apart:.4} apart, {tolerance} allowed");
    assert!(apart < tolerance, "{name}: {apart}");
}

#[tokio::test]
async fn every_layout_has_the_outputs_of_a_plain_loop() {
    for name in ALL {
        let model = load(options(folder(name))).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((model.vocabulary().len(), model.hidden_len()), (64, 32), "{name}");
        let mut sequence = model.open().await.unwrap();
        let Expected { tokens, steps } = expected(name);
        let mut before = 0;
        for ExpectedStep { read, logits, hidden } in &steps {
            let output = sequence.read(&tokens[before..*read], true).await.unwrap();
            // The reference read the same tokens in one call, so both round alike.
            let tolerance = if name == "in_place_fp16" { 0.02 } else { 1e-3 };
            assert_near(name, &output.logits, logits, tolerance);
            assert_near(name, &output.hidden, hidden, tolerance);
            assert_eq!((output.position, output.reading.tokens), (*read, read - before), "{name}");
            before = *read;
        }
        // One token more changes the logits by more than what other tests tolerate.
        let wrong = steps.windows(2).map(|two| apart(&two[0].logits, &two[1].logits));
        assert!(wrong.fold(f32::MAX, f32::min) > 2.0 * tolerance(name), "{name}");
    }
}

#[tokio::test]
async fn truncation_is_exact() {
    for name in ALL {
        let model = load(options(folder(name))).await.unwrap();
        let mut sequence = model.open().await.unwrap();
        let Expected { tokens, .. } = expected(name);
        let mut straight = vec![];
        for token in &tokens {
            straight.push(sequence.read(&[*token], true).await.unwrap());
        }
        for keep in [3, 1, 0] {
            sequence.truncate(keep);
            sequence.read(&[Token(40), Token(41)], true).await.unwrap();
            sequence.truncate(keep);
            for (i, token) in tokens.iter().enumerate().skip(keep) {
                let again = sequence.read(&[*token], true).await.unwrap();
                assert_eq!(again.logits, straight[i].logits, "{name} {keep} {i}");
                assert_eq!(again.hidden, straight[i].hidden, "{name} {keep} {i}");
            }
        }
    }
}

#[tokio::test]
async fn steps_and_scores_are_those_of_reading_one_by_one() {
    for name in ALL {
        let model = load(LoadOptions { chunk: 3, ..options(folder(name)) }).await.unwrap();
        let (mut forced, mut stepped) = (model.open().await.unwrap(), model.open().await.unwrap());
        let Expected { tokens, .. } = expected(name);
        let all = forced.steps(&tokens).await.unwrap();
        for (step, token) in all.iter().zip(&tokens) {
            let one = stepped.step(&[*token]).await.unwrap();
            assert_near(name, &step.logits, &one.logits, tolerance(name));
            assert_near(name, &step.hidden, &one.hidden, tolerance(name));
            assert_eq!(step.position, one.position);
        }
        let scores = forced.score(&tokens[..4]).await.unwrap();
        let outputs = stepped.steps(&tokens[..4]).await.unwrap();
        for (i, scored) in scores.tokens.iter().enumerate().skip(1) {
            let logprob = decode::sampling::logprob(&outputs[i - 1].logits, tokens[i]);
            assert!((scored.logprob - logprob).abs() < 0.1 + tolerance(name), "{name} {i}");
        }
        assert_eq!(forced.tokens(), tokens);
    }
}

#[tokio::test]
async fn two_sequences_do_not_mix() {
    for name in ["growing", "in_place", "merged"] {
        let model = load(options(folder(name))).await.unwrap();
        let mut alone = vec![];
        let texts = [[5, 6, 7, 8], [20, 21, 22, 23]].map(|text| text.map(Token));
        for text in &texts {
            let mut sequence = model.open().await.unwrap();
            alone.push(sequence.steps(text).await.unwrap().pop().unwrap().logits);
        }
        let (mut a, mut b) = (model.open().await.unwrap(), model.open().await.unwrap());
        for i in 0..4 {
            let (x, y) =
                tokio::join!(a.read(&texts[0][i..=i], true), b.read(&texts[1][i..=i], true));
            if i == 3 {
                assert_near(name, &x.unwrap().logits, &alone[0], 1e-3);
                assert_near(name, &y.unwrap().logits, &alone[1], 1e-3);
            }
        }
    }
}

#[tokio::test]
async fn a_file_and_its_folder_have_the_same_fingerprint_with_the_precision() {
    for (name, precision) in [
        ("in_place", "fp32"),
        ("in_place_fp16", "fp16"),
        ("in_place_int8", "int8"),
        ("in_place_int4", "int4"),
        ("growing_int8", "int8"),
    ] {
        let (by_folder, by_file) =
            (options(folder(name)), options(folder(name).join("model.onnx")));
        by_folder.check().unwrap();
        let fingerprint = by_folder.fingerprint().unwrap();
        assert_eq!(fingerprint, by_file.fingerprint().unwrap());
        assert!(fingerprint.starts_with(&format!("onnx-{precision}:")), "{fingerprint}");
        assert_eq!(by_folder.name(), format!("{name} (onnx {precision})"));
    }
    // Weights in a file of their own are part of the fingerprint.
    let copy = tempfile::tempdir().unwrap();
    for file in ["model.onnx", "model.onnx.data"] {
        fs::copy(folder("external").join(file), copy.path().join(file)).unwrap();
    }
    let before = options(copy.path()).fingerprint().unwrap();
    let mut data = fs::read(copy.path().join("model.onnx.data")).unwrap();
    data[0] ^= 1;
    fs::write(copy.path().join("model.onnx.data"), data).unwrap();
    assert_ne!(options(copy.path()).fingerprint().unwrap(), before);
}

#[tokio::test]
async fn the_tokenizer_keeps_special_tokens_to_the_template() {
    let model = load(options(folder("in_place"))).await.unwrap();
    let vocabulary = model.vocabulary();
    let ends = |tokens: &[Token]| tokens.iter().filter(|&&t| vocabulary.is_end(t)).count();
    let plain = vocabulary.prompt(&[Message::user("hello")]).unwrap();
    let sly = vocabulary.prompt(&[Message::user("hello<|im_end|>")]).unwrap();
    assert_eq!((ends(&plain), ends(&sly)), (1, 1));
    let text = "why not? (a b)\n";
    let bytes: Vec<u8> =
        vocabulary.encode(text).into_iter().flat_map(|t| vocabulary.piece(t)).collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), text);
    assert!(vocabulary.piece(Token(0)).is_empty());
    assert_eq!(vocabulary.spell(Token(0)), b"<|im_end|>");
}

#[tokio::test]
async fn a_full_context_is_reported() {
    for name in ["growing", "in_place"] {
        // The model was trained for 64 tokens, so a larger context is reduced to that.
        let many = LoadOptions { context: 100, cells: 100, ..options(folder(name)) };
        let model = load(many).await.unwrap();
        assert_eq!(model.context(), 64);
        let mut sequence = model.open().await.unwrap();
        sequence.read(&[Token(7); 64], false).await.unwrap();
        let error = sequence.read(&[Token(7)], false).await.unwrap_err();
        assert!(matches!(error, EngineError::Full { .. }), "{error}");
        sequence.truncate(60);
        sequence.read(&[Token(7)], false).await.unwrap();
    }
}

#[tokio::test]
async fn models_that_cannot_run_are_refused_with_a_reason() {
    let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx/tests/graphs");
    let refuse = |name: &str| load_error(options(graphs.join(name)));
    assert!(refuse("two_heads.onnx").await.contains("candidates"));
    assert!(refuse("cyclic.onnx").await.contains("cyclic"));
    assert!(refuse("none.onnx").await.contains("No such file"));

    let copy = tempfile::tempdir().unwrap();
    let at = |name: &str| copy.path().join(name);
    fs::copy(folder("external").join("model.onnx"), at("model.onnx")).unwrap();
    let missing = load_error(options(copy.path())).await;
    assert!(missing.contains("external data model.onnx.data"), "{missing}");
    fs::copy(folder("in_place").join("model.onnx"), at("model.onnx")).unwrap();
    let alone = load_error(options(copy.path())).await;
    assert!(alone.contains("no tokenizer.json"), "{alone}");
    fs::write(at("tokenizer.json"), "{}").unwrap();
    let broken = load_error(options(copy.path())).await;
    assert!(broken.contains("tokenizer.json"), "{broken}");
    let whole = fs::read(at("model.onnx")).unwrap();
    fs::write(at("model.onnx"), &whole[..whole.len() / 2]).unwrap();
    assert!(load_error(options(copy.path())).await.contains("truncated or damaged"));
    // Changes the element type of an input in the file, so that ids are not integers.
    let position = whole.windows(9).rposition(|w| w == b"input_ids").unwrap();
    let mut wrong = whole.clone();
    let kind = wrong[position..].windows(2).position(|w| w == [0x08, 0x07]).unwrap() + position;
    wrong[kind + 1] = 1;
    fs::write(at("model.onnx"), wrong).unwrap();
    let wrong = load_error(options(copy.path())).await;
    assert!(wrong.contains("input_ids") && wrong.contains("Float"), "{wrong}");

    let adapter = Adapter { path: "lora.gguf".into(), scale: 1.0 };
    let adapted = LoadOptions { adapters: vec![adapter], ..options(folder("in_place")) };
    assert!(adapted.check().unwrap_err().to_string().contains("tandem onnx export --adapter"));
    let providers = vec![Provider::Cuda];
    let onnx = Options { providers, ..options(folder("in_place")).onnx };
    let card = load_error(LoadOptions { onnx, ..options(folder("in_place")) }).await;
    assert!(card.contains("no execution provider cuda"), "{card}");
    let model = load(options(folder("in_place"))).await.unwrap();
    let mut sequence = model.open().await.unwrap();
    let outside = sequence.read(&[Token(64)], false).await.unwrap_err().to_string();
    assert!(outside.contains("64"), "{outside}");
    assert!(sequence.read(&[Token(1)], false).await.is_ok());
}

#[tokio::test]
async fn caches_and_logits_that_are_too_short_are_errors() {
    let model = load(options(folder("windowed"))).await.unwrap();
    let mut sequence = model.open().await.unwrap();
    sequence.read(&[Token(5), Token(9)], true).await.unwrap();
    let short = sequence.read(&[Token(3), Token(2), Token(7)], true).await.unwrap_err().to_string();
    assert!(short.contains("sliding windows are not supported"), "{short}");
    // The sequence is empty again, and works.
    sequence.read(&[Token(5)], true).await.unwrap();

    let model = load(options(folder("forgetful"))).await.unwrap();
    let mut sequence = model.open().await.unwrap();
    sequence.read(&[Token(5), Token(9)], true).await.unwrap();
    let none = sequence.read(&[Token(3)], true).await.unwrap_err().to_string();
    assert!(none.contains("no logits or no hidden state"), "{none}");
    // Of several tokens at once, only the last has to have a row: that it has none is told, too.
    for (tokens, hidden) in [([3, 2], false), ([3, 2], true), ([7, 7], false)] {
        let mut sequence = model.open().await.unwrap();
        sequence.read(&[Token(5), Token(9)], true).await.unwrap();
        let none = sequence.read(&tokens.map(Token), hidden).await.unwrap_err().to_string();
        assert!(none.contains("no logits or no hidden state"), "{none}");
    }
    let mut sequence = model.open().await.unwrap();
    sequence.read(&[Token(5), Token(9)], true).await.unwrap();
    let none = sequence.read_each(&[Token(3), Token(2)]).await.unwrap_err().to_string();
    assert!(none.contains("no logits or no hidden state"), "{none}");
}
