//! `tandem tune`, end to end: a small model with an adapter, and the same without one as its cloud, so
//! that the two part now and then and nothing large is loaded.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{Done, SMALL, kill_once_it_wrote, run, tandem};

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
    let adapter = adapter();
    let mut arguments = vec!["tune", "--prompts", text(prompts), "-o", text(output)];
    arguments.extend(["--edge-model", SMALL, "--edge-adapter", text(&adapter)]);
    arguments.extend(["--cloud-model", SMALL, "--context", "128"]);
    arguments.extend(["--max-tokens", "10", "--rollouts", "2"]);
    arguments.extend(more);
    tandem(&arguments)
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
