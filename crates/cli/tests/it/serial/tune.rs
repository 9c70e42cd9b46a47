//! `tandem tune`, end to end: a small model with an adapter, and the same without one as its cloud, so
//! that the two part now and then and nothing large is loaded.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::Duration,
};

use serde_json::Value;

use crate::common::{Cloud, Done, SMALL, kill_once_it_wrote, run, sha256, tandem};

const TOPICS: [&str; 12] = [
    "rain", "bread", "the moon", "iron", "horses", "glass", "tea", "maps", "salt", "wool",
    "clocks", "bees",
];

fn prompts(path: &Path) {
    let line = |topic| format!("{{\"prompt\": \"Tell me one thing about {topic}.\"}}\n");
    fs::write(path, TOPICS.map(line).concat()).unwrap();
}

fn adapter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/commonsenseqa/edge.gguf")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn tune(prompts: &Path, output: &Path, more: &[&str]) -> Command {
    let sizes = ["--cloud-model", SMALL, "--max-tokens", "10"];
    tune_with(&sizes, prompts, output, more)
}

/// With this cloud.
fn tune_with(cloud: &[&str], prompts: &Path, output: &Path, more: &[&str]) -> Command {
    let adapter = adapter();
    let mut arguments = vec!["tune", "--prompts", text(prompts), "-o", text(output)];
    arguments.extend(["--edge-model", SMALL, "--edge-adapter", text(&adapter)]);
    arguments.extend(["--context", "128", "--rollouts", "2"]);
    arguments.extend(cloud);
    arguments.extend(more);
    tandem(&arguments)
}

fn finished(mut command: Command) -> Done {
    command.output().unwrap().into()
}

#[test]
fn prompts_become_a_preset_and_a_killed_run_ends_with_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (data, mine, killed) = (file("prompts.jsonl"), file("mine"), file("killed"));
    prompts(&data);
    let dry: Done = tune(&data, &mine, &["--dry-run", "--json"]).output().unwrap().into();
    let estimate = dry.json();
    assert!(estimate["seconds"].as_u64().unwrap() > 0 && estimate["bytes_sent"] == 0, "{estimate}");
    assert!(!mine.exists());

    let done: Done = tune(&data, &mine, &["--judge", "1"]).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("12 prompts, 1 round: about"), "{}", done.err);
    assert!(done.out.contains("AUC") && done.out.contains("large"), "{}", done.out);
    let page = fs::read_to_string(mine.join("report.html")).unwrap();
    assert!(page.contains("The router") && page.contains("ROC"), "{}", page.len());

    // While answers are written, and behind that. The judgement changes nothing of the router.
    let again = || tune(&data, &killed, &["--judge", "0"]);
    kill_once_it_wrote(again(), &killed.join("work/round-1/texts.jsonl"));
    kill_once_it_wrote(again(), &killed.join("work/round-1"));
    let done: Done = again().output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("resuming"), "{}", done.err);
    for file in ["router.safetensors", "edge.gguf"] {
        let read = |folder: &Path| fs::read(folder.join(file)).unwrap();
        assert!(read(&mine) == read(&killed), "{file} differs");
    }

    // The folder is all that is needed.
    let check = run(&["preset", "check", text(&mine)]);
    assert_eq!(check.code, Some(0), "{} {}", check.out, check.err);
    let report = run(&["run", "--preset", text(&mine), "--max-tokens", "4", "--json", "Say hi."]);
    let report = report.json();
    assert_eq!(report["router"], "router", "{report}");

    // Other prompts do not belong there.
    fs::write(&data, fs::read_to_string(&data).unwrap() + "{\"prompt\": \"Why?\"}\n").unwrap();
    let other: Done = tune(&data, &mine, &[]).output().unwrap().into();
    assert_eq!(other.code, Some(1));
    assert!(other.err.contains("the prompts differs"), "{}", other.err);
}

#[test]
fn what_cannot_be_tuned_on_is_told_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("prompts.jsonl");
    let huge = format!("{{\"prompt\": \"{}\"}}\n", "word ".repeat(400));
    let few = "{\"prompt\": \"Why?\"}\n".repeat(3);
    for (lines, code, says) in [
        ("Why?\n".to_owned(), 1, "line 1"),
        ("{\"prompt\": \"\"}\n".to_owned(), 1, "line 1"),
        (few, 2, "1 different prompts are left, and tuning needs at least 12"),
        (huge, 2, "raise --context"),
    ] {
        fs::write(&data, lines).unwrap();
        let output = folder.path().join("mine");
        let done: Done = tune(&data, &output, &[]).output().unwrap().into();
        assert_eq!(done.code, Some(code), "{}", done.err);
        assert!(done.err.contains(says), "{}", done.err);
        assert!(!output.exists());
    }
}

#[test]
fn every_round_is_recorded_and_more_may_follow() {
    let folder = tempfile::tempdir().unwrap();
    let (data, mine) = (folder.path().join("prompts.jsonl"), folder.path().join("mine"));
    prompts(&data);
    let work = |file: &str| mine.join("work").join(file);
    let one = finished(tune(&data, &mine, &["--judge", "0"]));
    assert_eq!(one.code, Some(0), "{}", one.err);
    let first = fs::read(work("round-1/router.safetensors")).unwrap();
    let preset = fs::read(mine.join("router.safetensors")).unwrap();
    assert!(!work("round-2").exists() && !work("round-1/round.json").exists());

    let two = finished(tune(&data, &mine, &["--judge", "0", "--rounds", "2"]));
    assert_eq!(two.code, Some(0), "{}", two.err);
    assert!(two.err.contains("resuming"), "{}", two.err);
    assert!(fs::read(work("round-1/router.safetensors")).unwrap() == first, "made again");
    assert!(fs::read(mine.join("router.safetensors")).unwrap() != preset, "not the second round's");
    // What its answers were written with: the first round's router, by its hash.
    let read = |file: &str| fs::read_to_string(work(file)).unwrap();
    let with: Value = serde_json::from_str(&read("round-2/round.json")).unwrap();
    assert_eq!(with["router"].as_str().unwrap(), &sha256(&first)[..16], "{with}");
    assert!((0.0..=1.0).contains(&with["threshold"].as_f64().unwrap()), "{with}");
    // In the first the large model wrote all of it, in the second both did.
    let routed = |file: &str| -> Vec<(u64, u64)> {
        let lines = read(file);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let count = |line: &Value, name: &str| line[name].as_u64().unwrap();
        lines.map(|line| (count(&line, "tokens"), count(&line, "routed"))).collect()
    };
    assert_eq!(routed("round-2/texts.jsonl").len(), TOPICS.len());
    assert!(routed("round-1/texts.jsonl").iter().all(|(tokens, routed)| tokens == routed));
    assert!(routed("round-2/texts.jsonl").iter().any(|(tokens, routed)| routed < tokens));
}

#[test]
fn a_cloud_that_dies_in_the_middle_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, mine) = (folder.path().join("prompts.jsonl"), folder.path().join("mine"));
    prompts(&data);
    let model = ["--cloud-model", SMALL, "--context", "128"];
    let mut cloud = Cloud::start(&model);
    let (url, texts) = (cloud.url.clone(), mine.join("work/round-1/texts.jsonl"));
    let sizes = ["--max-tokens", "10", "--judge", "0"];
    let tune = || tune_with(&["--cloud", &url], &data, &mine, &sizes);

    let mut command = tune();
    let mut child = command.spawn().unwrap();
    while fs::metadata(&texts).map_or(0, |file| file.len()) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before an answer was there");
        sleep(Duration::from_millis(5));
    }
    cloud.child.kill().unwrap();
    cloud.child.wait().unwrap();
    let failed: Done = child.wait_with_output().unwrap().into();
    assert_eq!(failed.code, Some(1), "{}", failed.err);
    assert!(failed.err.contains("cannot be reached"), "{}", failed.err);
    assert!(failed.err.contains("the same command resumes"), "{}", failed.err);
    let before = fs::read_to_string(&texts).unwrap();
    let whole = &before[..before.rfind('\n').map_or(0, |at| at + 1)];
    assert!(!whole.is_empty() && whole.lines().count() < TOPICS.len(), "{before}");
    assert!(!mine.join("preset.toml").exists());

    let address = url.strip_prefix("http://").unwrap();
    let _again = Cloud::start_at(address, "cloud", &model);
    let done = finished(tune());
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("resuming"), "{}", done.err);
    let after = fs::read_to_string(&texts).unwrap();
    assert!(after.starts_with(whole), "answers were lost:\n{before}\n{after}");
    assert_eq!(after.lines().count(), TOPICS.len());
    let check = run(&["preset", "check", text(&mine)]);
    assert_eq!(check.code, Some(0), "{} {}", check.out, check.err);
}

#[test]
fn a_cloud_of_plain_text_teaches_too() {
    let folder = tempfile::tempdir().unwrap();
    let (data, mine) = (folder.path().join("prompts.jsonl"), folder.path().join("mine"));
    prompts(&data);
    let server = Cloud::start_as("serve", &["--offline", "--context", "128"]);
    let engine = ["--cloud", &server.url, "--cloud-engine", "openai"];
    let model = ["--cloud-model", "tandem-small", "--cloud-template", "chatml"];
    let cloud = [engine, model].concat();
    let done = finished(tune_with(&cloud, &data, &mine, &["--judge", "1", "--max-tokens", "24"]));
    assert_eq!(done.code, Some(0), "{}", done.err);
    // Something left this machine, and nobody can say what an answer is worth.
    assert!(done.err.contains("MB sent to it"), "{}", done.err);
    assert!(done.err.contains("no answers were judged"), "{}", done.err);
    let shown = run(&["router", "inspect", "--json", text(&mine.join("router.safetensors"))]);
    assert_eq!(shown.json()["ids"], false, "words travelled");
    let check = run(&["preset", "check", text(&mine)]);
    assert_eq!(check.code, Some(0), "{} {}", check.out, check.err);
}

#[test]
fn an_edge_without_a_hidden_state_is_refused_before_anything_is_collected() {
    let folder = tempfile::tempdir().unwrap();
    let (data, mine) = (folder.path().join("prompts.jsonl"), folder.path().join("mine"));
    prompts(&data);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let edge = folder.path().join("edge");
    fs::create_dir(&edge).unwrap();
    fs::copy(crates.join("onnx/tests/graphs/no_head.onnx"), edge.join("model.onnx")).unwrap();
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(crates.join("engine/tests/onnx_models").join(file), edge.join(file)).unwrap();
    }
    let arguments = ["tune", "--prompts", text(&data), "-o", text(&mine)];
    let pair = ["--edge-model", text(&edge), "--cloud-model", SMALL];
    let done = run(&[&arguments[..], &pair].concat());
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err.contains("model.onnx: ") && done.err.contains("its hidden state cannot be found"),
        "{}",
        done.err
    );
    assert!(!mine.exists());
}
