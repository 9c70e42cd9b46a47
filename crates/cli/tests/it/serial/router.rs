//! `tandem router`, end to end with real models.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path, process::Command};

use lab::collect::{Collection, Label, Sample};
use serde_json::Value;

use crate::common::{Cloud, Done, SMALL, kill_once_it_wrote, run, tandem};

/// Worked answers, made here: sums that a small model gets right now and then.
fn examples(path: &Path, count: usize) {
    let line = |i: usize| {
        let (a, b) = (i % 7 + 2, i % 5 + 3);
        let answer = a + b;
        format!(
            "{{\"problem\": \"What is {a} plus {b}?\", \"answer\": \"{answer}\", \"solution\": \
             \"{a} plus {b} is {answer}. The answer is \\\\boxed{{{answer}}}.\"}}\n"
        )
    };
    fs::write(path, (0..count).map(line).collect::<String>()).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The small model as its own cloud: ids travel, and nothing large is loaded. One example at a time:
/// batches round differently.
fn collect(data: &Path, folder: &Path, rollouts: &str, tokens: &str) -> Command {
    let (data, folder) = (text(data), text(folder));
    let mut arguments = vec!["router", "collect", "--data", data, "-o", folder];
    arguments.extend(["--cloud-model", SMALL, "--context", "256", "--parallel", "1"]);
    arguments.extend(["--rollouts", rollouts, "--max-tokens", tokens]);
    tandem(&arguments)
}

fn labels(samples: &[Sample]) -> Vec<(u32, u32, Label)> {
    let mut labels: Vec<_> = samples.iter().map(|s| (s.example, s.position, s.label)).collect();
    labels.sort_by_key(|&(example, position, _)| (example, position));
    labels
}

#[test]
fn a_collection_that_was_killed_again_and_again_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    examples(&data, 18);
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    let done: Done = collect(&data, &whole, "6", "40").output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("positions: the edge is right at"), "{}", done.err);

    for _ in 0..4 {
        kill_once_it_wrote(collect(&data, &killed, "6", "40"), &killed);
    }
    let done: Done = collect(&data, &killed, "6", "40").output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);

    let samples = |folder: &Path| Collection::read(folder).unwrap().samples().unwrap();
    let (whole, killed) = (samples(&whole), samples(&killed));
    assert!(whole.iter().any(|s| s.label == Label::Trust));
    assert_eq!(labels(&whole), labels(&killed));
    assert!(whole.iter().all(|s| s.hidden.len() == 576));

    // The same folder with other data is refused, not mixed.
    examples(&data, 17);
    let done: Done =
        collect(&data, &folder.path().join("whole"), "6", "40").output().unwrap().into();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("holds another collection"), "{}", done.err);
}

#[test]
fn a_second_collection_into_the_same_folder_is_refused_while_the_first_one_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (data, output) = (folder.path().join("data.jsonl"), folder.path().join("collection"));
    examples(&data, 18);
    let mut first = collect(&data, &output, "6", "40").spawn().unwrap();
    while !output.join("in-use").exists() {
        assert!(first.try_wait().unwrap().is_none(), "it ended before it wrote anything");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let second: Done = collect(&data, &output, "6", "40").output().unwrap().into();
    assert!(first.try_wait().unwrap().is_none(), "the first was over too soon to tell");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.code, Some(1), "{}", second.err);
    let refused = "another process collects into";
    assert!(second.err.contains(refused), "{}", second.err);
    // Whoever was killed holds nothing any more.
    let third: Done = collect(&data, &output, "2", "10").output().unwrap().into();
    assert!(!third.err.contains(refused), "{}", third.err);
}

#[test]
fn examples_that_do_not_fit_are_passed_over_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.jsonl");
    // Two fit, the third is too long for the cloud, the last for the edge as well.
    let line = |words: usize| {
        let response = "word ".repeat(words);
        format!("{{\"prompt\": \"Say something.\", \"response\": \"{response}\"}}\n")
    };
    fs::write(&data, [10, 12, 150, 400].map(line).concat()).unwrap();
    let cloud = Cloud::start(&["--cloud-model", SMALL, "--context", "128"]);
    let collected = folder.path().join("c");
    let arguments = ["router", "collect", "--data", text(&data), "-o", text(&collected)];
    let done = run(&[&arguments[..], &["--cloud", &cloud.url, "--context", "256"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("2 examples skipped"), "{}", done.err);
    let samples = Collection::read(&collected).unwrap().samples().unwrap();
    assert!(samples.iter().any(|s| s.example == 1) && samples.iter().all(|s| s.example < 2));
}

#[test]
fn from_worked_examples_to_a_router_that_keeps_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (data, collected, router) = (file("data.jsonl"), file("c"), file("r.safetensors"));
    examples(&data, 32);
    // Roll-outs that are cut off at once never end right: labels to learn from.
    let done: Done = collect(&data, &collected, "200", "1").output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let train = |objective: &str| {
        let folder = text(&collected);
        run(&[
            "router",
            "train",
            folder,
            "-o",
            text(&router),
            "--objective",
            objective,
            "--epochs",
            "4",
            "--inputs",
            "hidden+logits",
        ])
    };
    // A model that is its own cloud agrees with itself, but for ties that rounding decides: there is
    // nothing to learn.
    let samples = Collection::read(&collected).unwrap().samples().unwrap();
    let differ: Vec<_> = samples.iter().filter(|s| s.agrees == Some(false)).collect();
    let lead = |s: &Sample| s.features.last().copied().unwrap();
    assert!(
        differ.iter().all(|s| lead(s) < 0.1),
        "{:?}",
        differ.iter().map(|s| lead(s)).max_by(f32::total_cmp)
    );
    if differ.is_empty() {
        let done = train("agree");
        assert_eq!(done.code, Some(1), "{}", done.out);
        assert!(done.err.contains("collect more examples"), "{}", done.err);
    }
    let done = train("citer");
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.out.contains("AUC") && done.out.contains("τ 0.5"), "{}", done.out);
    assert!(fs::read_to_string(router.with_extension("svg")).unwrap().contains("<svg"));

    let done = run(&[
        "router",
        "calibrate",
        text(&router),
        "--prompts",
        text(&data),
        "--limit",
        "6",
        "--max-tokens",
        "32",
    ]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    // Each threshold stands beside the share that was seen with it.
    assert!(done.out.matches("% of tokens: threshold").count() >= 3, "{}", done.out);
    let about = run(&["router", "inspect", text(&router), "--json"]).json();
    assert_eq!(about["objective"], "citer");
    assert_eq!(about["inputs"], "hidden+logits");
    let told = run(&[
        "router",
        "inspect",
        text(&router),
        "--prompt",
        "Say hi.",
        "--max-tokens",
        "8",
        "--json",
    ])
    .json();
    assert!(!told["tokens"].as_array().unwrap().is_empty());

    // Another model is refused, and both are named.
    let done = run(&["run", "hi", "--router", text(&router), "--preset", "commonsenseqa"]);
    assert_eq!(done.code, Some(1), "{}", done.out);
    assert!(done.err.contains(SMALL) && done.err.contains("edge"), "{}", done.err);
}

#[test]
fn bad_routers_and_budgets_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let pickle = folder.path().join("r.safetensors");
    fs::write(&pickle, b"\x80\x04K\x01.").unwrap();
    for (arguments, code, says) in [
        (&["--router", "./none.safetensors"][..], 1, "none.safetensors"),
        (&["--router", text(&pickle)], 1, "pickle"),
        (&["--budget", "7"], 2, "7% or 0.07"),
        (&["--budget", "7%", "--threshold", "0.5"], 2, "cannot be used with"),
        (&["--preset", "poetry"], 2, "commonsenseqa"),
    ] {
        let done = run(&[&["run", "hi", "--max-tokens", "4"], arguments].concat());
        assert_eq!(done.code, Some(code), "{arguments:?}: {}", done.err);
        assert!(done.err.contains(says), "{arguments:?}: {}", done.err);
    }
}

/// A program that was handed on without its presets still works, and does not hide what it lacks.
#[test]
fn without_the_general_preset_top1_judges_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tandem");
    fs::copy(env!("CARGO_BIN_EXE_tandem"), &program).unwrap();
    let ask = || -> Done {
        let arguments = ["run", "Say hi.", "--json", "--max-tokens", "4", "--cloud-model", SMALL];
        let mut command = Command::new(&program);
        command.env("TANDEM_PAIR", "tiny").args(arguments).output().unwrap().into()
    };
    let done = ask();
    let report = done.json();
    assert_eq!(report["router"], "top1");
    let reason = report["router_fallback"].as_str().unwrap();
    assert!(reason.contains("no preset \"general\""), "{reason}");
    assert!(done.err.contains(&format!("note: {reason}: using the router top1")), "{}", done.err);
    let summary = done.err.lines().last().unwrap();
    assert!(summary.contains("judged by top1 for want of a trained router"), "{summary}");

    // With the preset beside it, it finds it.
    let general = folder.path().join("presets/general");
    fs::create_dir_all(&general).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/general");
    for file in ["preset.toml", "router.safetensors"] {
        fs::copy(shipped.join(file), general.join(file)).unwrap();
    }
    let done = ask();
    let report = done.json();
    assert_eq!(report["router"], "general");
    assert!(report.get("router_fallback").is_none(), "{report}");
    assert!(!done.err.contains("note:") && done.err.contains("judged by general"), "{}", done.err);

    // One that is damaged is refused: nobody would notice that another judges.
    fs::write(general.join("router.safetensors"), "").unwrap();
    let done = ask();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("damaged or was replaced"), "{}", done.err);
}

const QUESTION: &str = "Question: Where would you put a plate after washing it?\nChoices:\n\
    (a) cupboard\n(b) oven\n(c) garden\n(d) river\n(e) bed\nPlease format your response in the \
    following way: [Explanation]. Therefore, the answer is answer (label).";

fn sources(report: &Value) -> Vec<String> {
    let tokens = report["tokens"].as_array().unwrap();
    tokens.iter().map(|t| t["source"].as_str().unwrap().to_owned()).collect()
}

/// A router that is not used would pass every other test.
#[test]
fn the_trained_router_asks_elsewhere_than_chance_does() {
    let ask = |arguments: &[&str]| {
        let base = ["run", QUESTION, "--preset", "commonsenseqa", "--json", "--seed", "7"];
        run(&[&base, arguments].concat()).json()
    };
    // So much that it asks whatever the text.
    let learned = ask(&["--budget", "40%"]);
    assert_eq!(learned["router"], "router");
    assert_eq!(learned["budget"], 0.4);
    assert!(learned["stats"]["asks"].as_u64().unwrap() > 0, "{learned}");
    let again = ask(&["--budget", "40%"]);
    assert_eq!(sources(&learned), sources(&again));
    let random = ask(&["--router", "random", "--budget", "40%"]);
    assert_ne!(sources(&learned), sources(&random));
}
