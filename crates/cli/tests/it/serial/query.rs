//! A router of whole answers, from results to a row of `tandem eval`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::common::{SMALL, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// One question that comes with the program, answered by both models.
fn eval(results: &Path, more: &[&str]) -> Value {
    let base = ["eval", "builtin", "--limit", "1", "--max-tokens", "8", "--context", "512"];
    let points = ["--cloud-model", SMALL, "--router", "top1", "--budget", "50%", "--json"];
    run(&[&base[..], &points, &["--results", text(results)], more].concat()).json()
}

/// Results of the same models on questions of two kinds: sums, which only the large model gets right, and
/// stories, which both do.
fn made_up(real: &str) -> String {
    let lines = real.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let answer = |point: &str| {
        let of = |line: &&Value| line["outcome"]["point"] == point;
        lines.iter().find(of).unwrap_or_else(|| panic!("no {point} in {real}")).clone()
    };
    let (small, large) = (answer("small"), answer("large"));
    let mut all: Vec<Value> = lines
        .iter()
        .filter(|line| line["outcome"].is_null() && line["question"].is_null())
        .cloned()
        .collect();
    let things = ["a horse", "the rain", "old iron", "warm bread", "a map", "wool", "tea", "bees"];
    for number in 0..64 {
        let sum = number % 2 == 0;
        let thing = things[number / 2 % things.len()];
        let prompt = match sum {
            true => format!("What is {} + {}? Write only the number.", number * 37, number + 512),
            false => format!("Tell me a short story of {number} words about {thing}."),
        };
        let id = format!("made up {number}");
        all.push(json!({"question": {"id": id, "prompt": prompt, "right": "x", "trust": {}}}));
        for (mut line, right) in [(small.clone(), !sum), (large.clone(), true)] {
            line["outcome"]["id"] = id.clone().into();
            line["outcome"]["right"] = right.into();
            all.push(line);
        }
    }
    all.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn it_learns_which_questions_need_the_large_model_and_is_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (real, learnt_from, router) =
        (file("real.jsonl"), file("made-up.jsonl"), file("query.safetensors"));
    let before = eval(&real, &[]);
    fs::write(&learnt_from, made_up(&fs::read_to_string(&real).unwrap())).unwrap();
    let train = |results: &Path, more: &[&str]| {
        let base = ["router", "train-query", text(results), "-o", text(&router), "--json"];
        run(&[&base[..], &["--context", "512"], more].concat())
    };
    // Sums and stories are not alike, whatever the model.
    let trained = train(&learnt_from, &[]).json();
    assert!(trained["report"]["auc"].as_f64().unwrap() > 0.9, "{trained}");
    assert!(router.with_extension("svg").exists());

    // Nothing is answered again, and one more row is there.
    let after = eval(&real, &["--query-router", text(&router)]);
    let rows = |table: &Value| table["points"].as_array().unwrap().clone();
    assert_eq!(rows(&after).len(), rows(&before).len() + 1, "{after}");
    let is_it = |row: &&Value| row["name"].as_str().unwrap().starts_with("whole answers by query ");
    let all = rows(&after);
    let row = all.iter().find(is_it).unwrap();
    assert_eq!((&row["mode"], &row["questions"]), (&"query".into(), &1.into()), "{row}");

    // It chooses between answers and nothing else, and no router of tokens does.
    let tokens = run(&["run", "--router", text(&router), "--cloud-model", SMALL, "Hi."]);
    assert_eq!(tokens.code, Some(2), "{}", tokens.err);
    assert!(tokens.err.contains("chooses between whole answers"), "{}", tokens.err);
    let general =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/general/router.safetensors");
    let refused =
        run(&["eval", "builtin", "--cloud-model", SMALL, "--query-router", text(&general)]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("train-query"), "{}", refused.err);

    // Another small model's answers teach nothing here, nor do those of one model alone.
    let adapter =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/commonsenseqa/edge.gguf");
    let other = train(&learnt_from, &["--edge-adapter", text(&adapter)]);
    assert_eq!(other.code, Some(2), "{}", other.err);
    assert!(other.err.contains("the results are of the small model"), "{}", other.err);
    let without = fs::read_to_string(&learnt_from).unwrap();
    let without: Vec<_> = without.lines().filter(|l| !l.contains("\"point\":\"large\"")).collect();
    fs::write(&learnt_from, without.join("\n") + "\n").unwrap();
    let alone = train(&learnt_from, &[]);
    assert_eq!(alone.code, Some(2), "{}", alone.err);
    assert!(alone.err.contains("--no-large"), "{}", alone.err);
}
