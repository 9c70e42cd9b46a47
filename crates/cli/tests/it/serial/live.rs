//! From live use to a router, end to end: `tandem cloud --collect`, edges that share, training.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    io::{BufRead, BufReader},
    path::Path,
};

use lab::collect::{Collection, LabelSource};

use crate::common::{Cloud, SMALL, interrupt, run, run_with_input, tandem};

/// The small model with an adapter is a cloud with the edge's vocabulary and a mind of its own.
const ADAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/commonsenseqa/edge.gguf");

const QUESTIONS: [&str; 8] = [
    "Where do people keep milk?",
    "Name a river in France.",
    "What do bees make?",
    "Why is the sky blue?",
    "What is a hammer for?",
    "Who wrote Hamlet?",
    "How do birds fly?",
    "What is snow?",
];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A cloud that collects, and what it said before it listened.
fn collecting(folder: &Path, model: &[&str]) -> (Cloud, String) {
    let arguments = ["cloud", "--listen", "127.0.0.1:0", "--context", "512", "--collect"];
    let arguments = [&arguments, &[text(folder)][..], model].concat();
    let mut child = tandem(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut said = String::new();
    let url = loop {
        let line = lines.next().unwrap_or_else(|| panic!("it ended: {said}"));
        match line.strip_prefix("listening on ") {
            Some(url) => break url.to_owned(),
            None => said += &line,
        }
    };
    std::thread::spawn(move || lines.for_each(drop));
    (Cloud { child, url }, said)
}

fn stop(mut cloud: Cloud) {
    interrupt(&cloud.child);
    assert!(cloud.child.wait().unwrap().success());
}

#[test]
fn from_use_to_a_router() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (collected, router) = (file("live"), file("r.safetensors"));
    let adapted = ["--cloud-model", SMALL, "--cloud-adapter", ADAPTER];
    let (cloud, said) = collecting(&collected, &adapted);
    assert!(said.contains("collecting") && said.contains("live"), "{said}");

    // Without the flag nothing of it leaves the device; with it, the account says so.
    let base = ["run", QUESTIONS[0], "--cloud", &cloud.url, "--router", "random:0.5"];
    let base = [&base[..], &["--max-tokens", "16", "--seed", "1", "--json"]].concat();
    let plain = run(&base).json();
    let shared = run(&[&base[..], &["--share-states"]].concat()).json();
    let asks = shared["stats"]["asks"].as_u64().unwrap();
    assert_eq!(plain["stats"]["asks"], asks);
    assert!(asks > 0, "{shared}");
    let sent = |report: &serde_json::Value| report["stats"]["sent_bytes"].as_u64().unwrap();
    // 576 numbers of two bytes, in base64.
    assert!(sent(&shared) > sent(&plain) + asks * 1536, "{} {}", sent(&shared), sent(&plain));

    // Each question is a conversation of its own.
    let lines = QUESTIONS[1..].join("\n/reset\n") + "\n/quit\n";
    let arguments = ["chat", "--cloud", &cloud.url, "--router", "random:0.5", "--share-states"];
    let arguments = [&arguments[..], &["--max-tokens", "24", "--seed", "2"]].concat();
    let done = run_with_input(&arguments, lines.as_bytes());
    assert_eq!(done.code, Some(0), "{}", done.err);
    // An edge with an adapter is another model: it is told, and answered all the same.
    let other = [&base[..], &["--share-states", "--edge-adapter", ADAPTER]].concat();
    let done = run(&other);
    assert!(done.err.contains("the edge differs") && done.err.contains(SMALL), "{}", done.err);
    assert!(done.json()["stats"]["asks"].as_u64().unwrap() > 0);
    stop(cloud);

    let collection = Collection::read(&collected).unwrap();
    let samples = collection.samples().unwrap();
    assert_eq!(collection.info().count, QUESTIONS.len());
    assert!(samples.len() > 50, "{}", samples.len());
    assert!(
        samples.iter().all(|s| s.label_source == LabelSource::Traffic && s.hidden.len() == 576)
    );
    let agreed = samples.iter().filter(|s| s.agrees == Some(true)).count();
    assert!(agreed > samples.len() / 3 && agreed < samples.len(), "{agreed}");

    let train = |objective: &str| {
        let arguments = ["router", "train", text(&collected), "-o", text(&router)];
        run(&[&arguments[..], &["--objective", objective, "--epochs", "3"]].concat())
    };
    let done = train("citer");
    assert_eq!(done.code, Some(1), "{}", done.out);
    assert!(done.err.contains("live traffic") && done.err.contains("agree"), "{}", done.err);
    let done = train("agree");
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(run(&["router", "inspect", text(&router), "--json"]).json()["objective"], "agree");
    let used = ["run", "hi", "--router", text(&router), "--max-tokens", "8", "--offline", "--json"];
    assert_eq!(run(&used).json()["router"], "r");

    // A second start goes on; another cloud is refused, and both are named.
    let other = ["cloud", "--listen", "127.0.0.1:0", "--cloud-model", SMALL, "--collect"];
    let done = run(&[&other[..], &[text(&collected)]].concat());
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("the cloud differs") && done.err.contains("edge"), "{}", done.err);
    let (cloud, _) = collecting(&collected, &adapted);
    let run_again = |url: &str| {
        let arguments = ["run", QUESTIONS[0], "--cloud", url, "--router", "random:0.5"];
        run(&[&arguments[..], &["--max-tokens", "8", "--seed", "1", "--share-states"]].concat())
    };
    assert_eq!(run_again(&cloud.url).code, Some(0));
    stop(cloud);
    let collection = Collection::read(&collected).unwrap();
    assert_eq!(collection.info().count, QUESTIONS.len() + 1);
    assert!(collection.samples().unwrap().len() > samples.len());
}

#[test]
fn sharing_needs_somebody_who_collects() {
    let done = run(&["run", "hi", "--share-states"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("--cloud"), "{}", done.err);

    let cloud = Cloud::start(&["--cloud-model", SMALL, "--context", "512"]);
    let base = ["run", "hi", "--cloud", &cloud.url, "--threshold", "1", "--max-tokens", "3"];
    let done = run(&[&base[..], &["--share-states", "--json"]].concat());
    assert!(done.err.contains("it does not collect"), "{}", done.err);
    assert_eq!(done.json()["stats"]["asks"], 3);
}
